"""Compute the figures of open load from records: due requests, outcomes, and precision of sending times.

The rules are in `analysis.open_load`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno.analysis import open_load
from serverdyno.plan.open_load import Law
from serverdyno.report.figures import histograms
from serverdyno.store.records import LevelRecord


@dataclass(frozen=True, slots=True)
class OpenFigures:
    """The figures of one rate over its repetitions.

    Numbers of requests are sums over the repetitions, ramps included. `arrived_s`: requests/s that were due in the
    windows. `waited_share`: share of the windows' requests that found no free connection. `kept_up`: whether the
    server kept up in every repetition. `connections`: the planned number. `busy_share`: share of the connections' time
    in which a request was under way, without the generator's ready work. `service_ms`: mean time of a request on its
    connection, likewise; None if not known.
    """

    arrived_s: float
    arrivals: int
    dropped: int
    overdue: int
    waited_share: float
    scheduling_error: histograms.Times | None
    kept_up: bool
    connections: int
    busy_share: float
    service_ms: float | None


def of_level(records: Sequence[LevelRecord], law: Law) -> OpenFigures | None:
    """Return the open load figures of one level; None for closed load."""
    if records[0].rate_per_s is None:
        return None
    window_s = sum(record.window_s for record in records)
    operations = sum(_ended(record) for record in records)
    connections = records[0].clients * records[0].threads
    under_way_s = sum((record.outstanding_s or 0.0) - (record.ready_work_s or 0.0) for record in records)
    return OpenFigures(
        arrived_s=sum(record.arrivals_in_window or 0 for record in records) / window_s,
        arrivals=sum(record.arrivals or 0 for record in records),
        dropped=sum(record.dropped or 0 for record in records),
        overdue=sum(record.overdue_at_end or 0 for record in records),
        waited_share=sum(record.waited or 0 for record in records) / operations if operations else 0.0,
        scheduling_error=histograms.times([record.scheduling_error_hdr or b"" for record in records]),
        kept_up=all(kept_up(record, law) for record in records),
        connections=connections,
        busy_share=under_way_s / (connections * window_s),
        service_ms=under_way_s / operations * 1000 if operations and under_way_s > 0 else None,
    )


def _ended(record: LevelRecord) -> int:
    """Return the successes and failures in the window."""
    return record.operations + sum(row.in_window for row in record.errors)


def kept_up(record: LevelRecord, law: Law) -> bool:
    """Return whether the server kept up with the offered rate; True for closed load, which has none."""
    if record.arrivals_in_window is None:
        return True
    return open_load.kept_up(
        record.arrivals_in_window,
        _ended(record),
        record.dropped_in_window or 0,
        record.clients * record.threads,
        (record.rate_per_s or 0) * record.window_s if law == "poisson" else None,
    )


def own_share(record: LevelRecord, run_delay: float | None) -> float | None:
    """Return an upper bound on the generator's share of the response times of open load; None if unknown.

    `run_delay`: share of the window in which the generator's threads waited for a CPU.
    """
    if record.outstanding_s is None or run_delay is None:
        return None
    response = histograms.times([record.response_time_hdr])
    error = histograms.times([record.scheduling_error_hdr or b""])
    place = histograms.QUANTILES.index(0.99)
    return open_load.own_share(
        record.ready_work_s,
        run_delay,
        record.outstanding_s + (record.waiting_s or 0.0),
        None if error is None else error.percentiles_ms[place],
        None if response is None else response.percentiles_ms[place],
    )


def unaccounted(record: LevelRecord) -> int:
    """Return the number of due requests that no count contains: successes, failures, dropped or overdue requests.

    Any number above 0 is a bug in Serverdyno.
    """
    if record.arrivals is None:
        return 0
    ends = (
        record.operations_total,
        record.failures + record.unanswered,
        record.dropped or 0,
        record.overdue_at_end or 0,
    )
    return record.arrivals - sum(ends)


def unanswered(records: Sequence[LevelRecord], timeout_ms: float) -> tuple[int, float]:
    """Return the number of the windows' operations without an answer, and the shortest time that one waited, in ms.

    Open load drops requests if too many wait; these waited 0 ms.
    """
    late = sum(row.in_window for record in records for row in record.errors if row.fault.endswith("timeout"))
    dropped = sum(record.dropped_in_window or 0 for record in records)
    return late + dropped, timeout_ms if late else 0.0
