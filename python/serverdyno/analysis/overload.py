"""What is left of the peak at the largest load: the share kept under overload, with its interval.

The published reports read this from the curve beyond its peak (Open Benchmark, 1999: "how a server behaves as
it is overloaded"). It is that of `curve.Summary`, with the highest mean as the peak, so that it is never more than the
whole; noise raises such a peak, and so makes the share rather too small. The interval is a t interval of the log ratio
of both mixes within each run. `dips` says how the throughput came down: smoothly or at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from serverdyno.analysis.contrast import FEWEST_REPETITIONS, of_one
from serverdyno.analysis.curve import Throughput


@dataclass(frozen=True, slots=True)
class RetainedShare:
    """Throughput at the last mix / peak. `low`, `high`: 95 % interval, None of one repetition."""

    share: float
    low: float | None
    high: float | None
    repetitions: int


def retained(throughput: Throughput) -> RetainedShare | None:
    """Of the runs (repetitions x mixes, NaN: not finished) that finished every mix.

    None where there are no such runs, where there is one mix only, or where a peak is zero.
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
