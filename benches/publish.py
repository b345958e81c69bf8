"""The dated folder of one execution: README.md for readers, CSV files for who computes with it.

`raw.csv` has every run, also those that were repeated; `summary.csv` every figure with its spread; `percentiles.csv`
and `commands.csv` what the other tables are made of.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path

from benches.accuracy import Comparison
from benches.promises import Waiting
from benches.ratios import spread
from benches.readme import readme
from benches.rounds import Effort, Run
from benches.speed import FIGURES, cases
from serverdyno.probes.host import host_facts

RUN_COLUMNS = tuple(entry.name for entry in fields(Run) if entry.name != "details")
NOT_NAMES = {"amd", "intel", "r", "tm", "cpu", "processor", "core", "with", "arm"}


@dataclass(slots=True)
class Results:
    """Everything that was measured, in the order of measuring."""

    effort: Effort
    command: list[str]
    runs: list[Run] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    waits: list[Waiting] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def folder_for(parent: Path) -> Path:
    """`<date>-<machine>` in `parent`, with a number where there is one already. Makes it."""
    name = f"{datetime.now(UTC):%Y-%m-%d}-{machine_name()}"
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
