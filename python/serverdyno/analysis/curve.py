"""One configuration under a suite: its mean curve, the spread, the peak and what is left of it at the end.

As the reports of 1999 to 2004 did it: the repetitions are averaged at each mix, and the peak is read from the
averaged curve. Those reports showed no spread; here every mean carries one. Comparing is in `improvement`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Throughput = NDArray[np.float64]
"""Repetitions x mixes; NaN where a mix was not finished."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over `n` repetitions with its range. `deviation`: sample standard deviation, None below two."""

    n: int
    mean: float
    minimum: float
    maximum: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a curve says. `points[i]` belongs to mix i and is None where no repetition finished that mix.

    `peak_mix`: index of the highest mean. `overall_average`: mean of the mean curve over the finished mixes.
    `share_of_peak_kept`: mean at the last mix / peak; None when the last mix is missing, when there is only
    one mix, or when the peak is zero. `ends_at_peak`: the highest mean is at the last finished mix of
    several, so the curve was never seen to fall and the peak is a lower bound.
    """

    points: tuple[Spread | None, ...]
    peak_mix: int
    peak: Spread
    overall_average: Spread
    share_of_peak_kept: float | None
    ends_at_peak: bool


def spread(values: Sequence[float] | NDArray[np.float64]) -> Spread | None:
    """Mean, range and sample standard deviation (n - 1) of the values that are there; None if none is."""
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
    """The summary of one configuration's runs; None when no mix was finished.

    The spread of the overall average is over the repetitions that finished as many mixes as the curve has;
    its mean is of the mean curve, which is the same figure when no mix is missing.
    """
    points = tuple(spread(column) for column in throughput.T)
    finished = [index for index, point in enumerate(points) if point is not None]
    if not finished:
        return None
    means = {index: point.mean for index, point in enumerate(points) if point is not None}
    peak_mix = max(finished, key=lambda index: means[index])
    peak = points[peak_mix]
    average = _overall_average(throughput[:, finished], float(np.mean([means[index] for index in finished])))
    assert peak is not None  # peak_mix is one of the finished mixes
    last = len(points) - 1
    kept = means[last] / peak.mean if last in means and last > 0 and peak.mean > 0 else None
    return Summary(
        points=points,
        peak_mix=peak_mix,
        peak=peak,
        overall_average=average,
        share_of_peak_kept=kept,
        ends_at_peak=len(finished) > 1 and peak_mix == finished[-1],
    )


def _overall_average(finished: Throughput, mean: float) -> Spread:
    whole = finished[~np.isnan(finished).any(axis=1)].mean(axis=1)
    over_runs = spread(whole)
    if over_runs is None:
        return Spread(n=0, mean=mean, minimum=mean, maximum=mean, deviation=None)
    return Spread(over_runs.n, mean, over_runs.minimum, over_runs.maximum, over_runs.deviation)
