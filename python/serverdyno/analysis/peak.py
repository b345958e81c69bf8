"""The peak of one configuration with its uncertainty: how high it is, and at which level.

**How high.** The highest of several noisy means is biased upward by the noise (B. Efron, Tweedie's Formula and
Selection Bias, Journal of the American Statistical Association 106(496), 2011, doi:10.1198/jasa.2011.tm11181). So the
peak is estimated by cross-validation in two halves of the runs: the mean of each half chooses a level, and the runs
of the other half are read there (M. Stone, Cross-Validatory Choice and Assessment of Statistical Predictions, Journal
of the Royal Statistical Society B 36(2), 1974, doi:10.1111/j.2517-6161.1974.tb00994.x). This is unbiased for the
throughput at the chosen levels. They may be neighbours of the true peak if noise hides which is higher, so this
figure may lie slightly below the peak; if both halves choose the same level, it is the highest mean.

**Its error.** The values of a half are independent of the choice of their level. The two halves are not independent of
each other, since each chose the other's level. With only the scatter of the values, up to 17 % of experiments would
claim a difference between equal servers. So the noise of a level counts twice: where it is read, and where it helped to
choose. This noise is estimated from the levels that can't be distinguished from the peak; if there is only one such
level, nothing was chosen. In 32 combinations of curve and noise, 0 to 5.5 % of experiments then claim a difference
between equal servers (2 to 10 runs, 4,000 simulated experiments each). If all other runs chose the level of each run
(leave-one-out), all values would depend on each other, and up to 22 % of experiments would claim a difference.

**At which level.** The levels that can't be distinguished from the peak are a subset selection: those whose mean is not
below the highest other by more than d s sqrt(2 / n), with n runs (S. S. Gupta, On Some Multiple Decision (Selection and
Ranking) Rules, Technometrics 7(2), 1965, doi:10.1080/00401706.1965.10490251). Here s is the standard deviation of the
log throughput after removal of the means of each run and each level (runs as blocks). d is the one-sided critical value
of Dunnett (A Multiple Comparison Procedure for Comparing Several Treatments with a Control, Journal of the American
Statistical Association 50(272), 1955, table 1a). The set contains the true peak's level in at least 95 of 100
experiments, if noise is normal and relatively equal at all levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from serverdyno.analysis.contrast import CONFIDENCE, FEWEST_REPETITIONS, Contrast, of_one, of_two
from serverdyno.analysis.curve import Throughput
from serverdyno.analysis.root import root

_QUADRATURE = 400  # points for the distribution of s; the critical value is then accurate to 0.01
_HERMITE = 80


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of one configuration, over the runs that finished every level that any run finished.

    `index` is the index of `highest_mean`. `value` is cross-validated; with one run, it is the highest figure. `low`
    and `high` are its 95 % interval; None with one run. `candidates` are the indices of the levels that can't be
    distinguished from the peak, including its own; None: that can't be judged (one run, or a level without throughput).
    """

    index: int
    highest_mean: float
    value: float
    low: float | None
    high: float | None
    candidates: tuple[int, ...] | None
    repetitions: int


def peak(throughput: Throughput) -> Peak | None:
    """Return the peak of repetitions x levels (NaN: not finished); None if no run finished every level."""
    finished = np.flatnonzero(~np.isnan(throughput).all(axis=0))
    runs = throughput[:, finished]
    runs = runs[~np.isnan(runs).any(axis=1)]
    if not runs.size:
        return None
    means = runs.mean(axis=0)
    low, high = _interval(runs)
    not_apart = candidates(runs)
    return Peak(
        index=int(finished[means.argmax()]),
        highest_mean=float(means.max()),
        value=float(of_runs(runs).mean()),
        low=low,
        high=high,
        candidates=None if not_apart is None else tuple(int(finished[level]) for level in not_apart),
        repetitions=len(runs),
    )


def of_runs(runs: Throughput) -> NDArray[np.float64]:
    """Return each run's throughput at the level that `chosen` returns for it."""
    return np.asarray(runs[np.arange(len(runs)), chosen(runs)])


def chosen(runs: Throughput) -> NDArray[np.intp]:
    """Return each run's level: the highest mean of the other half of the runs; for a single run, its highest level."""
    if len(runs) == 1:
        return np.asarray(runs.argmax(axis=1))
    halves = [int(runs[start::2].mean(axis=0).argmax()) for start in (0, 1)]
    return np.array([halves[1 - run % 2] for run in range(len(runs))])


def contrast(base: Throughput, other: Throughput, rounds: Sequence[int] | None) -> Contrast:
    """Return the log ratio of the peaks of two configurations, each of two runs or more with throughput.

    `rounds` is as in `contrast.of_two`.
    """
    found = of_two(np.log(of_runs(base)), np.log(of_runs(other)), rounds)
    return _with_choice(found, base, other)


def _with_choice(found: Contrast, *sides: Throughput) -> Contrast:
    """Return the contrast with the additional variance from the choice of levels."""
    added = sum(_choice_variance(runs) / len(runs) for runs in sides)
    return replace(found, variance=found.variance + added, added=added)


def _choice_variance(runs: Throughput) -> float:
    """Return the variance of one level in one run, among the candidates for the peak.

    It is 0 if there is only one candidate.
    """
    positive = runs[:, (runs > 0).all(axis=0)]
    compete = candidates(positive) if positive.size else None
    if compete is None or len(compete) == 1:
        return 0.0
    return _level_variance(np.log(positive[:, compete]))


def _level_variance(logs: NDArray[np.float64]) -> float:
    """Return the variance of runs x levels after removal of the means of each run and each level."""
    repetitions, levels = logs.shape
    residuals = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    return float((residuals**2).sum() / ((repetitions - 1) * (levels - 1)))


@lru_cache(maxsize=256)
def critical_value(others: int, degrees_of_freedom: int, confidence: float = CONFIDENCE) -> float:
    """Return Dunnett's one-sided d: how far the best of `others` levels exceeds an equal one, in s sqrt(2 / n).

    It solves P(max (Z_i - Z_0) / sqrt 2 <= d S) = confidence, by quadrature over Z_0 and S = sqrt(chi2 / df).
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_HERMITE)
    weights = weights / weights.sum()
    quantiles = (np.arange(_QUADRATURE) + 0.5) / _QUADRATURE
    scales = np.sqrt(2 * special.gammaincinv(degrees_of_freedom / 2, quantiles) / degrees_of_freedom)

    def shortfall(d: float) -> float:
        inside = special.ndtr(nodes + np.sqrt(2) * d * scales[:, None]) ** others
        return float((inside @ weights).mean() - confidence)

    return root(shortfall, 0.0, 1000.0)


def candidates(runs: Throughput) -> NDArray[np.intp] | None:
    """Return the levels that can't be distinguished from the peak, given complete runs; None: see `Peak`."""
    repetitions, levels = runs.shape
    if levels == 1:
        return np.array([0])
    if repetitions < 2 or (runs <= 0).any():
        return None
    logs = np.log(runs)
    means = logs.mean(axis=0)
    critical = critical_value(levels - 1, (repetitions - 1) * (levels - 1))
    reach = critical * np.sqrt(_level_variance(logs) * 2 / repetitions)
    # A small tolerance for rounding ensures that the highest mean itself is included.
    return np.flatnonzero(means >= means.max() - reach - 1e-12)


def _interval(runs: Throughput) -> tuple[float | None, float | None]:
    values = of_runs(runs)
    if len(runs) < FEWEST_REPETITIONS or values.min() <= 0:
        return None, None
    low, high = np.exp(_with_choice(of_one(np.log(values)), runs).interval())
    return float(low), float(high)
