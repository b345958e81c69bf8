"""`dyno report EXPERIMENT`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno report experiments/quick-static-20261120-101500"


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("report", epilog=EXAMPLE)(report)


def report(
    experiment: Annotated[Path, typer.Argument(help="Folder of an experiment, finished or not.")],
) -> None:
    """Write the report anew from the records, and show its table."""
    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    if not carry_out.show_and_write(Experiment.open(experiment)):
        raise UserError(f"{experiment} has no finished mix yet", hint="`dyno resume` goes on with it.")
