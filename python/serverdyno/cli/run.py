"""`dyno run PLAN`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serverdyno.cli.live import Live

if TYPE_CHECKING:
    from serverdyno.plan.model import Plan

Fleet = Annotated[
    Path | None, typer.Option(help="Folder of the fleet whose nodes generate the load; see dyno fleet.")
]
OtherClients = Annotated[
    str | None,
    typer.Option(
        "--clients", "-c", help="Use these numbers of clients instead of the suite's: 1,2,4. Reports show it."
    ),
]
EXAMPLE = "Example: dyno run plans/quick-static.toml --scale 0.5"


def register(app: typer.Typer) -> None:
    app.command("run", epilog=EXAMPLE)(run)


def run(
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.")],
    scale: Annotated[
        float | None,
        typer.Option(
            help="Shorten every load level to this share of its length. Every figure shows the scale."
        ),
    ] = None,
    suite: Annotated[
        Path | None,
        typer.Option(
            help="Use this suite instead of the plan's: a name that `dyno suites` lists, or a file."
        ),
    ] = None,
    clients: OtherClients = None,
    fleet: Fleet = None,
    testbed: Annotated[
        str | None,
        typer.Option(
            help="namespaces:N: generate the load from N hosts in network namespaces of this machine; requires "
            "root."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="A plan to compare with. Both plans run interleaved in one experiment, and may differ only "
            "in their servers."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Repeat at least six times, until the widest interval of an average is at most +- this "
            "percentage, such as 2%."
        ),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="Folder of the experiment. Default: a new one in experiments/.")
    ] = None,
    live: Live = None,
) -> None:
    """Measure a plan: start its servers, load them, and write a report."""
    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.plan.against import against as merged  # noqa: PLC0415
    from serverdyno.plan.load import load_plan, until_precise, with_fleet, with_testbed  # noqa: PLC0415
    from serverdyno.plan.testbed import of_option  # noqa: PLC0415
    from serverdyno.run.create import create_experiment  # noqa: PLC0415
    from serverdyno.servers.registry import settings_types  # noqa: PLC0415

    loaded = load_plan(plan, settings_types(), scale, suite, clients)
    if against is not None:
        loaded = merged(loaded, load_plan(against, settings_types(), scale, suite, clients), settings_types())
    if fleet is not None:
        loaded = replace(loaded, plan=with_fleet(loaded.plan, fleet))
    if testbed is not None:
        made = with_testbed(loaded.plan, of_option(testbed), settings_types(), loaded.suites)
        loaded = replace(loaded, plan=made)
    if until is not None:
        loaded = replace(loaded, plan=until_precise(loaded.plan, until, loaded.suites))
    check_published(loaded.plan)
    with create_experiment(into, loaded.text, loaded.plan, loaded.suites) as experiment:
        carry_out.carry_out_and_report(experiment, new=True, live=live)


def check_published(plan: Plan) -> None:
    """Raise UserError if the published report that a plan names is unknown."""
    if plan.published is None:
        return
    from serverdyno import published  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.plan.document import unknown_name  # noqa: PLC0415

    if plan.published not in (names := published.names()):
        raise UserError(f"published: {unknown_name('published report', plan.published, names)}")
