"""`dyno compare EXPERIMENT [EXPERIMENT]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serverdyno.errors import UserError

EXAMPLE = "Example: dyno compare experiments/before experiments/after --fail-if-slower"
SLOWER = 1
CANT_TELL = 3
TOLERATED_PERCENT = 2.0  # as in analysis/slowdown.py, which takes most of a second to import


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("compare", epilog=EXAMPLE)(compare)


def compare(
    experiments: Annotated[
        list[Path], typer.Argument(help="One: its configurations. Two: the same ones in both.")
    ],
    fail_if_slower: Annotated[
        bool,
        typer.Option(
            "--fail-if-slower",
            help="Say the verdict over all comparisons with the base. Exit with 1 where any is slower, corrected for "
            "their number; with 3 where that can't be told: not comparable, too few repetitions, or an interval that "
            "does not rule out a slowdown of the threshold.",
        ),
    ] = False,
    threshold_percent: Annotated[
        float,
        typer.Option(
            "--threshold",
            min=0.0,
            help="Of --fail-if-slower: the slowdown that must be ruled out, in percent; the plan's minimum effect "
            "where that is larger.",
        ),
    ] = TOLERATED_PERCENT,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="A summary for GitHub on standard output.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Compare the configurations of one experiment with each other, or two experiments."""
    from rich.console import Console  # noqa: PLC0415

    from serverdyno import report  # noqa: PLC0415
    from serverdyno.analysis.slowdown import Slowdown  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.report.views import comparison, text  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    if markdown and as_json:
        raise UserError("--markdown and --json exclude each other")
    reports = [report.build(Experiment.open(folder)) for folder in experiments]
    compared = report.compare(reports, threshold_percent)
    out = standard_output()
    if markdown:
        typer.echo(comparison.as_markdown(compared), nl=False)
    elif as_json:
        typer.echo(comparison.as_json(compared))
    else:
        text.render_compared(compared, out)
    if fail_if_slower:
        # Not among what a program reads.
        out = Console(stderr=True) if markdown or as_json else out
        say(out, f"verdict: {compared.verdict}; {compared.slowdown}")
        raise typer.Exit({Slowdown.SLOWER: SLOWER, Slowdown.CANT_TELL: CANT_TELL}.get(compared.slowdown, 0))
