"""What is left of the peak at the largest load: the share kept under overload, with its interval.

The published reports read this from the curve beyond its peak (Open Benchmark, 1999: "how a server behaves as
it is overloaded"). It is that of `curve.Summary`, with the highest mean as the peak, so that it is never more than the
whole; noise raises such a peak, and so makes the share rather too small. The interval is that of `contrast`, numerator
and denominator being of the same resampled runs. `dips` says how the throughput came down: smoothly or at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis.contrast import Copies, Sample, log_contrast
from serverdyno.analysis.curve import Throughput


@dataclass(frozen=True, slots=True)
class Kept:
    """Throughput at the last mix / peak. `low`, `high`: 95 % interval, None below three repetitions."""

    share: float
    low: float | None
    high: float | None
    repetitions: int


def kept(throughput: Throughput) -> Kept | None:
    """Of the runs (repetitions x mixes, NaN: not finished) that finished every mix.

    None where there are no such runs, where there is one mix only, or where a peak is zero.
    """
    runs = throughput[~np.isnan(throughput).any(axis=1)]
    if not runs.size or runs.shape[1] < 2 or runs.mean(axis=0).max() <= 0:
        return None
    if len(runs) == 1:
        return Kept(float(runs[0, -1] / runs[0].max()), None, None, 1)

    def share(copies: Copies) -> NDArray[np.float64]:
        means = copies @ runs
        return np.asarray(means[..., -1] / means.max(axis=-1))

    sample = Sample(len(runs), share)
    found = log_contrast([sample], [1.0], paired=False)
    if found is None or np.isnan(found.standard_error):
        return Kept(sample.value, None, None, len(runs))
    low, high = np.exp(found.interval())
    return Kept(sample.value, float(low), float(min(high, 1.0)), len(runs))
