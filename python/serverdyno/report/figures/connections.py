"""Compute the connections and handshakes of a load level from records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno.report.figures import histograms
from serverdyno.store.records import LevelRecord


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections of a level, summed over its repetitions, ramps included.

    `connect`, `handshake`: times in the windows. `handshakes`: full and resumed TLS handshakes; None without TLS.
    `reconnects`: connections that replaced ones closed by the server; for file servers, sessions set up again after a
    loss.
    """

    made: int
    reconnects: int
    source_addresses: int
    connect: histograms.Times | None
    handshakes: tuple[int, int] | None = None
    handshake: histograms.Times | None = None


def connections(records: Sequence[LevelRecord]) -> Connections:
    return Connections(
        made=sum(record.connections for record in records),
        reconnects=sum(record.reconnects for record in records),
        source_addresses=max(record.source_addresses for record in records),
        connect=histograms.times([record.connect_time_hdr for record in records]),
        handshakes=_handshakes(records),
        handshake=histograms.times(
            [record.handshake_time_hdr for record in records if record.handshake_time_hdr is not None]
        ),
    )


def _handshakes(records: Sequence[LevelRecord]) -> tuple[int, int] | None:
    rows = [row for record in records for row in record.handshakes]
    if not rows:
        return None
    return sum(row.count for row in rows if not row.resumed), sum(row.count for row in rows if row.resumed)
