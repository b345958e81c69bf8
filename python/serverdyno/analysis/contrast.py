"""The logarithm of the ratio of two configurations (or of one figure), with its variance and t interval.

The errors of a ratio are multiplicative, so logarithms are used: "twice" and "half" are equally far from no difference.
Each run is one observation, because runs, not levels, were repeated.

**Runs in rounds.** Interleaved configurations run in alternating order: A B C, C B A. Two such rounds form a block, in
which every configuration has the same mean position, so that a linear drift cancels. The noise is the residual of a
mean per configuration and a shift per block (randomised blocks with replication: G. E. P. Box, J. S. Hunter and W. G.
Hunter, Statistics for Experimenters, 2nd edition, Wiley 2005, chapter 4). Pairs of single rounds would have fewer
degrees of freedom, and would miss slow changes: the runs at the turn of two rounds are neighbours and resemble each
other.

**Unequal noise** of two configurations gets the degrees of freedom of Welch and Satterthwaite, with and without blocks
(B. L. Welch, The Generalization of Student's Problem when Several Different Population Variances Are Involved,
Biometrika 34, 1947, doi:10.1093/biomet/34.1-2.28).

**An odd run** is one that normal noise produces in one of a thousand experiments, judged by its deleted residual and
corrected for the number of runs (R. D. Cook and S. Weisberg, Residuals and Influence in Regression, Chapman and Hall
1982, chapter 2). At most one is found. Two odd runs hide each other and count as noise.

`improvement`, `peak` and `comparisons` choose what is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from serverdyno.analysis.threshold import ROUNDS_OF_A_BLOCK

CONFIDENCE = 0.95
FEWEST_REPETITIONS = 2
SEED = 20260101
ODD_LEVEL = 0.001
"""False positive rate of the test for an outlying run, per experiment.

The test adds about this much to an error rate of 5 %.
"""
LEAST_ODD = 0.02
"""Smallest distance of an outlying run from the others, as a logarithm. A smaller distance would not matter."""

Logs = NDArray[np.float64]
"""Logarithms of a figure, one per run."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """A logarithm with its variance, which is NaN if a run had a figure of zero.

    `added` is the part of the variance that does not come from the scatter of the runs.
    """

    estimate: float
    variance: float
    degrees_of_freedom: float
    added: float = 0.0

    @property
    def standard_error(self) -> float:
        return float(np.sqrt(self.variance))

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the t interval of the logarithm."""
        reach = self.standard_error * t_quantile((1 + confidence) / 2, self.degrees_of_freedom)
        return self.estimate - reach, self.estimate + reach

    def p_value_beyond(self, margin: float = 0.0) -> float:
        """Return the two-sided p-value of a true contrast within `margin` (a logarithm) of 0.

        It is below 1 - confidence if and only if the whole interval is beyond the margin, on one side.
        """
        return self._two_sided(abs(self.estimate) - margin)

    def p_value_within(self, margin: float) -> float:
        """Return the p-value of the hypothesis that the true contrast is `margin` or more away from 0.

        It is below 1 - confidence if and only if the whole interval is inside the margins.
        """
        return self._two_sided(margin - abs(self.estimate))

    def _two_sided(self, distance: float) -> float:
        if self.variance == 0:
            return 0.0 if distance > 0 else 1.0
        tail = special.stdtr(self.degrees_of_freedom, -distance / self.standard_error)
        return min(1.0, 2 * float(tail))


@dataclass(frozen=True, slots=True)
class Scatter:
    """The variance of a single run.

    `odd` contains two indices: a configuration, and its outlying run, which the variance excludes. `odd_by` is the
    logarithm of the ratio between that run and the value predicted from the other runs.
    """

    variance: float
    degrees_of_freedom: float
    odd: tuple[int, int] | None = None
    odd_by: float = 0.0


def t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Return the quantile of Student's t distribution at `probability`."""
    return float(special.stdtrit(degrees_of_freedom, probability))


