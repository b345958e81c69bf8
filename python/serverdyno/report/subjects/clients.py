"""Throughput and fairness of single clients of file servers, and the share of requests that their caches answered.

The figures come from the records' client and call rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from serverdyno import units, wording
from serverdyno.analysis import curve
from serverdyno.analysis.fairness import jain
from serverdyno.plan.protocols.work import stayed
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.results import LevelFigures, Results
from serverdyno.report.model import Cell, Column, Part, Section, Table
from serverdyno.report.parts import FAIRNESS, NAME, spread_cell
from serverdyno.report.subjects import breaks, outages
from serverdyno.store.records import LevelRecord

CLIENTS = Column("Clients")


def applies(results: Results) -> bool:
    return bool(results.source.head.levels) and results.source.head.suite.work.shows_clients


def build(results: Results) -> Part:
    # For outages, the table of handles is in the summary.
    handles = outages.handles_table(results, Over.SUM) if results.source.cut is None else None
    tables = (_clients(results), _cache(results), _calls(results), breaks.table(results), handles)
    there = tuple(table for table in tables if table is not None)
    return Part((Section("clients", "Individual clients and their caches", tables=there, appendix=True),))


def _stayed(record: LevelRecord, *, in_operations: bool) -> list[float]:
    """Return operations/s or Mbit/s of each client that stayed until the window closed."""
    return [
        row.operations / record.window_s
        if in_operations
        else units.mbit_per_s((row.bytes_read or 0) + row.bytes_written, record.window_s)
        for row in record.by_client
        if stayed(row, record)
    ]


def _clients(results: Results) -> Table:
    unit = results.terms.unit
    columns = (
        NAME,
        CLIENTS,
        Column("Mean", f"{unit} per client"),
        Column("Smallest client", unit),
        Column("Largest client", unit),
        Column("Standard deviation", unit),
        Column("Fairness", "Jain's index"),
        Column("Clients left", "all repetitions"),
    )
    rows = tuple(row for level in results.levels if (row := _client_row(results, level)))
    notes = (
        "The table covers only clients that stayed to the end of the load level. Mean, standard deviation and "
        "fairness are computed per repetition, so they exclude differences between repetitions. Smallest and "
        "largest: over all clients and repetitions.",
        FAIRNESS,
    )
    title = "Throughput of individual clients"
    return Table("clients", 0, title, basis(results), columns, rows, notes, key_columns=2)


def _client_row(results: Results, level: LevelFigures) -> tuple[Cell, ...]:
    """Return the table row of a level's clients that stayed; empty if none did.

    Mean, deviation and fairness are computed per repetition, so that differences between runs do not count as
    differences between clients.
    """
    terms = results.terms
    runs = [
        run
        for record in results.records(level.configuration, level.index)
        if (run := _stayed(record, in_operations=terms.throughput_counts_operations))
    ]
    if not runs:
        return ()
    each = [found for run in runs if (found := curve.spread(run)) is not None]
    return (
        Cell(level.configuration),
        Cell(wording.whole(level.clients)),
        spread_cell(curve.spread([run.mean for run in each])),
        Cell(terms.written(min(run.minimum for run in each))),
        Cell(terms.written(max(run.maximum for run in each))),
        spread_cell(curve.spread([run.deviation for run in each if run.deviation is not None])),
        spread_cell(curve.spread([index for run in runs if (index := jain(run)) is not None]), wording.index),
        Cell(wording.whole(level.clients_left)),
    )


def _cache(results: Results) -> Table:
    columns = (
        NAME,
        CLIENTS,
        Column("Passes"),
        Column("Operations", "of applications"),
        Column("Calls", "below the cache"),
        Column("Requests", "of the protocol"),
        Column("Calls per operation"),
        Column("Content checked", "MB"),
    )
    rows = tuple(
        _cache_row(level, results.records(level.configuration, level.index)) for level in _peaks(results)
    )
    notes = (
        "Counts are sums over all repetitions of the load level with the configuration's peak, ramps included. "
        "Passes: complete runs through the workload. Content checked: data that was read and compared byte by byte.",
    )
    title = "Requests that the client cache avoided"
    return Table("cache", 0, title, basis(results, Over.SUM), columns, rows, notes)


def _peaks(results: Results) -> list[LevelFigures]:
    return [result.peak for result in results.configurations if result.peak is not None]


def _cache_row(level: LevelFigures, records: Sequence[LevelRecord]) -> tuple[Cell, ...]:
    operations = sum(record.operations_total for record in records)
    calls = _by_kind(records).total()
    return (
        Cell(level.configuration),
        Cell(wording.whole(level.clients)),
        Cell(wording.whole(sum(record.passes or 0 for record in records))),
        Cell(wording.whole(operations)),
        Cell(wording.whole(calls)),
        Cell(wording.whole(sum(row.count for record in records for row in record.requests))),
        Cell(wording.significant(calls / operations if operations else None)),
        Cell(wording.rate(sum(record.bytes_checked or 0 for record in records) / 1e6)),
    )


def _by_kind(records: Sequence[LevelRecord]) -> Counter[str]:
    found: Counter[str] = Counter()
    for record in records:
        for row in record.calls:
            found[row.call] += row.done + row.not_there + row.failed
    return found


def _calls(results: Results) -> Table:
    peaks = _peaks(results)
    records = [results.records(level.configuration, level.index) for level in peaks]
    operations = [sum(record.operations_total for record in of_level) for of_level in records]
    calls = [_by_kind(of_level) for of_level in records]
    columns = (
        Column("Call", numeric=False),
        *(Column(level.configuration, "per 1,000 operations") for level in peaks),
    )
    rows = tuple(
        (
            Cell(kind),
            *(
                Cell(wording.significant(1000 * found[kind] / done if done else None))
                for found, done in zip(calls, operations, strict=True)
            ),
        )
        for kind in dict.fromkeys(kind for found in calls for kind in found)
        if any(found[kind] for found in calls)
    )
    notes = (
        "Calls that the clients sent to the server, below any client cache, at each configuration's peak, "
        "ramps included. Operations: successful operations of the applications.",
    )
    under = basis(results, Over.SUM)
    return Table("calls", 0, "Calls that reached the server", under, columns, rows, notes)
