"""The dated folder of one execution of the benchmarks: README.md for people, CSV files for programs.

`raw.csv` contains every run, including disturbed ones; `summary.csv` every figure with its spread; `percentiles.csv`
the data of the table of response times; `starts.csv` every start of a command.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from datetime import UTC, datetime
from pathlib import Path

from benches.accuracy import Comparison
from benches.readme import readme
from benches.results import Results
from benches.rounds import Run
from benches.startup import Start
from serverdyno.probes.host import host_facts

RUN_COLUMNS = tuple(entry.name for entry in fields(Run) if entry.name != "details")
DETAILS = (
    *("first_error", "reconnects", "rss_growth_bytes", "server_rss_growth_bytes"),
    *("bytes_in_window", "messages", "operations", "bytes_checked"),
)
SUMMARY_COLUMNS = (
    *("case", "subject", "figure", "n", "median", "min", "max", "interval_low", "interval_high"),
    *("target", "verdict"),
)
# Words in a processor's name that do not distinguish processors.
COMMON_WORDS = {"amd", "intel", "r", "tm", "cpu", "processor", "core", "with", "arm"}


def folder_for(parent: Path) -> Path:
    """Create the folder `<date>-<machine>` in `parent`, with a number if it already exists."""
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


def machine_name() -> str:
    """Return the machine's name in folders: `2-core-epyc`."""
    cpu = host_facts()["cpu"]
    assert isinstance(cpu, dict)
    words = re.findall(r"[a-z0-9]+", str(cpu["model"] or "cpu").lower().partition("@")[0])
    telling = [word for word in words if word not in COMMON_WORDS]
    return "-".join([str(os.cpu_count()), "core", *telling[:2]])


def write(results: Results, folder: Path) -> None:
    """Write all files into an existing folder."""
    _csv(folder / "raw.csv", (*RUN_COLUMNS, *DETAILS), map(_raw, results.runs))
    _csv(folder / "summary.csv", SUMMARY_COLUMNS, _summary(results))
    percentiles = tuple(entry.name for entry in fields(Comparison))
    _csv(folder / "percentiles.csv", percentiles, map(astuple, results.comparisons))
    _csv(folder / "starts.csv", tuple(entry.name for entry in fields(Start)), map(astuple, results.starts))
    (folder / "README.md").write_text(readme(results, folder.name), encoding="utf-8")


def _raw(run: Run) -> Sequence[object]:
    return *(getattr(run, name) for name in RUN_COLUMNS), *(run.details.get(name) for name in DETAILS)


def _summary(results: Results) -> Iterable[Sequence[object]]:
    for row in results.rows():
        low, high = row.spread.interval or (None, None)
        spread = row.spread.n, row.spread.median, row.spread.low, row.spread.high, low, high
        yield row.case, row.subject, row.figure, *spread, row.target, row.verdict


def _csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
