"""The peak of one configuration with its uncertainty: how high, and at which mix.

**How high.** The highest of several noisy means is biased upward by the noise, so the peak is estimated by
leave-one-out: for each run the peak's mix is chosen from the mean of the other runs, the throughput of this
run is read there, and the mean over the runs is the peak (M. Stone, Cross-Validatory Choice and Assessment of
Statistical Predictions, Journal of the Royal Statistical Society B 36(2), 1974,
doi:10.1111/j.2517-6161.1974.tb00994.x; on the bias: B. Efron, Tweedie's Formula and Selection Bias, Journal of
the American Statistical Association 106(496), 2011, doi:10.1198/jasa.2011.tm11181). It is without bias for
the throughput at the mix so chosen. That may be a neighbour of the true peak where noise hides which is
higher, so this figure may lie a little below the peak; where all runs agree on the mix, it is the highest mean.

**Its error.** The values of the runs are not independent, since each helped to choose where the others were read: on a
plateau of equal mixes their own standard error is too small, and claims a difference of equal servers in 9 to 17 % of
experiments. So whole runs are resampled and the mixes chosen anew in each resample (B. Efron, R. J. Tibshirani, An
Introduction to the Bootstrap, Chapman & Hall 1993, chapter 6). All resamples are counted up to six runs; beyond, 1,000
are drawn. The variance of n runs is too small by (n - 1) / n, and widened by that (T. C. Hesterberg, What Teachers
Should Know About the Bootstrap, The American Statistician 69(4), 2015, doi:10.1080/00031305.2015.1089789). On a
plateau it is then too large, which errs on the side of "no difference shown".

**At which mix.** The mixes that can't be told from the peak are a subset selection: those whose mean is not below the
highest other by more than d s sqrt(2 / n), with n runs (S. S. Gupta, On Some Multiple Decision (Selection and
Ranking) Rules, Technometrics 7(2), 1965, doi:10.1080/00401706.1965.10490251). s is the standard deviation of
the log throughput once the means of each run and each mix are taken out (runs as blocks); d is the one-sided
critical value of Dunnett (A Multiple Comparison Procedure for Comparing Several Treatments with a Control,
Journal of the American Statistical Association 50(272), 1955, table 1a). The true peak's mix is in the set in at
least 95 of 100 experiments, if noise is normal and relatively as large at all mixes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
from numpy.typing import NDArray
from scipy import special

from serverdyno.analysis.contrast import CONFIDENCE, FEWEST_REPETITIONS, SEED, Contrast, welch
from serverdyno.analysis.curve import Throughput
from serverdyno.analysis.root import root

RESAMPLES = 1000
MOST_COUNTED = 6
"""Runs of which every resample is counted: six have 462."""
_QUADRATURE = 400  # points for the distribution of s; the critical value then holds to 0.01
_HERMITE = 80

Copies = NDArray[np.float64]
"""How often each run was drawn: resamples x runs."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of one configuration, over the runs that finished every mix that any run finished.

    `mix`: index of the highest mean, which is `highest_mean`. `value`: by leave-one-out; of one run the highest
    figure. `low`, `high`: its 95 % interval; None of one run. `candidates`: indices of the mixes that can't be told
    from the peak, its own included; None where that can't be judged (one run, or a mix without throughput).
    """

    mix: int
    highest_mean: float
    value: float
    low: float | None
    high: float | None
    candidates: tuple[int, ...] | None
    repetitions: int


def peak(throughput: Throughput) -> Peak | None:
    """The peak of repetitions x mixes (NaN: not finished); None where no run finished every mix."""
    finished = np.flatnonzero(~np.isnan(throughput).all(axis=0))
    runs = throughput[:, finished]
    runs = runs[~np.isnan(runs).any(axis=1)]
    if not runs.size:
        return None
    means = runs.mean(axis=0)
    low, high = _interval(runs)
    not_apart = candidates(runs)
    return Peak(
        mix=int(finished[means.argmax()]),
        highest_mean=float(means.max()),
        value=float(of_runs(runs).mean()),
        low=low,
        high=high,
        candidates=None if not_apart is None else tuple(int(finished[mix]) for mix in not_apart),
        repetitions=len(runs),
    )


def of_runs(runs: Throughput) -> NDArray[np.float64]:
    """Each run's throughput where the mean of the other runs is highest; of one run, its highest."""
    return np.asarray(runs[np.arange(len(runs)), chosen(runs)])


