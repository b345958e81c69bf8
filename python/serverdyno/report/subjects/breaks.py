"""Breaks, by which a file server takes back its clients' caching rights, and the clients' response times to breaks.

The figures come from the records' break columns and call rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures import histograms
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Table
from serverdyno.report.parts import NAME
from serverdyno.store.records import LevelRecord

COLUMNS = (
    NAME,
    Column("Clients"),
    Column("Breaks"),
    Column("Breaks", "per 1,000 operations"),
    Column("Breaks that need an answer"),
    Column("Breaks answered"),
    Column("Answer p50", "ms"),
    Column("Answer p99", "ms"),
    Column("Slowest answer", "ms"),
    Column("Locks refused"),
)
NOTES = (
    "Counts are sums over all repetitions, ramps included. A break revokes one client's right to cache because "
    "another client wants the file. If it needs an answer, the server and the other client wait for it. "
    "Breaks answered: the client sent an answer. It answered the other breaks by closing the file.",
    "Answer p50, p99, slowest: time from the arrival of a break until the client sent its answer. Before that, the "
    "client writes its cached data back. Locks refused: another client held a lock on the range, so the "
    "client asked again.",
)


def table(results: Results) -> Table | None:
    """Return a table, one row per load level; None without breaks."""
    if not any(record.breaks for record in results.used):
        return None
    rows = []
    for level in results.levels:
        records = results.records(level.configuration, level.index)
        if known := [record for record in records if record.breaks is not None]:
            rows.append(_row(level.configuration, known))
    title, under = "Caching rights that servers revoked", basis(results, Over.SUM)
    return Table("breaks", 0, title, under, COLUMNS, tuple(rows), NOTES, key_columns=2)


def _row(configuration: str, records: Sequence[LevelRecord]) -> tuple[Cell, ...]:
    breaks = sum(record.breaks or 0 for record in records)
    operations = sum(record.operations_total for record in records)
    times = histograms.times([record.break_time_hdr for record in records if record.break_time_hdr])
    p50, _, p99, _ = (None,) * 4 if times is None else times.percentiles_ms
    refused = sum(row.failed for record in records for row in record.calls if row.call == "lock")
    return (
        Cell(configuration),
        Cell(wording.whole(records[0].clients)),
        Cell(wording.whole(breaks)),
        Cell(wording.significant(1000 * breaks / operations if operations else None)),
        Cell(wording.whole(sum(record.breaks_to_answer or 0 for record in records))),
        Cell(wording.whole(sum(record.breaks_answered or 0 for record in records))),
        Cell(wording.significant(p50)),
        Cell(wording.significant(p99)),
        Cell(wording.significant(None if times is None else times.max_ms)),
        Cell(wording.whole(refused)),
    )
