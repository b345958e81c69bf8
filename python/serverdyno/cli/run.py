"""`dyno run PLAN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno run plans/quick-static.toml --scale 0.5"


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("run", epilog=EXAMPLE)(run)


def run(
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.")],
    scale: Annotated[
        float | None,
        typer.Option(help="Shorten every mix to this share of its length; all figures then say so."),
    ] = None,
    suite: Annotated[
        Path | None,
        typer.Option(help="A suite's file, in place of the plan's suite; see `dyno suite extend`."),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="Folder of the experiment; otherwise a new one under experiments/.")
    ] = None,
) -> None:
    """Carry out a plan: start servers, load them, write a report."""
    from serverdyno import suites  # noqa: PLC0415
    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.plan.document import read_text  # noqa: PLC0415
    from serverdyno.plan.load import parse_plan  # noqa: PLC0415
    from serverdyno.runner.create import create_experiment, default_folder  # noqa: PLC0415
    from serverdyno.servers.registry import settings_types  # noqa: PLC0415

    text = read_text(plan)
    own = None if suite is None else suites.parse(read_text(suite), str(suite))
    checked = parse_plan(text, str(plan), settings_types(), scale, own)
    folder = into or default_folder(checked.name)
    with create_experiment(folder, text, checked, own or suites.load(checked.suite)) as experiment:
        carry_out.carry_out_and_report(experiment)
