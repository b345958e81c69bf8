"""Rules of thumb for oddities that a report must mention: disagreeing counts, wide ranges, long tails, and others.

Each threshold is our choice and is defined only here. `trust` defines the marks in tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

COUNT_TOLERANCE = 0.001
"""Tolerated difference between the counts, as a share of a run's requests.

A server's log may be read just before its last lines are written.
"""
RANGE_SHARE = 0.20
"""Range of a level's repetitions as a share of their mean above which another repetition could well change the
figure."""
TAIL_TIMES = 100
"""Ratio of p99.9 to p50 at which the tail counts as long."""
IDLE_SHARE = 0.5
"""Share of CPU time. If server and generator are both busy for less, something else limited the figure."""
DECISIVE_SHARE = 0.6
"""Share of the sum over the load levels at which a single level decides the average."""
FEWEST_LEVELS = 3
"""Minimum number of levels for `DECISIVE_SHARE`: one of two levels always has half or more."""
OWN_QUEUE_SHARE = 0.5
"""Share of the mean response time, spent in the generator's own queue, above which a report mentions it."""
CLOCK_SHARE = 0.01
"""Largest error of a node's clock, as a share of the window, at which its seconds still match those of others."""
RESUMED_APART = 0.05
"""Difference in the shares of resumed TLS handshakes above which reports mention it."""


def counts_agree(served: int, answered: int, failed: int) -> bool:
    """Return whether a server's count of requests fits ours. Failed requests may or may not have been served."""
    most = answered + failed
    tolerance = COUNT_TOLERANCE * most
    return answered - tolerance <= served <= most + tolerance


def wide_range(minimum: float, maximum: float, mean: float) -> float | None:
    """Return the range of a level's repetitions as a share of their mean; None if it is usual."""
    share = (maximum - minimum) / mean if mean > 0 else 0.0
    return share if share > RANGE_SHARE else None


def long_tail(middle: float | None, tail: float | None) -> float | None:
    """Return the ratio of p99.9 to the median; None if it is usual or not known."""
    times = tail / middle if middle and tail is not None else 0.0
    return times if times >= TAIL_TIMES else None


def both_idle(server_share: float | None, generator_share: float) -> bool:
    """Return whether neither server nor generator was busy. `server_share` is None if not known."""
    return server_share is not None and server_share < IDLE_SHARE and generator_share < IDLE_SHARE


def decisive(means: Sequence[float]) -> int | None:
    """Return the index of the one load level that decides the average; None if there is none."""
    if len(means) < FEWEST_LEVELS or not sum(means) or max(means) / sum(means) < DECISIVE_SHARE:
        return None
    return max(range(len(means)), key=means.__getitem__)


def vague_clock(error_s: float, window_s: float) -> bool:
    """Return whether the error of a node's clock matters in a window of `window_s`."""
    return error_s > CLOCK_SHARE * window_s


def mostly_own_queue(own_ms: float | None, mean_ms: float) -> bool:
    """Return whether response times are mostly the wait in the generator's own queue."""
    return own_ms is not None and own_ms >= OWN_QUEUE_SHARE * mean_ms


def resumption_differs(shares: Collection[float]) -> bool:
    """Return whether configurations resumed different shares of their TLS sessions."""
    return bool(shares) and max(shares) - min(shares) > RESUMED_APART
