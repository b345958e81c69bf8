"""Compute which clients left, stalled or failed in the window of a record, and how evenly the others were served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from serverdyno.analysis import curve, stalls, steady
from serverdyno.analysis.fairness import jain
from serverdyno.analysis.trust import FAILED_SHARE, Mark
from serverdyno.plan.protocols.work import stayed
from serverdyno.store.records import LevelRecord
from serverdyno.units import MS_PER_S

REFUSED = "connection_refused"
"""Kind of failure if nothing listens on the port (`Fault::ConnectionRefused`)."""


def left(record: LevelRecord) -> int:
    """Return the number of clients that left before the window closed."""
    return sum(not stayed(row, record) for row in record.by_client)


def starved(record: LevelRecord) -> int:
    """Return the number of clients that stayed and completed nothing; 0 for open load, which has no fair share."""
    if record.rate_per_s is not None:
        return 0
    return stalls.starved((row.operations, stayed(row, record)) for row in record.by_client)


def only_failed(record: LevelRecord) -> int:
    """Return the number of starved clients that did not wait: all their operations failed, not by a timeout."""
    if record.rate_per_s is not None or all(row.fault.endswith("timeout") for row in record.failed):
        return 0
    return sum(not row.operations and row.errors > 0 and stayed(row, record) for row in record.by_client)


def stalled(record: LevelRecord) -> tuple[int, ...]:
    """Return the whole seconds of the window in which the server stalled; none if clients may have been thinking."""
    if not _waited(record):
        return ()
    completed = {row.second: row.operations for row in record.by_second}
    return stalls.stalled(completed, record.ramp_up_s, record.window_s)


def _waited(record: LevelRecord) -> bool:
    """Return whether an operation failed, or took a second or longer, or whether this is not known."""
    under_way_s = record.under_way_longest_s
    longest_s = (record.response_time_ms(1.0) or 0.0) / MS_PER_S
    return record.failures > 0 or under_way_s is None or max(longest_s, under_way_s) >= 1.0


def drifting(records: Sequence[LevelRecord], passes_a_client: float | None) -> dict[int, float]:
    """Return, for each repetition that was not steady, the second half of the window / the first - 1.

    The result is empty if clients made less than one pass of the workload, because the halves of a pass are different
    work.
    """
    if passes_a_client is not None and passes_a_client < 1:
        return {}
    windows = []
    for record in records:
        completed = {row.second: row.operations for row in record.by_second}
        seconds = stalls.seconds_of_window(record.ramp_up_s, record.window_s)
        windows.append([completed.get(second, 0) for second in seconds])
    found = zip(records, steady.drifts(windows), strict=True)
    return {record.repetition: drift for record, drift in found if drift is not None}


def fate_marks(record: LevelRecord) -> set[Mark]:
    holds = {
        Mark.ERRORS: record.failures > 0,
        Mark.CLIENTS_LEFT: left(record) > 0,
        Mark.STARVED: starved(record) > 0,
        Mark.STALLED: bool(stalled(record)),
    }
    return {mark for mark, held in holds.items() if held}


def fairness(records: Sequence[LevelRecord], *, of_operations: bool) -> curve.Spread | None:
    """Return Jain's fairness index over the repetitions. Differences between repetitions are not unfairness."""
    indices = [
        jain(
            [
                row.operations if of_operations else (row.bytes_read or 0) + row.bytes_written
                for row in record.by_client
                if stayed(row, record)
            ]
        )
        for record in records
    ]
    return curve.spread([index for index in indices if index is not None])


def faults(records: Sequence[LevelRecord]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for record in records:
        for row in record.failed:
            counts[row.fault] += row.count
    return dict(counts.most_common())


def first_error(records: Sequence[LevelRecord]) -> str:
    """Return the first error of the most frequent kind, in words; empty if there was none."""
    most = next(iter(faults(records)), "")
    return next((row.example for record in records for row in record.failed if row.fault == most), "")


def failed_share(records: Sequence[LevelRecord]) -> float:
    """Return the failed share of the windows' operations; 1 if no operation ended, because all clients had left."""
    failed = sum(row.in_window for record in records for row in record.errors)
    ended = failed + sum(record.operations for record in records)
    return failed / ended if ended else float(any(record.failures for record in records))


def refused(record: LevelRecord) -> tuple[int, ...]:
    """Return the seconds with failures if the window has both refused connections and successful requests."""
    if not record.operations or not any(row.fault == REFUSED and row.in_window for row in record.errors):
        return ()
    return tuple(row.second for row in record.by_second if row.errors)


def is_failing(records: Sequence[LevelRecord]) -> bool:
    """Return whether failures or refused connections determine the figures, regardless of other limits."""
    return failed_share(records) > FAILED_SHARE or any(refused(record) for record in records)


def passes_a_client(records: list[LevelRecord]) -> float | None:
    """Return the passes of the workload per client that stayed, in the window of the repetition with the fewest.

    Records of earlier versions lack the operations per pass. For these, the result is the number of whole passes from
    start to end, times the window's share of the operations; unfinished passes are not counted.
    """
    known = []
    for record in records:
        clients = record.clients - left(record)
        if record.passes is None or not clients:
            continue
        if record.pass_operations:
            done = sum(row.operations for row in record.by_client if stayed(row, record))
            known.append(done / clients / record.pass_operations)
        else:
            share = record.operations / max(1, record.operations_total)
            known.append(record.passes / clients * share)
    return min(known, default=None)
