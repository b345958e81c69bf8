"""`dyno compare EXPERIMENT [EXPERIMENT]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serverdyno.errors import UserError

EXAMPLE = "Example: dyno compare experiments/before experiments/after --fail-if-slower"
SLOWER = 1
CANT_TELL = 3
TOLERATED_PERCENT = 2.0  # as in analysis/slowdown.py, whose import takes most of a second


def register(app: typer.Typer) -> None:
    app.command("compare", epilog=EXAMPLE)(compare)


def compare(
    experiments: Annotated[
        list[Path],
        typer.Argument(help="One experiment: compare its configurations. Two: compare equal names in both."),
    ],
    fail_if_slower: Annotated[
        bool,
        typer.Option(
            "--fail-if-slower",
            help=(
                "Judge all comparisons with the baseline, corrected for their number. Exit with 1 if any "
                "is slower. Exit with 3 if there is no answer: not comparable, too few repetitions, or an "
                "interval that does not rule out a slowdown."
            ),
        ),
    ] = False,
    threshold_percent: Annotated[
        float,
        typer.Option(
            "--threshold",
            min=0.0,
            help="For --fail-if-slower: the slowdown to rule out, in percent. A larger minimum effect in "
            "the plan takes precedence.",
        ),
    ] = TOLERATED_PERCENT,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a summary for GitHub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare the configurations of one experiment with each other, or two experiments."""
    from rich.console import Console  # noqa: PLC0415

    from serverdyno import report  # noqa: PLC0415
    from serverdyno.analysis.slowdown import Slowdown  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.report.views import comparison, text  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    if markdown and as_json:
        raise UserError("--markdown and --json can't be used together", hint="Give one of them.")
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
        # Programs that read standard output do not expect this line.
        out = Console(stderr=True) if markdown or as_json else out
        say(out, f"verdict: {compared.verdict}; {compared.slowdown}")
        raise typer.Exit({Slowdown.SLOWER: SLOWER, Slowdown.CANT_TELL: CANT_TELL}.get(compared.slowdown, 0))
