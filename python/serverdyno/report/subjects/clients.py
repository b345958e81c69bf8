"""Client by client: how much each moved, and how evenly they were served; what the client cache kept from the server.

Of file servers; the figures follow from the rows of clients and of calls of the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno import units, wording
from serverdyno.analysis import curve
from serverdyno.analysis.fairness import jain
from serverdyno.protocols.work import stayed
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Cell, Column, Part, Section, Table
from serverdyno.report.parts import NAME, spread_cell
from serverdyno.report.subjects import breaks, outages
from serverdyno.store.records import MixRecord

CLIENTS = Column("Clients")


@dataclass(frozen=True, slots=True)
class PerClient:
    """Throughput of single clients in one mix of one configuration; those that left are not in it.

    `mean`, `deviation` and `fairness`: over the repetitions, of the clients of each by itself, so that what differs
    from run to run is not taken for one between clients. `smallest`, `largest`: of any client in any repetition.
    """

    configuration: str
    clients: int
    mean: curve.Spread
    smallest: float
    largest: float
    deviation: curve.Spread | None
    fairness: curve.Spread | None
    left: int


@dataclass(frozen=True, slots=True)
class Saved:
    """Calls of applications, calls below the cache, and requests of the protocol in one mix, over its repetitions."""

    configuration: str
    clients: int
    operations: int
    calls: int
    requests: int
    passes: int
    bytes_checked: int
    by_call: Counter[str]


def applies(results: Results) -> bool:
    return results.source.head.suite.work.shows_clients


def build(results: Results) -> Part:
    # Of outages, the handles stand in the summary.
    handles = outages.handles_table(results, Over.SUM) if results.source.cut is None else None
    tables = (_clients(results), _cache(results), _calls(results), breaks.table(results), handles)
    there = tuple(table for table in tables if table is not None)
    return Part((Section("clients", "Single clients, and their cache", tables=there, appendix=True),))


def _per_client_rows(results: Results) -> list[PerClient]:
    """Return every level of every configuration in which a client was to the end."""
    found = []
    in_operations = results.terms.throughput_counts_operations
    for result in results.configurations:
        for mix in result.finished:
            records = results.records(result.name, mix.mix)
            runs = [each for record in records if (each := _stayed(record, in_operations=in_operations))]
            if runs:
                found.append(_per_client(result.name, mix, runs))
    return found


def _stayed(record: MixRecord, *, in_operations: bool) -> list[float]:
    """Return operations/s or Mbit/s of each client that was there until the window closed."""
    return [
        row.operations / record.window_s
        if in_operations
        else units.mbit_per_s((row.bytes_read or 0) + row.bytes_written, record.window_s)
        for row in record.by_client
        if stayed(row, record)
    ]


def _per_client(configuration: str, mix: MixFigures, runs: Sequence[Sequence[float]]) -> PerClient:
    """Return one row. `runs`: throughput of each client that stayed, for each repetition in which one did."""
    each = [found for run in runs if (found := curve.spread(run)) is not None]
    mean = curve.spread([run.mean for run in each])
    assert mean is not None  # there is a run, and each has a client
    return PerClient(
        configuration=configuration,
        clients=mix.clients,
        mean=mean,
        smallest=min(run.minimum for run in each),
        largest=max(run.maximum for run in each),
        deviation=curve.spread([run.deviation for run in each if run.deviation is not None]),
        fairness=curve.spread([index for run in runs if (index := jain(run)) is not None]),
        left=mix.clients_left,
    )


def _saved_rows(results: Results) -> list[Saved]:
    return [
        _saved(result, results.records(result.name, result.peak.mix))
        for result in results.configurations
        if result.peak is not None
    ]


def _saved(result: ConfigurationResult, records: Sequence[MixRecord]) -> Saved:
    by_call: Counter[str] = Counter()
    for record in records:
        for row in record.calls:
            by_call[row.call] += row.done + row.not_there + row.failed
    return Saved(
        configuration=result.name,
        clients=records[0].clients,
        operations=sum(record.operations_total for record in records),
        calls=by_call.total(),
        requests=sum(row.count for record in records for row in record.requests),
        passes=sum(record.passes or 0 for record in records),
        bytes_checked=sum(record.bytes_checked or 0 for record in records),
        by_call=by_call,
    )


def _clients(results: Results) -> Table:
    """Return one row per load level."""
    unit = results.terms.unit
    columns = (
        NAME,
        CLIENTS,
        Column("Mean", f"{unit} a client"),
        Column("Smallest client", unit),
        Column("Largest client", unit),
        Column("Standard deviation", unit),
        Column("Fairness", "Jain's index"),
        Column("Clients left", "all repetitions"),
    )
    written = results.terms.written
    rows = tuple(
        (
            Cell(row.configuration),
            Cell(f"{row.clients:,}"),
            spread_cell(row.mean),
            Cell(written(row.smallest)),
            Cell(written(row.largest)),
            spread_cell(row.deviation),
            spread_cell(row.fairness, wording.index),
            Cell(f"{row.left:,}"),
        )
        for row in _per_client_rows(results)
    )
    notes = (
        "Of the clients that were in the mix to its end. Mean, standard deviation and fairness: of the clients of each "
        "repetition by itself, so that what differs between repetitions is in none of them. Smallest and largest: of "
        "any client in any repetition.",
        "Fairness: 1 where all came to the same, 1 / clients where one did all (Jain, Chiu and Hawe, 1984).",
    )
    return Table("clients", 0, "Single clients", basis(results), columns, rows, notes, key_columns=2)


def _cache(results: Results) -> Table:
    """Return one row per configuration, at its peak."""
    columns = (
        NAME,
        CLIENTS,
        Column("Passes"),
        Column("Operations", "of applications"),
        Column("Calls", "below the cache"),
        Column("Requests", "of the protocol"),
        Column("Calls an operation"),
        Column("Content checked", "MB"),
    )
    rows = tuple(
        (
            Cell(row.configuration),
            Cell(f"{row.clients:,}"),
            Cell(f"{row.passes:,}"),
            Cell(f"{row.operations:,}"),
            Cell(f"{row.calls:,}"),
            Cell(f"{row.requests:,}"),
            Cell(wording.significant(row.calls / row.operations if row.operations else None)),
            Cell(wording.rate(row.bytes_checked / 1e6)),
        )
        for row in _saved_rows(results)
    )
    notes = (
        "At the mix of each configuration's peak, all repetitions together, ramps included. Passes: through the whole "
        "workload, those that ended in the mix. Content checked: what was read and compared, byte by byte.",
    )
    title = "What the client cache kept from the server"
    return Table("cache", 0, title, basis(results, Over.SUM), columns, rows, notes)


def _calls(results: Results) -> Table:
    """Return one row per kind of call, one column per configuration, at its peak."""
    found = _saved_rows(results)
    kinds = list(dict.fromkeys(kind for row in found for kind in row.by_call))
    columns = (
        Column("Call", numeric=False),
        *(Column(row.configuration, "per 1,000 operations") for row in found),
    )
    rows = tuple(
        (Cell(kind), *(Cell(wording.significant(_a_thousand(row, kind))) for row in found))
        for kind in kinds
        if any(row.by_call[kind] for row in found)
    )
    notes = (
        "Below the client cache, ramps included; operations are those of applications that succeeded. At the mix of "
        "each configuration's peak.",
    )
    under = basis(results, Over.SUM)
    return Table("calls", 0, "Calls that reached the server", under, columns, rows, notes)


def _a_thousand(row: Saved, kind: str) -> float | None:
    return 1000 * row.by_call[kind] / row.operations if row.operations else None
