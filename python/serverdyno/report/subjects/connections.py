"""Connections and TLS handshakes of each load level, and their duration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serverdyno import wording
from serverdyno.plan.protocols.http import HTTP
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Part, Section, Table
from serverdyno.report.parts import NAME, TOO_FEW_SAMPLES, always, level_column
from serverdyno.report.source import Source
from serverdyno.report.subjects.operations import TIMES, time_cells
from serverdyno.store.records import LevelRecord

KEPT_ALIVE = "Reconnects: connections that replaced a kept-alive connection closed by the server."
SESSIONS = (
    "Clients log on before the load level begins; these sessions are counted. Reconnects: sessions that replaced a "
    "lost one."
)
CLOSED_SHARE = 0.5
"""Connections per request at which there was hardly anything to pipeline."""
applies = always


def build(results: Results) -> Part:
    tables = (_connections(results), *_handshakes(results))
    return Part((Section("connections", "Connections", tables=tables, appendix=True),))


def warnings(source: Source) -> list[str]:
    """Return a caveat if servers closed connections after one or two answers, so that pipelining had no effect."""
    suite = source.head.suite
    if not suite.work.uses_documents or suite.settings(HTTP).pipeline is None:
        return []
    names = [name for name in source.configuration_names if _closes(source.records_of(name))]
    if not names:
        return []
    return [
        "The server closed connections after one or two answers on average, so hardly anything was "
        f"pipelined: {wording.listing(names)}. Clients sent the unanswered requests again. Leave out "
        "--pipeline (pipeline in the suite), or let the server keep connections open (nginx: "
        "keepalive_timeout and keepalive_requests)."
    ]


def _closes(records: Sequence[LevelRecord]) -> bool:
    operations = sum(record.operations_total for record in records)
    return operations > 0 and sum(record.connections for record in records) >= CLOSED_SHARE * operations


def _connections(results: Results) -> Table:
    rows = tuple(
        (
            Cell(level.configuration),
            Cell(wording.whole(level.load)),
            Cell(wording.whole(level.connections.made)),
            Cell(wording.whole(level.connections.reconnects)),
            Cell(wording.whole(level.connections.source_addresses)),
            *time_cells(level.connections.connect),
        )
        for level in results.levels
    )
    columns = (
        NAME,
        level_column(results.axis),
        Column("Connections"),
        Column("Reconnects"),
        Column("Source addresses"),
        Column("Connect times"),
        *TIMES[1:],
    )
    counted = SESSIONS if results.terms.below_cache else KEPT_ALIVE
    notes = (
        f"Connections and reconnects: sums over all repetitions, ramps included. {counted} Connect times: "
        f"from the moment when the {results.terms.operation} was due until its connection was established. "
        f"They cover {results.terms.operations} that ended in a window.",
        TOO_FEW_SAMPLES,
    )
    return Table(
        "connections", 0, "Connections", basis(results, Over.SUM), columns, rows, notes, key_columns=2
    )


def _handshakes(results: Results) -> Iterator[Table]:
    """Yield a table of TLS handshakes by kind, with their duration, one row per load level; nothing without TLS."""
    rows = tuple(
        (
            Cell(level.configuration),
            Cell(wording.whole(level.load)),
            *(Cell(wording.whole(count)) for count in level.connections.handshakes),
            *time_cells(level.connections.handshake),
        )
        for level in results.levels
        if level.connections.handshakes is not None
    )
    if not rows:
        return
    columns = (
        NAME,
        level_column(results.axis),
        Column("Full"),
        Column("Resumed"),
        Column("Handshake times"),
        *TIMES[1:],
    )
    notes = (
        "Full, resumed: successful TLS handshakes, summed over all repetitions, ramps included. Handshake "
        "times: from the established TCP connection until the client could send the request. They cover "
        "requests that ended in a window, and are part of the response times.",
        TOO_FEW_SAMPLES,
    )
    under = basis(results, Over.SUM)
    yield Table("handshakes", 0, "TLS handshakes", under, columns, rows, notes, key_columns=2)
