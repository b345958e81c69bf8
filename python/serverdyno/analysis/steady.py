"""Decide whether a window was steady, by comparing its halves in whole seconds.

A mean over a window describes a server only if the server keeps its speed. A server that slows down when a buffer is
full, or speeds up once a cache is warm, has two speeds. The mean then depends on the length of the window. The halves
are compared by a t test of their log ratio. The noise is the scatter of single seconds within the halves, over all
repetitions of a level, and at least Poisson noise. Neighbouring seconds that resemble each other do not count as noise:
a server that wanders for seconds is not steady either.

Whole seconds are used because shorter bins resemble their neighbours, which makes the noise look smaller than it is.
The table shows the share of steady windows that are reported as drifting, by the length of a bin, for 900 windows each
(`python -m tests.support.steadiness`; noise: standard deviation of a second; memory: time in which its autocorrelation
falls to 1/e, as with a garbage collector's pauses or a disk's queue):

| window, noise, memory | 100 ms | 500 ms | 1 s |
|---|---:|---:|---:|
| 4 s, 3 %, 0 s | 0.9 % | 0.9 % | 0.8 % |
| 4 s, 3 %, 0.3 s | 12.7 % | 3.7 % | 1.6 % |
| 4 s, 6 %, 0.3 s | 29.4 % | 3.9 % | 1.4 % |
| 10 s, 6 %, 0.3 s | 23.3 % | 4.9 % | 1.8 % |
| 60 s, 6 %, 0.3 s | 0.9 % | 0.9 % | 0.9 % |

A window of less than four whole seconds is not judged, because three can't distinguish noise from drift. `stalls` finds
seconds without any success.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from serverdyno.analysis.contrast import Contrast

DRIFT_SHARE = 0.05
"""Smallest difference between the halves, up or down, that is reported. A rule of thumb."""
FEWEST_SECONDS = 4
"""Minimum length of a judged window, in s: two per half, because one second has no noise to estimate."""
RISK = 0.01
"""Risk that a steady window is reported."""


def drifts(windows: Sequence[Sequence[int]]) -> list[float | None]:
    """Return, for each window that was not steady, its second half / the first - 1; None for the others.

    `windows` gives the successes in each whole second, for each repetition of one level. If the number of seconds is
    odd, the middle second is in neither half. The result is also None if a window is too short or a half has no
    success.
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
