"""Client by client: how much each moved, and how evenly they were served; what the client cache kept from the server.

Of file servers; the figures follow from the rows of clients and of calls of the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno import units
from serverdyno.analysis import curve
from serverdyno.analysis.fairness import jain
from serverdyno.report import wording
from serverdyno.report.model import Cell, Column, Table
from serverdyno.report.results import ConfigurationResult, Results
from serverdyno.store.records import MixRecord

NAME, CLIENTS = Column("Configuration", numeric=False), Column("Clients")


@dataclass(frozen=True, slots=True)
class PerClient:
    """Mbit/s of single clients in one mix of one configuration, over its repetitions; those that left are not in it."""

    configuration: str
    clients: int
    mbit_s: curve.Spread
    fairness: float | None
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


def per_client(results: Results) -> list[PerClient]:
    """Every mix of every configuration in which a client was to the end."""
    found = []
    for result in results.configurations:
        for mix in result.finished:
            records = _records(results, result.name, mix.mix)
            stayed = [
                units.mbit_per_s((row.bytes_read or 0) + row.bytes_written, record.window_s)
                for record in records
                for row in record.by_client
                if row.left_at_s is None
            ]
            spread = curve.spread(stayed)
            if spread is not None:
                found.append(PerClient(result.name, mix.clients, spread, jain(stayed), mix.clients_left))
    return found


def saved(results: Results) -> list[Saved]:
    """Of the peak mix of every configuration."""
    return [
        _saved(result, _records(results, result.name, result.peak.mix))
        for result in results.configurations
        if result.peak is not None
    ]


def _records(results: Results, configuration: str, mix: int) -> list[MixRecord]:
    return [record for record in results.used if record.configuration == configuration and record.mix == mix]


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


def per_client_table(results: Results, basis: str) -> Table:
    """One row a configuration and mix."""
    columns = (
        NAME,
        CLIENTS,
        Column("Mean", "Mbit/s a client"),
        Column("Smallest", "Mbit/s"),
        Column("Largest", "Mbit/s"),
        Column("Standard deviation", "Mbit/s"),
        Column("Fairness", "Jain's index"),
        Column("Clients left", "all repetitions"),
    )
    rows = tuple(
        (
            Cell(row.configuration),
            Cell(f"{row.clients:,}"),
            Cell(wording.significant(row.mbit_s.mean)),
            Cell(wording.significant(row.mbit_s.minimum)),
            Cell(wording.significant(row.mbit_s.maximum)),
            Cell(wording.significant(row.mbit_s.deviation)),
            Cell(wording.NOTHING if row.fairness is None else f"{row.fairness:.3f}"),
            Cell(f"{row.left:,}"),
        )
        for row in per_client(results)
    )
    notes = (
        "Of the clients that were in the mix to its end, all repetitions together. Fairness: 1 where all moved the "
        "same, 1 / clients where one moved all (Jain, Chiu and Hawe, 1984).",
    )
    return Table("clients", 0, "Single clients", basis, columns, rows, notes, key_columns=2)


def saved_table(results: Results, basis: str) -> Table:
    """One row a configuration, at its peak."""
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
        for row in saved(results)
    )
    notes = (
        "At the mix of each configuration's peak, all repetitions together, ramps included. Passes: through the whole "
        "workload, those that ended in the mix. Content checked: what was read and compared, byte by byte.",
    )
    return Table("cache", 0, "What the client cache kept from the server", basis, columns, rows, notes)


def calls_table(results: Results, basis: str) -> Table:
    """One row a kind of call, one column a configuration, at its peak."""
    found = saved(results)
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
    return Table("calls", 0, "Calls that reached the server", basis, columns, rows, notes)


def _a_thousand(row: Saved, kind: str) -> float | None:
    return 1000 * row.by_call[kind] / row.operations if row.operations else None
