"""`dyno compare EXPERIMENT [EXPERIMENT]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno compare experiments/before experiments/after"


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("compare", epilog=EXAMPLE)(compare)


def compare(
    experiments: Annotated[
        list[Path], typer.Argument(help="One: its configurations. Two: the same ones in both.")
    ],
) -> None:
    """Compare configurations of one experiment with its first, or two experiments with each other."""
    from serverdyno import report  # noqa: PLC0415
    from serverdyno.cli.output import standard_output  # noqa: PLC0415
    from serverdyno.report import text  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    compared = report.compare([report.build(Experiment.open(folder)) for folder in experiments])
    text.render_compared(compared, standard_output())
