"""`dyno compare EXPERIMENT [EXPERIMENT]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno compare experiments/before experiments/after --fail-if-slower"
SLOWER = 1


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
            help="Say the verdict over all comparisons with the base, and exit with 1 where any is slower, corrected "
            "for their number, or where something is missing. With one repetition no interval is given.",
        ),
    ] = False,
) -> None:
    """Compare the configurations of one experiment with each other, or two experiments."""
    from serverdyno import report  # noqa: PLC0415
    from serverdyno.analysis.improvement import Verdict  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.report.views import text  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    compared = report.compare([report.build(Experiment.open(folder)) for folder in experiments])
    out = standard_output()
    text.render_compared(compared, out)
    if fail_if_slower:
        say(out, f"verdict: {compared.verdict}")
        if compared.verdict in (Verdict.SLOWER, Verdict.NOT_COMPARABLE):
            raise typer.Exit(SLOWER)
