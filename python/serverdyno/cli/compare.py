"""`dyno compare EXPERIMENT [EXPERIMENT]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno compare experiments/before experiments/after --fail-if-slower"
SLOWER = 1
CANT_TELL = 3


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
            "does not rule out a slowdown of the plan's minimum effect (2 % at least).",
        ),
    ] = False,
) -> None:
    """Compare the configurations of one experiment with each other, or two experiments."""
    from serverdyno import report  # noqa: PLC0415
    from serverdyno.analysis.slowdown import Slowdown  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.report.views import text  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    compared = report.compare([report.build(Experiment.open(folder)) for folder in experiments])
    out = standard_output()
    text.render_compared(compared, out)
    if fail_if_slower:
        say(out, f"verdict: {compared.verdict}; {compared.slowdown}")
        raise typer.Exit({Slowdown.SLOWER: SLOWER, Slowdown.CANT_TELL: CANT_TELL}.get(compared.slowdown, 0))
