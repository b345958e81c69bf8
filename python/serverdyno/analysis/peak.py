"""The peak of one configuration with its uncertainty: how high, and at which mix.

**How high.** The highest of several noisy means is biased upward by the noise, so the peak is also estimated
by leave-one-out: for each run the peak's mix is chosen from the mean of the other runs, the throughput of this
run is read there, and the mean over the runs is the peak (M. Stone, Cross-Validatory Choice and Assessment of
Statistical Predictions, Journal of the Royal Statistical Society B 36(2), 1974,
doi:10.1111/j.2517-6161.1974.tb00994.x; on the bias: B. Efron, Tweedie's Formula and Selection Bias, Journal of
the American Statistical Association 106(496), 2011, doi:10.1198/jasa.2011.tm11181). It is without bias for
the throughput at the mix so chosen. That may be a neighbour of the true peak where noise hides which is
higher, so this figure may lie a little below the peak; where all runs agree on the mix, it is the highest mean.
Its interval is that of `contrast`.

**At which mix.** Two answers. The share of resamples (of whole runs, as in `contrast`) in which each mix has
the highest mean shows how the choice wavers. It is no probability: three runs have ten different resamples.
The mixes that can't be told apart from the peak are a subset selection: those whose mean is not below the
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

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from serverdyno.analysis.contrast import (
    CONFIDENCE,
    FEWEST_REPETITIONS,
    RESAMPLES,
    SEED,
    Copies,
    Sample,
    log_contrast,
)
from serverdyno.analysis.curve import Throughput

_QUADRATURE = 400  # points for the distribution of s; the critical value then holds to 0.01
_HERMITE = 80


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of one configuration, over the runs that finished every mix that any run finished.

    `mix`: index of the highest mean, which is `highest_mean`. `value`: by leave-one-out; None of one run. `low`,
    `high`: its 95 % interval; None below three runs. `shares[i]`: share of resamples that have their highest
    mean at mix i; None of one run. `candidates`: indices of the mixes that can't be told apart from the peak, its
    own included; None where that can't be judged (one run, or a mix without throughput).
    """

    mix: int
    highest_mean: float
    value: float | None
    low: float | None
    high: float | None
    shares: tuple[float, ...] | None
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
    shares, not_apart = _shares(runs), candidates(runs)
    return Peak(
        mix=int(finished[means.argmax()]),
        highest_mean=float(means.max()),
        value=None if len(runs) < FEWEST_REPETITIONS else sample(runs).value,
        low=low,
        high=high,
        shares=None if shares is None else _spread_out(shares, finished, throughput.shape[1]),
        candidates=None if not_apart is None else tuple(int(finished[mix]) for mix in not_apart),
        repetitions=len(runs),
    )


def leave_one_out(runs: Throughput, copies: Copies) -> NDArray[np.float64]:
    """Each run's throughput at the mix where the mean of the other runs is highest; of two runs or more.

    `copies`: how often each run was drawn, resamples x runs or runs alone. All copies of a run are the same
    run: none of them helps to choose its mix. A resample of one run only keeps the mix of the sample itself.
    """
    return np.asarray(runs[np.arange(len(runs)), _chosen(runs, copies)])


def chosen(runs: Throughput) -> NDArray[np.intp]:
    """For each run the mix that the other runs choose, at which `leave_one_out` reads it."""
    return _chosen(runs, np.ones(len(runs)))


def _chosen(runs: Throughput, copies: Copies) -> NDArray[np.intp]:
    others = (copies @ runs)[..., None, :] - copies[..., None] * runs
    others = np.where((copies == len(runs))[..., None], runs.sum(axis=0) - runs, others)
    return np.asarray(others.argmax(axis=-1))


def sample(runs: Throughput) -> Sample:
    """Runs and their peak by leave-one-out, for a contrast."""
    return Sample(len(runs), lambda copies: np.asarray((copies * leave_one_out(runs, copies)).mean(axis=-1)))


@lru_cache(maxsize=256)
def critical_value(others: int, degrees_of_freedom: int, confidence: float = CONFIDENCE) -> float:
    """Dunnett's one-sided d: how far the best of `others` mixes lies above an equal one, in s sqrt(2 / n).

    Solves P(max (Z_i - Z_0) / sqrt 2 <= d S) = confidence, by quadrature over Z_0 and S = sqrt(chi2 / df).
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_HERMITE)
    weights = weights / weights.sum()
    quantiles = (np.arange(_QUADRATURE) + 0.5) / _QUADRATURE
    scales = np.sqrt(stats.chi2.ppf(quantiles, degrees_of_freedom) / degrees_of_freedom)

    def shortfall(d: float) -> float:
        inside = stats.norm.cdf(nodes + np.sqrt(2) * d * scales[:, None]) ** others
        return float((inside @ weights).mean() - confidence)

    return float(optimize.brentq(shortfall, 0.0, 1000.0))


def candidates(runs: Throughput) -> NDArray[np.intp] | None:
    """The mixes that can't be told apart from the peak, of runs that finished every mix; None as in `Peak`."""
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
    found = log_contrast([sample(runs)], [1.0], paired=False)
    if found is None or np.isnan(found.standard_error):
        return None, None
    low, high = np.exp(found.interval())
    return float(low), float(high)


def _shares(runs: Throughput) -> NDArray[np.float64] | None:
    if len(runs) < 2:
        return None
    drawn = np.random.default_rng(SEED).multinomial(len(runs), np.full(len(runs), 1 / len(runs)), RESAMPLES)
    highest = (drawn @ runs).argmax(axis=1)
    return np.asarray(np.bincount(highest, minlength=runs.shape[1]) / RESAMPLES)


def _spread_out(shares: NDArray[np.float64], finished: NDArray[np.intp], mixes: int) -> tuple[float, ...]:
    of_all = np.zeros(mixes)
    of_all[finished] = shares
    return tuple(of_all.tolist())
