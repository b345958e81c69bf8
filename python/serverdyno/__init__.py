"""Serverdyno: a dynamometer for servers. `ARCHITECTURE.md` describes its structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from serverdyno.frames import Records

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(folder: str | Path) -> Records:
    """Open the records of an experiment as Arrow tables: levels, clients, operations, timeline, errors, histograms.

    Raises UserError if the folder is not an experiment, and DynoError if a record is damaged.
    """
    from serverdyno.frames import open_experiment  # noqa: PLC0415 (a run needs none of it)

    return open_experiment(folder)
