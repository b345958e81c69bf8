"""`dyno resume EXPERIMENT`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno resume experiments/quick-static-20261120-101500"


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("resume", epilog=EXAMPLE)(resume)


def resume(experiment: Annotated[Path, typer.Argument(help="Folder of an interrupted experiment.")]) -> None:
    """Go on with an experiment that was interrupted or had failed runs."""
    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    with Experiment.open(experiment, writable=True) as opened:
        carry_out.carry_out_and_report(opened)
