"""What single clients came to in the window of one record: who left, who got nothing, how far each came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from serverdyno.analysis import curve, stalls, steady
from serverdyno.analysis.fairness import jain
from serverdyno.analysis.trust import FAILED_SHARE, Mark
from serverdyno.plan.protocols.work import stayed
from serverdyno.store.records import MixRecord
from serverdyno.units import MS_PER_S

REFUSED = "connection_refused"
"""The kind of failure of a connection to a port where nothing listens (`Fault::ConnectionRefused`)."""


def left(record: MixRecord) -> int:
    """How many clients left before the window closed."""
    return sum(not stayed(row, record) for row in record.by_client)


def starved(record: MixRecord) -> int:
    """How many clients stayed and completed nothing. Connections of open load take what comes: none has a share."""
    if record.rate_per_s is not None:
        return 0
    return stalls.starved((row.operations, stayed(row, record)) for row in record.by_client)


def stalled(record: MixRecord) -> tuple[int, ...]:
    """Return the whole seconds of the window without any success, if the server kept an operation waiting meanwhile."""
    if not _waited(record):
        return ()
    completed = {row.second: row.operations for row in record.by_second}
    return stalls.stalled(completed, record.ramp_up_s, record.window_s)


def _waited(record: MixRecord) -> bool:
    """Whether an operation failed or took a second, or this is unknown. Otherwise the clients were thinking."""
    under_way_s = record.under_way_longest_s
    longest_s = (record.response_time_ms(1.0) or 0.0) / MS_PER_S
    return record.failures > 0 or under_way_s is None or max(longest_s, under_way_s) >= 1.0


def drifting(records: Sequence[MixRecord], passes_a_client: float | None) -> dict[int, float]:
    """By repetition, the second half of the window / the first - 1, where it was not steady.

    None of less than a pass of the workload: its parts are other work, so halves differ without the server's doing.
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


def fate_marks(record: MixRecord) -> set[Mark]:
    """The marks of what clients came to."""
    holds = {
        Mark.ERRORS: record.failures > 0,
        Mark.CLIENTS_LEFT: left(record) > 0,
        Mark.STARVED: starved(record) > 0,
        Mark.STALLED: bool(stalled(record)),
    }
    return {mark for mark, held in holds.items() if held}


def fairness(records: Sequence[MixRecord], *, of_operations: bool) -> curve.Spread | None:
    """Of each repetition by itself, so that what differs between repetitions is not taken for unfairness."""
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


def faults(records: Sequence[MixRecord]) -> dict[str, int]:
    """Return the number of errors by kind, the most frequent first."""
    counts: Counter[str] = Counter()
    for record in records:
        for row in record.failed:
            counts[row.fault] += row.count
    return dict(counts.most_common())


def first_error(records: Sequence[MixRecord]) -> str:
    """Return the first error of the most frequent kind, in words; empty if there was none."""
    most = next(iter(faults(records)), "")
    return next((row.example for record in records for row in record.failed if row.fault == most), "")


def failed_share(records: Sequence[MixRecord]) -> float:
    """Return the share of the operations of the windows that failed; 1 if errors before left none to end there."""
    failed = sum(row.in_window for record in records for row in record.errors)
    ended = failed + sum(record.operations for record in records)
    return failed / ended if ended else float(any(record.failures for record in records))


def refused(record: MixRecord) -> tuple[int, ...]:
    """Return the seconds with failures, if connections were refused in a window in which requests were served."""
    if not record.operations or not any(row.fault == REFUSED and row.in_window for row in record.errors):
        return ()
    return tuple(row.second for row in record.by_second if row.errors)


def is_failing(records: Sequence[MixRecord]) -> bool:
    """Return whether failures or refused connections set the figures, whatever else limits them."""
    return failed_share(records) > FAILED_SHARE or any(refused(record) for record in records)


def passes_a_client(records: list[MixRecord]) -> float | None:
    """Operations of the window against those of a pass, in the mean of the clients that stayed.

    Records of earlier versions know no operations of a pass. They count whole passes from start to end of the mix, of
    which the share of the window's operations is taken; parts of a pass are missing there.
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