def chosen(runs: Throughput) -> NDArray[np.intp]:
    """For each run the mix that the other runs choose; of one run, the one that it chooses itself."""
    return np.asarray(_chosen(runs, np.ones((1, len(runs))))[0])


def contrast(base: Throughput, other: Throughput, *, paired: bool) -> Contrast:
    """The log ratio of the peaks of two configurations, of two runs or more each, with its bootstrap variance.

    `paired`: equal rows belong together, and are drawn together.
    """
    if not paired:
        return welch(_of_one(base), _of_one(other))
    copies, probabilities = _resamples(len(base))
    variance = _variance(_log_figures(other, copies) - _log_figures(base, copies), probabilities, len(base))
    return Contrast(_log_peak(other) - _log_peak(base), variance, len(base) - 1)


def _of_one(runs: Throughput) -> Contrast:
    copies, probabilities = _resamples(len(runs))
    variance = _variance(_log_figures(runs, copies), probabilities, len(runs))
    return Contrast(_log_peak(runs), variance, len(runs) - 1)


def _log_peak(runs: Throughput) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(of_runs(runs).mean()))


def _variance(logs: NDArray[np.float64], probabilities: NDArray[np.float64], runs: int) -> float:
    """NaN where a resample has a figure of zero."""
    if not np.isfinite(logs).all():
        return float("nan")
    return float(probabilities @ (logs - probabilities @ logs) ** 2) * runs / (runs - 1)


def _log_figures(runs: Throughput, copies: Copies) -> NDArray[np.float64]:
    """Of each resample. All copies of a run are the same run: none of them helps to choose its mix."""
    read = runs[np.arange(len(runs)), _chosen(runs, copies)]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log((copies * read).mean(axis=-1)))


def _chosen(runs: Throughput, copies: Copies) -> NDArray[np.intp]:
    """Resamples x runs. A resample of one run only keeps the mix that the sample itself chooses."""
    others = (copies @ runs)[:, None, :] - copies[:, :, None] * runs
    alone = copies == len(runs)
    if alone.any() and len(runs) > 1:
        others = np.where(alone[:, :, None], runs.sum(axis=0) - runs, others)
    elif len(runs) == 1:
        others = np.broadcast_to(runs, others.shape)
    return np.asarray(others.argmax(axis=-1))


@lru_cache(maxsize=16)
def _resamples(runs: int) -> tuple[Copies, NDArray[np.float64]]:
    """How often each run is drawn, and how probable that is."""
    if runs > MOST_COUNTED:
        drawn = np.random.default_rng(SEED).multinomial(runs, np.full(runs, 1 / runs), RESAMPLES)
        return drawn.astype(np.float64), np.full(RESAMPLES, 1 / RESAMPLES)
    counts = [np.bincount(each, minlength=runs) for each in combinations_with_replacement(range(runs), runs)]
    orders = [factorial(runs) // prod(factorial(int(count)) for count in each) for each in counts]
    return np.array(counts, dtype=np.float64), np.array(orders) / runs**runs


@lru_cache(maxsize=256)
def critical_value(others: int, degrees_of_freedom: int, confidence: float = CONFIDENCE) -> float:
    """Dunnett's one-sided d: how far the best of `others` mixes lies above an equal one, in s sqrt(2 / n).

    Solves P(max (Z_i - Z_0) / sqrt 2 <= d S) = confidence, by quadrature over Z_0 and S = sqrt(chi2 / df).
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
    """The mixes that can't be told from the peak, of runs that finished every mix; None as in `Peak`."""
    repetitions, mixes = runs.shape
    if mixes == 1:
        return np.array([0])
    if repetitions < 2 or (runs <= 0).any():
        return None
    logs = np.log(runs)
    means = logs.mean(axis=0)
    degrees = (repetitions - 1) * (mixes - 1)
    residuals = logs - logs.mean(axis=1, keepdims=True) - means + logs.mean()
    deviation = np.sqrt((residuals**2).sum() / degrees)
    reach = critical_value(mixes - 1, degrees) * deviation * np.sqrt(2 / repetitions)
    # A hair is allowed for rounding, so that the highest mean itself is always there.
    return np.flatnonzero(means >= means.max() - reach - 1e-12)


def _interval(runs: Throughput) -> tuple[float | None, float | None]:
    if len(runs) < FEWEST_REPETITIONS:
        return None, None
    found = _of_one(runs)
    if np.isnan(found.variance):
        return None, None
    low, high = np.exp(found.interval())
    return float(low), float(high)
