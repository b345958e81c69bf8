"""A weighted sum of log figures over configurations, with its standard error and t interval.

A ratio of two servers is the contrast with weights -1 and +1; a single figure has one weight; the interaction
of tunings has many. `improvement`, `peak`, `overload` and `ablation` say which figure and what follows from it.

1. Whole runs are resampled with replacement, since a run is what was repeated: the mixes of one run share
   the server's state and the weather of the machine. Where runs were interleaved, repetition k of all
   configurations is drawn together, because they ran close in time. Every figure is computed anew for each
   resample; the standard deviation of the contrast is the bootstrap standard error (B. Efron,
   R. J. Tibshirani, An Introduction to the Bootstrap, Chapman & Hall 1993, chapter 6).
2. A bootstrap spread of n runs is too narrow by sqrt((n - 1) / n); it is widened by that factor, and
   multiplied by Student's t with n - 1 degrees of freedom. Percentile intervals leave both out: of 3
   runs, they can't be wider than the range of those 3 (T. C. Hesterberg, What Teachers Should Know About
   the Bootstrap, The American Statistician 69(4), 2015, doi:10.1080/00031305.2015.1089789).
3. Logarithms, because a ratio's errors are multiplicative: "twice" and "half" are equally far from no
   difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
FEWEST_REPETITIONS = 3
RESAMPLES = 9999
SEED = 20260101

Copies = NDArray[np.float64]
"""How often each run was drawn: resamples x runs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The runs of one configuration, as their number, and a figure of any resample of them."""

    runs: int
    figure: Callable[[Copies], NDArray[np.float64]]

    @property
    def value(self) -> float:
        """The figure of the runs as they were."""
        return float(self.figure(np.ones((1, self.runs)))[0])


@dataclass(frozen=True, slots=True)
class Contrast:
    """A sum of logarithms. `standard_error`: widened as above; NaN where a resample had a figure of zero.

    `degrees_of_freedom`: from the sample with the fewest runs, the conservative end of Welch's approximation.
    """

    estimate: float
    standard_error: float
    degrees_of_freedom: int

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The t interval of the sum of logarithms."""
        reach = self.standard_error * float(stats.t.ppf((1 + confidence) / 2, self.degrees_of_freedom))
        return self.estimate - reach, self.estimate + reach

    def p_value_beyond(self, margin: float = 0.0) -> float:
        """Two-sided: how surprising this would be if the true contrast were within `margin` (a logarithm) of 0.

        Below 1 - confidence exactly where the interval lies wholly beyond the margin, on one side of it.
        """
        return self._two_sided(abs(self.estimate) - margin)

    def p_value_within(self, margin: float) -> float:
        """How surprising this would be if the true contrast were `margin` or more away from 0.

        Below 1 - confidence exactly where the interval lies wholly inside the margins.
        """
        return self._two_sided(margin - abs(self.estimate))

    def _two_sided(self, distance: float) -> float:
        if self.standard_error == 0:
            return 0.0 if distance > 0 else 1.0
        p_value = 2 * float(stats.t.sf(distance / self.standard_error, self.degrees_of_freedom))
        return min(1.0, p_value)


def log_contrast(samples: Sequence[Sample], weights: Sequence[float], *, paired: bool) -> Contrast | None:
    """The sum of weight x log(figure) over `samples`; None below three runs of any.

    `paired`: run k of every sample is drawn together with run k of the others; all must have as many runs.
    """
    fewest = min(sample.runs for sample in samples)
    if fewest < FEWEST_REPETITIONS:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):  # figures of zero: the error is NaN
        estimate = sum(
            weight * float(np.log(sample.value)) for weight, sample in zip(weights, samples, strict=True)
        )
        error = _bootstrap_standard_error(samples, weights, paired)
    return Contrast(estimate, float(np.sqrt(fewest / (fewest - 1))) * error, fewest - 1)


def _bootstrap_standard_error(samples: Sequence[Sample], weights: Sequence[float], paired: bool) -> float:
    def log_sum(*rows: NDArray[Any], axis: int) -> NDArray[np.float64]:
        logs = [
            weight * np.log(sample.figure(_copies(drawn, sample.runs)))
            for weight, sample, drawn in zip(weights, samples, rows, strict=True)
        ]
        return np.asarray(np.sum(logs, axis=0))

    resampled = stats.bootstrap(
        tuple(np.arange(sample.runs) for sample in samples),
        log_sum,
        paired=paired,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=1000,
        method="percentile",
        rng=np.random.default_rng(SEED),
    )
    return float(resampled.standard_error)


def _copies(drawn: NDArray[Any], runs: int) -> Copies:
    return np.asarray((drawn[..., None] == np.arange(runs)).sum(axis=-2), dtype=np.float64)
