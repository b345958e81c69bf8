"""The share of the peak that is kept at the largest load, with its interval.

The published reports read this from the curve beyond its peak (Open Benchmark, 1999: "how a server behaves as it is
overloaded"). As in `curve.Summary`, it is relative to the highest mean, so it never exceeds 1. Noise raises this mean,
so the share tends to be too small. The interval is a t interval of the log ratio of both levels within each run. `dips`
says whether throughput fell smoothly or suddenly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from serverdyno.analysis.contrast import FEWEST_REPETITIONS, of_one
from serverdyno.analysis.curve import Throughput


@dataclass(frozen=True, slots=True)
class RetainedShare:
    """Throughput at the last level divided by the peak.

    `low` and `high` are the 95 % interval; None with one repetition.
    """

    share: float
    low: float | None
    high: float | None
    repetitions: int


def retained(throughput: Throughput) -> RetainedShare | None:
    """Return the share over the runs (repetitions x levels, NaN: not finished) that finished every level.

    None if there are no such runs, if there is only one level, or if a peak is zero.
    """
    runs = throughput[~np.isnan(throughput).any(axis=1)]
    if not runs.size or runs.shape[1] < 2 or runs.mean(axis=0).max() <= 0:
        return None
    means = runs.mean(axis=0)
    share = float(means[-1] / means.max())
    ends = runs[:, [int(means.argmax()), -1]]
    if len(runs) < FEWEST_REPETITIONS or (ends <= 0).any():
        return RetainedShare(share, None, None, len(runs))
    low, high = np.exp(of_one(np.log(ends[:, 1] / ends[:, 0])).interval())
    return RetainedShare(share, float(min(low, share)), float(max(share, min(high, 1.0))), len(runs))
