"""Rules of thumb on what a reader must be told: counts that disagree, repetitions far apart, tails, levels that decide.

Each is a threshold of ours, in one place, so that what is told doesn't depend on who words it. Not for marks, which
stand in tables (`trust`), and not for verdicts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

COUNT_TOLERANCE = 0.001
"""Of the requests of a run: a server's log may be read a moment before its last lines are written."""
RANGE_SHARE = 0.20
"""Of the mean of a point: from a wider range of its repetitions on, one more of them could well move the figure."""
TAIL_TIMES = 100
"""The p99.9 over the p50, from which on few operations decide what users feel."""
IDLE_SHARE = 0.5
"""Of the CPUs of server and of generator: with both below, something else set the figure."""
DECISIVE_SHARE = 0.6
"""Of the sum over the load levels: one level with more decides the average alone."""
FEWEST_LEVELS = 3
"""Of two levels one always has half or more."""
OWN_QUEUE_SHARE = 0.5
"""Of the mean response time, from which on the generator's own queue is most of it."""
CLOCK_SHARE = 0.01
"""Of the window: where a node's clock is known no better, its seconds may be the next ones of another node."""
RESUMED_APART = 0.05
"""Shares of resumed TLS handshakes that differ by more are told."""


def counts_agree(served: int, answered: int, failed: int) -> bool:
    """Return whether a server's count of requests fits ours. What failed may have been served, or not."""
    most = answered + failed
    tolerance = COUNT_TOLERANCE * most
    return answered - tolerance <= served <= most + tolerance


def wide_range(minimum: float, maximum: float, mean: float) -> float | None:
    """Return the range of the repetitions of a point as a share of their mean; None where it is usual."""
    share = (maximum - minimum) / mean if mean > 0 else 0.0
    return share if share > RANGE_SHARE else None


def long_tail(middle: float | None, tail: float | None) -> float | None:
    """Return how many times the median the 99.9th percentile is; None where that is usual, or either is not known."""
    times = tail / middle if middle and tail is not None else 0.0
    return times if times >= TAIL_TIMES else None


def both_idle(server_share: float | None, generator_share: float) -> bool:
    """Return whether neither server nor generator was busy. `server_share` None: not known."""
    return server_share is not None and server_share < IDLE_SHARE and generator_share < IDLE_SHARE


def decisive(means: Sequence[float]) -> int | None:
    """Return the index of the load level that decides the average alone; None where there is none."""
    if len(means) < FEWEST_LEVELS or not sum(means) or max(means) / sum(means) < DECISIVE_SHARE:
        return None
    return max(range(len(means)), key=means.__getitem__)


def vague_clock(error_s: float, window_s: float) -> bool:
    """Return whether the error of a node's clock matters in a window of that length."""
    return error_s > CLOCK_SHARE * window_s


def mostly_own_queue(own_ms: float | None, mean_ms: float) -> bool:
    """Return whether response times are mostly the wait for the generator's own turn."""
    return own_ms is not None and own_ms >= OWN_QUEUE_SHARE * mean_ms


def resumption_differs(shares: Collection[float]) -> bool:
    """Return whether configurations resumed different shares of their TLS sessions."""
    return bool(shares) and max(shares) - min(shares) > RESUMED_APART
