"""`dyno load URL`. Its options are fields of suites and plans: see `plan/quick.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serverdyno.cli.fields import add
from serverdyno.cli.habits import LoadCommand
from serverdyno.cli.run import Fleet

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from serverdyno.plan.model import Plan, Suite

ReportToo = Annotated[
    bool,
    typer.Option("--report", help="Also write the page with charts; dyno report can also write it later."),
]
Into = Annotated[Path | None, typer.Option(help="Folder of the experiment.")]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the result as one JSON document, as in docs/report.schema.json."),
]
EXAMPLE = "Example: dyno load http://127.0.0.1:8080/ --clients 1,4,8,16 --length 10s"


def register(app: typer.Typer) -> None:
    add(app, "load", load, _fields, epilog=EXAMPLE, cls=LoadCommand)


def _fields() -> Mapping[str, FieldInfo]:
    from serverdyno.plan.quick import fields  # noqa: PLC0415

    return fields()


def load(
    url: Annotated[
        str,
        typer.Argument(
            help="The URL: http[s]://host[:port]/path. Letters outside ASCII are sent percent-encoded, in UTF-8."
        ),
    ],
    given: dict[str, Any],
    http2: Annotated[bool, typer.Option("--http2", help="The same as --http 2.")] = False,
    fleet: Fleet = None,
    report: ReportToo = False,
    into: Into = None,
    as_json: AsJson = False,
) -> None:
    """Load one URL with more and more clients, and show throughput and latency at each level."""
    from serverdyno.plan.quick import quick_plan  # noqa: PLC0415

    def planned() -> tuple[Plan, Suite, str]:
        return quick_plan(url, given | ({"http": "2"} if http2 else {}))

    measure(planned, fleet, report=report, into=into, as_json=as_json)


def measure(
    planned: Callable[[], tuple[Plan, Suite, str]],
    fleet: Path | None,
    *,
    report: bool,
    into: Path | None,
    as_json: bool,
) -> None:
    """Run a plan that was built from options, and show its result."""
    from serverdyno.cli import carry_out, extras  # noqa: PLC0415
    from serverdyno.plan.load import with_fleet  # noqa: PLC0415
    from serverdyno.run.create import create_experiment  # noqa: PLC0415

    if report or as_json:
        extras.require("report")
    plan, suite, text = planned()
    if fleet is not None:
        plan = with_fleet(plan, fleet)
    with create_experiment(into, text, plan, [suite]) as experiment:
        carry_out.carry_out_and_report(experiment, page=report, new=True, as_json=as_json)
