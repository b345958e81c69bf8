"""Comparison of configurations by a time at each load level, and the table of the comparison.

The comparison uses the inverse of the time, so that *faster* means a shorter time. Levels without a time are left out.
Outages and open load use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from serverdyno import wording
from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.improvement import Runs
from serverdyno.analysis.levels import AtLevel, at_levels
from serverdyno.analysis.pairs import Pair, Side
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Cell, Column
from serverdyno.report.subjects.differences import reason
from serverdyno.store.records import LevelRecord

VERDICTS_NOTE = "Verdicts are corrected for all rows of the table (Holm 1979); intervals are not."
"""The last sentence in the notes of a table of compared times."""


@dataclass(frozen=True, slots=True)
class TimesCompared:
    """The comparison of two configurations. `found`: the levels at which both have a time in every repetition."""

    base: str
    other: str
    found: tuple[AtLevel, ...]


def side_of_times(
    side: Side, result: ConfigurationResult, results: Results, time: Callable[[LevelRecord], float | None]
) -> Side:
    """Return a side with 1 / `time` as the figure of each level; NaN at levels where a repetition has no time."""
    places = {level.index: place for place, level in enumerate(result.levels) if level is not None}
    times = [(record, time(record)) for record in results.records(result.name)]
    unknown = {record.level for record, found in times if not found}
    matrix = np.full(result.runs.throughput.shape, np.nan)
    for record, found in times:
        if found and record.level not in unknown:
            matrix[result.runs.repetitions.index(record.repetition), places[record.level]] = 1 / found
    return replace(side, runs=Runs(result.runs.repetitions, matrix))


def compared(
    pairs: Sequence[Pair], *, paired: bool, minimum_percent: float, between: Contrast | None = None
) -> tuple[TimesCompared, ...]:
    """Compare the second side of each pair with the first, with verdicts corrected for all levels and pairs."""
    found = at_levels(pairs, paired=paired, minimum_percent=minimum_percent, between=between)
    return tuple(
        TimesCompared(base.name, other.name, levels)
        for (base, other), levels in zip(pairs, found, strict=True)
    )


def change_percent(speed_percent: float | None) -> float | None:
    """Return a difference in speed as the change of the time: +100 % in speed is -50 % in time."""
    return None if speed_percent is None else (1 / (1 + speed_percent / 100) - 1) * 100


def undecided(pairs: Sequence[TimesCompared]) -> bool:
    return all(level.low_percent is None for pair in pairs for level in pair.found)


def columns(level: Column, time: Column, change: Column) -> tuple[Column, ...]:
    """Return the columns. The cells of `time` show the base's time in their second line."""
    return (
        Column("Configuration", "against its base", numeric=False),
        level,
        time,
        change,
        Column("95 % interval"),
        Column("Verdict", numeric=False),
    )


def rows(
    pairs: Sequence[TimesCompared], level: Callable[[TimesCompared, AtLevel], int]
) -> tuple[tuple[Cell, ...], ...]:
    """Return the rows, one per pair and load level. `level` returns the number of clients or the offered rate."""
    return tuple(
        (
            Cell(pair.other, f"against {pair.base}"),
            Cell(wording.whole(level(pair, found))),
            Cell(wording.significant(1 / found.other), wording.significant(1 / found.base)),
            Cell(wording.change(change_percent(found.percent)), strong=True),
            Cell(wording.change_span(change_percent(found.high_percent), change_percent(found.low_percent))),
            Cell(found.verdict.value, "; ".join(reason(each) for each in found.obstacles)),
        )
        for pair in pairs
        for found in pair.found
    )
