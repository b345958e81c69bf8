"""`dyno report EXPERIMENT`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno report experiments/quick-static-20261120-101500 --pdf"


def register(app: typer.Typer) -> None:
    app.command("report", epilog=EXAMPLE)(report)


def report(
    experiment: Annotated[Path, typer.Argument(help="Folder of an experiment, finished or not.")],
    pdf: Annotated[bool, typer.Option("--pdf", help="Also write report.pdf.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Also write a summary in Markdown: report.md.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Also write report.json, as in docs/report.schema.json.")
    ] = False,
    beside: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:FIGURE]",
            help=(
                "Draw this published report's curves, or its figures by number of processors, next to the "
                "experiment's. With FIGURE, draw only that figure, for example 2003-veritest-iis:4. The two are not "
                "comparable."
            ),
        ),
    ] = None,
    as_published: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Also write a page as-NAME.html with each figure of this published report, the "
            "experiment's figure below it, and which of its claims hold today.",
        ),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="FOLDER",
            help="Another experiment for the page of --as; repeatable. Figures of different experiments are "
            "never compared.",
        ),
    ] = None,
) -> None:
    """Write the report from an experiment's records, and show its table.

    The HTML page is always written. Other formats are removed unless requested.
    """
    from serverdyno.cli import carry_out, extras, reenactment  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    if pdf:
        extras.require("pdf")
    asked = {"report.pdf": pdf, "report.md": markdown, "report.json": as_json}
    views = [name for name, wanted in asked.items() if wanted]
    # Check the name before anything is written.
    wanted_form = None if as_published is None else reenactment.load(as_published)
    if also and wanted_form is None:
        raise UserError("--with needs --as", hint="Add --as NAME; `dyno published` lists the names.")
    opened = Experiment.open(experiment)
    others = [Experiment.open(each) for each in also or ()]
    built = carry_out.show_and_write(opened, views, beside)
    if built is None:
        again = f"dyno resume {shlex.quote(str(experiment))}"
        raise UserError(f"{experiment} has no finished load level yet", hint=f"To continue it: {again}")
    if wanted_form is not None:
        from serverdyno.report import build  # noqa: PLC0415

        reenactment.write(opened.report_folder(), [built, *map(build, others)], *wanted_form)
