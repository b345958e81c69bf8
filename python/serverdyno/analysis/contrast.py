"""The logarithm of a ratio of two configurations (or of one figure), with its variance and t interval.

Logarithms, because a ratio's errors are multiplicative: "twice" and "half" are equally far from no difference. The
runs are what was repeated, so each run is one observation. Where runs were interleaved, repetition k of both
configurations ran close in time, and the differences of such pairs are the observations; else it is Welch's interval
(B. L. Welch, The Generalization of Student's Problem when Several Different Population Variances Are Involved,
Biometrika 34, 1947, doi:10.1093/biomet/34.1-2.28). Both are exact, or nearly so, for normal noise from two runs on; of
two runs the interval is wide, and says so.

Not for the choice of what is compared: see `improvement`, `peak` and `comparisons`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

CONFIDENCE = 0.95
FEWEST_REPETITIONS = 2
SEED = 20260101

Logs = NDArray[np.float64]
"""The logarithm of a figure of each run."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """A logarithm with its variance. `variance`: NaN where a run had a figure of zero."""

    estimate: float
    variance: float
    degrees_of_freedom: float

    @property
    def standard_error(self) -> float:
        """The root of the variance."""
        return float(np.sqrt(self.variance))

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The t interval of the logarithm."""
        reach = self.standard_error * t_quantile((1 + confidence) / 2, self.degrees_of_freedom)
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
        if self.variance == 0:
            return 0.0 if distance > 0 else 1.0
        tail = special.stdtr(self.degrees_of_freedom, -distance / self.standard_error)
        return min(1.0, 2 * float(tail))


def t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Student's t below which `probability` lies."""
    return float(special.stdtrit(degrees_of_freedom, probability))


def of_one(logs: Logs) -> Contrast:
    """The mean of the runs of one configuration; of two runs or more."""
    return Contrast(float(logs.mean()), float(logs.var(ddof=1)) / len(logs), len(logs) - 1)


def of_two(base: Logs, other: Logs, *, paired: bool) -> Contrast:
    """`other` less `base`; of two runs or more each. `paired`: run k of both belong together."""
    if paired:
        return of_one(other - base)
    return welch(of_one(base), of_one(other))


def welch(base: Contrast, other: Contrast) -> Contrast:
    """`other` less `base`, which are independent. The degrees of freedom are Welch's and Satterthwaite's."""
    variance = base.variance + other.variance
    parts = sum(side.variance**2 / side.degrees_of_freedom for side in (base, other))
    fewest = min(base.degrees_of_freedom, other.degrees_of_freedom)
    degrees = variance**2 / parts if parts > 0 else fewest
    return Contrast(other.estimate - base.estimate, variance, degrees)
