"""The mean curve of one configuration, with its spread, its peak, and the share of the peak kept at the last level.

This follows the reports of 1999 to 2004: the repetitions are averaged at each level, and the peak is read from the
averaged curve. Those reports showed no spread; here every mean has one. The highest of several noisy means is biased
upward by the noise (B. Efron, Tweedie's Formula and Selection Bias, Journal of the American Statistical Association
106(496), 2011), so comparisons (`improvement`) do not use this peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STILL_RISING_SHARE = 0.02
"""Smallest rise to the last level that counts, as a share of the highest mean before it."""
STILL_RISING_SHARE_OF_ONE = 0.05
"""Smallest rise that counts if either mean has only one repetition, so that its noise is unknown."""

NEAR_PEAK_SHARE = 0.95
"""Share of the highest mean at which a level counts as near the peak: more load then brings little."""

Throughput = NDArray[np.float64]
"""Repetitions x levels; NaN: a level was not finished."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over `n` repetitions with its range. `deviation` is the sample standard deviation; None if `n` is 1."""

    n: int
    mean: float
    minimum: float
    maximum: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a curve. `points[i]` belongs to level i; None if no repetition finished that level.

    `peak_level` is the index of the highest mean; `peak` is biased upward by noise. `overall_average` is the mean of
    the mean curve over the finished levels. `share_of_peak_kept` is the mean at the last level divided by the peak;
    None if the last level is missing, if there is only one level, or if the peak is zero. `still_rising`: the mean at
    the last finished level exceeds every earlier one by more than the noise, so the peak is a lower bound. If it is
    false and the highest mean is at the last level, all that can be said is that no fall was seen.
    """

    points: tuple[Spread | None, ...]
    peak_level: int
    peak: Spread
    overall_average: Spread
    share_of_peak_kept: float | None
    still_rising: bool


def spread(values: Sequence[float] | NDArray[np.float64]) -> Spread | None:
    """Return mean, range and sample standard deviation (n - 1) of the values without NaN; None if all are NaN."""
    present = np.asarray(values, dtype=np.float64)
    present = present[~np.isnan(present)]
    if present.size == 0:
        return None
    return Spread(
        n=int(present.size),
        mean=float(present.mean()),
        minimum=float(present.min()),
        maximum=float(present.max()),
        deviation=float(present.std(ddof=1)) if present.size >= 2 else None,
    )


def summarise(throughput: Throughput) -> Summary | None:
    """Return the summary of one configuration's runs; None if no level was finished.

    The spread of the overall average covers the repetitions that finished every level of the curve. The average itself
    is taken from the mean curve, which gives the same value if no level is missing.
    """
    points = tuple(spread(column) for column in throughput.T)
    finished = [index for index, point in enumerate(points) if point is not None]
    if not finished:
        return None
    means = {index: point.mean for index, point in enumerate(points) if point is not None}
    peak_level = max(finished, key=lambda index: means[index])
    peak = points[peak_level]
    average = _overall_average(throughput[:, finished], float(np.mean([means[index] for index in finished])))
    assert peak is not None  # peak_level is one of the finished levels
    last = len(points) - 1
    kept = means[last] / peak.mean if last in means and last > 0 and peak.mean > 0 else None
    return Summary(
        points=points,
        peak_level=peak_level,
        peak=peak,
        overall_average=average,
        share_of_peak_kept=kept,
        still_rising=_still_rising([point for point in points if point is not None]),
    )


def near_peak_from(means: Sequence[float] | NDArray[np.float64]) -> int | None:
    """Return the first level with 95 % of the highest mean (NaN: not finished); None if no mean is above zero."""
    values = np.asarray(means, dtype=np.float64)
    if not (values > 0).any():
        return None
    return int((values >= NEAR_PEAK_SHARE * np.nanmax(values)).argmax())


def _still_rising(finished: Sequence[Spread]) -> bool:
    if len(finished) < 2:
        return False
    return _rose(max(finished[:-1], key=lambda point: point.mean), finished[-1])


def _rose(earlier: Spread, last: Spread) -> bool:
    """Return whether `last` exceeds `earlier` by 2 % and by the larger of their two standard deviations.

    If either has no standard deviation, `last` must exceed `earlier` by 5 %. Both shares are rules of thumb, as in
    `trust`.
    """
    rise = last.mean - earlier.mean
    if earlier.deviation is None or last.deviation is None:
        return rise > 0 and rise >= STILL_RISING_SHARE_OF_ONE * earlier.mean
    noise = max(earlier.deviation, last.deviation)
    return rise > noise and rise >= STILL_RISING_SHARE * earlier.mean


def _overall_average(finished: Throughput, mean: float) -> Spread:
    whole = finished[~np.isnan(finished).any(axis=1)].mean(axis=1)
    over_runs = spread(whole)
    if over_runs is None:
        return Spread(n=0, mean=mean, minimum=mean, maximum=mean, deviation=None)
    return Spread(over_runs.n, mean, over_runs.minimum, over_runs.maximum, over_runs.deviation)
