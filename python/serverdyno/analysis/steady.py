"""Whether a window was steady: its second half against its first, by whole seconds.

A mean over a window is a figure of a server only where the server keeps its speed. One that slows down when a buffer is
full, or gets faster once a cache is warm, has two speeds, and the mean depends on the length of the window. Halves are
compared by the t test of their log ratio, with the noise of single seconds within the halves, of all repetitions of a
point together, and no less than Poisson's. Seconds that resemble their neighbours are no noise here: a server that
wanders for seconds is not steady either.

Why whole seconds, and not shorter bins: bins that resemble their neighbours make the noise look smaller than it is.
Steady windows that are told to drift, by the length of a bin, of 900 each (`python -m tests.support.steadiness`; noise:
of a second; memory: the time after which it resembles itself by 1/e, as of a collector's pauses or a disk's queue):

| window, noise, memory | 100 ms | 500 ms | 1 s |
|---|---:|---:|---:|
| 4 s, 3 %, 0 s | 0.9 % | 0.9 % | 0.8 % |
| 4 s, 3 %, 0.3 s | 12.7 % | 3.7 % | 1.6 % |
| 4 s, 6 %, 0.3 s | 29.4 % | 3.9 % | 1.4 % |
| 10 s, 6 %, 0.3 s | 23.3 % | 4.9 % | 1.8 % |
| 60 s, 6 %, 0.3 s | 0.9 % | 0.9 % | 0.9 % |

So a window of less than four whole seconds is not judged: three seconds are too few to tell noise from drift.

Not for seconds without any success: see `stalls`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from serverdyno.analysis.contrast import Contrast

DRIFT_SHARE = 0.05
"""Between the halves, up or down, from which on it is told. A rule of thumb."""
FEWEST_SECONDS = 4
"""Two in each half: with one there is no noise to hold the difference against."""
RISK = 0.01
"""Of telling a steady window."""


def drifts(windows: Sequence[Sequence[int]]) -> list[float | None]:
    """Return the second half / the first - 1 of each window that was not steady; None of the others.

    `windows`: successes in each whole second, of each repetition of one point. Of an odd number the one in the middle
    is in neither half. None also where a window is too short, or a half without any success.
    """
    halves = [_halves(window) for window in windows]
    residues = [
        (count / _mean(half) - 1) ** 2
        for pair in halves
        if pair is not None
        for half in pair
        for count in half
    ]
    degrees = len(residues) - 2 * sum(pair is not None for pair in halves)
    if degrees <= 0:
        return [None] * len(halves)
    noise = sum(residues) / degrees
    return [None if pair is None else _drift(pair, noise, degrees) for pair in halves]


def _halves(window: Sequence[int]) -> tuple[Sequence[int], Sequence[int]] | None:
    half = len(window) // 2
    pair = window[:half], window[len(window) - half :]
    return pair if len(window) >= FEWEST_SECONDS and all(sum(side) for side in pair) else None


def _drift(pair: tuple[Sequence[int], Sequence[int]], noise: float, degrees: int) -> float | None:
    first, second = (_mean(side) for side in pair)
    variance = sum(max(noise, 1 / mean) / len(pair[0]) for mean in (first, second))
    found = Contrast(math.log(second / first), variance, degrees)
    told = abs(found.estimate) > math.log1p(DRIFT_SHARE) and found.p_value_beyond() < RISK
    return second / first - 1 if told else None


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / len(counts)