def of_one(logs: Logs) -> Contrast:
    """Return the mean of one configuration's runs, at least two."""
    return Contrast(float(logs.mean()), float(logs.var(ddof=1)) / len(logs), len(logs) - 1)


def of_two(base: Logs, other: Logs, rounds: Sequence[int] | None) -> Contrast:
    """Return the difference `other` - `base`. Each side has two or more runs.

    `rounds` is the repetition of each run, the same for both sides, if they ran in rounds. None: the runs are
    independent.
    """
    if rounds is None:
        return welch(of_one(base), of_one(other))
    rest, _, freedom = _residuals([base, other], rounds)
    squares = np.array([float(each @ each) for each in rest])
    variance = squares.sum() / freedom
    if variance > 0:
        freedom *= squares.sum() ** 2 / (2 * (squares**2).sum())
    return Contrast(float(other.mean() - base.mean()), float(variance * 2 / len(base)), float(freedom))


def welch(base: Contrast, other: Contrast) -> Contrast:
    """Return the difference `other` - `base` of two independent contrasts."""
    variance = base.variance + other.variance
    squares = sum(side.variance**2 / side.degrees_of_freedom for side in (base, other))
    fewest = min(base.degrees_of_freedom, other.degrees_of_freedom)
    freedom = variance**2 / squares if squares > 0 else fewest
    return Contrast(other.estimate - base.estimate, variance, freedom)


def widened(found: Contrast, by: Contrast) -> Contrast:
    """Return the contrast with the variance of an additional, independent error.

    The result has the smaller degrees of freedom. With Welch's, up to 7 % of claimed differences would be false if the
    variance of a few values happens to be small.
    """
    freedom = min(found.degrees_of_freedom, by.degrees_of_freedom)
    return Contrast(found.estimate, found.variance + by.variance, freedom)


def scatter(sides: Sequence[Logs], rounds: Sequence[int] | None) -> Scatter:
    """Return the noise of one run, estimated from two or more configurations. An outlying run is excluded.

    `rounds` is as in `of_two`. Each configuration needs two runs or more.
    """
    rest, leverage, freedom = _residuals(sides, rounds)
    total = float(sum(each @ each for each in rest))
    plain = Scatter(total / freedom, freedom)
    if freedom < 2:
        return plain
    gains = [each**2 / (1 - share) for each, share in zip(rest, leverage, strict=True)]
    side = int(np.argmax([each.max() for each in gains]))
    run = int(gains[side].argmax())
    gain, apart = float(gains[side][run]), float(rest[side][run] / (1 - leverage[side][run]))
    variance = max(0.0, total - gain) / (freedom - 1)
    runs = sum(len(each) for each in sides)
    surprise = 0.0
    if variance > 0:
        surprise = 2 * runs * float(special.stdtr(freedom - 1, -np.sqrt(gain / variance)))
    if surprise >= ODD_LEVEL or abs(apart) < LEAST_ODD:
        return plain
    return Scatter(variance, freedom - 1, (side, run), apart)


def _residuals(
    sides: Sequence[Logs], rounds: Sequence[int] | None
) -> tuple[list[Logs], list[NDArray[np.float64]], int]:
    """Return the residuals of the means and block shifts, the leverage of each run, and the degrees of freedom."""
    rest = [logs - logs.mean() for logs in sides]
    leverage = [np.full(len(logs), 1 / len(logs)) for logs in sides]
    freedom = sum(len(logs) - 1 for logs in sides)
    if rounds is None:
        return rest, leverage, freedom
    matrix, count, runs = np.array(rest), len(sides), len(rounds)
    shares = np.full(runs, 1 / runs)
    blocks = (np.asarray(rounds) - 1) // ROUNDS_OF_A_BLOCK
    for block in set(blocks.tolist()):
        inside = blocks == block
        matrix[:, inside] -= matrix[:, inside].mean()
        shares[inside] += 1 / (count * inside.sum()) - 1 / (count * runs)
    return list(matrix), [shares] * count, freedom - len(set(blocks.tolist())) + 1
