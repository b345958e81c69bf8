"""`dyno resume EXPERIMENT`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serverdyno.cli.live import Live

EXAMPLE = "Example: dyno resume experiments/quick-static-20261120-101500"


def register(app: typer.Typer) -> None:
    app.command("resume", epilog=EXAMPLE)(resume)


def resume(
    experiment: Annotated[Path, typer.Argument(help="Folder of an interrupted experiment.")],
    live: Live = None,
) -> None:
    """Continue an experiment after an interruption, failed runs or damaged records.

    Damaged records are renamed, not deleted, and their levels are measured again.
    """
    from rich.console import Console  # noqa: PLC0415

    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.cli.output import say  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    with Experiment.open(experiment, writable=True) as opened:
        for problem in opened.set_aside_damaged():
            say(Console(stderr=True), problem)
        carry_out.carry_out_and_report(opened, live=live)
