"""The rows and columns of a table that compares configurations by a time of each mix.

Not for how they are compared: `figures/times_compared.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from serverdyno import wording
from serverdyno.analysis.levels import AtLevel
from serverdyno.report.figures.times_compared import TimesCompared, change_percent
from serverdyno.report.model import Cell, Column
from serverdyno.report.words import verdicts

VERDICTS_NOTE = "Verdicts hold together for all rows (Holm 1979); intervals stand alone."
"""The last sentence of the notes of such a table."""


def columns(level: Column, time: Column, change: Column) -> tuple[Column, ...]:
    """Return the columns. `time`: its cells have the base's time in their second line."""
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
    """Return one row a pair and load level. `level`: its number of clients, or its offered rate."""
    return tuple(
        (
            Cell(pair.other, f"against {pair.base}"),
            Cell(f"{level(pair, found):,}"),
            Cell(wording.significant(1 / found.other), wording.significant(1 / found.base)),
            Cell(wording.change(change_percent(found.percent)), strong=True),
            Cell(wording.change_span(change_percent(found.high_percent), change_percent(found.low_percent))),
            Cell(found.verdict.value, "; ".join(verdicts.reason(each) for each in found.obstacles)),
        )
        for pair in pairs
        for found in pair.found
    )
