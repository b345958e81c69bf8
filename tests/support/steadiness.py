"""Steady windows with noise that is correlated for a while, and how often they are reported to drift.

`python -m tests.support.steadiness` prints the table of `analysis/steady.py`, which shows why it uses whole seconds.
Nothing is measured: counts of 100 ms are drawn with a fixed seed, and judged by the function of reports.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis.steady import drifts

TENTHS = 10
"""Number of counts drawn per second."""
MEAN = 1000.0
REPETITIONS = 3


@dataclass(frozen=True)
class Windows:
    """Parameters of the drawn windows.

    `noise`: relative standard deviation of a second; `memory_s`: time in which its correlation falls to 1/e; `drop`:
    share by which the second half is slower.
    """

    length_s: int
    noise: float = 0.03
    memory_s: float = 0.0
    drop: float = 0.0

    def drawn(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Return counts per 100 ms, windows x tenths of a second."""
        alike = math.exp(-1 / TENTHS / self.memory_s) if self.memory_s else 0.0
        apart = np.abs(np.subtract.outer(np.arange(TENTHS), np.arange(TENTHS)))
        of_second = math.sqrt(float(np.mean(np.where(apart == 0, 1.0, alike**apart))))
        found = random.normal(size=(count, self.length_s * TENTHS))
        for place in range(1, found.shape[1]):
            found[:, place] = alike * found[:, place - 1] + math.sqrt(1 - alike**2) * found[:, place]
        counts = MEAN * (1 + self.noise / of_second * found)
        counts[:, counts.shape[1] // 2 :] *= 1 - self.drop
        return np.asarray(counts)


def told(windows: Windows, bin_tenths: int, points: int, seed: int = 1) -> float:
    """Return the share of windows that are reported to drift, among load levels with three repetitions each."""
    random = np.random.default_rng(seed)
    found = 0
    for _ in range(points):
        drawn = windows.drawn(random, REPETITIONS)
        whole = drawn[:, : drawn.shape[1] // bin_tenths * bin_tenths]
        bins = np.rint(whole.reshape(REPETITIONS, -1, bin_tenths).sum(axis=2)).astype(int)
        found += sum(drift is not None for drift in drifts(bins.tolist()))
    return found / (points * REPETITIONS)


def table(points: int) -> Iterator[str]:
    yield "| window, noise, memory | 100 ms | 500 ms | 1 s |"
    yield "|---|---:|---:|---:|"
    for windows in (
        Windows(4),
        Windows(4, memory_s=0.3),
        Windows(4, noise=0.06, memory_s=0.3),
        Windows(10, noise=0.06, memory_s=0.3),
        Windows(60, noise=0.06, memory_s=0.3),
    ):
        cells = [f"{100 * told(windows, tenths, points):.1f} %" for tenths in (1, 5, 10)]
        what = f"{windows.length_s} s, {100 * windows.noise:.0f} %, {windows.memory_s:g} s"
        yield f"| {what} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 300):
        print(line, flush=True)
