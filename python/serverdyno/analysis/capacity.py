"""Capacity at an objective: the highest rate at which a server meets it, found by trials that either hold or fail.

The result of a trial is noisy near the limit, so no single trial decides. The probability that a trial holds is
modelled as a logistic curve over the logarithm of the rate. Its midpoint (the capacity, where half of the trials hold)
and its steepness are unknown; a small share of trials ends by chance. Bayes' rule on a grid gives the capacity and its
interval after each trial; the steepness is averaged out. This is the psychometric method of psychophysics (A. B. Watson
and D. G. Pelli, QUEST: A Bayesian adaptive psychometric method, Perception & Psychophysics 33(2), 1983,
doi:10.3758/BF03202828), and bisection for noisy answers (M. Horstein, Sequential transmission using noiseless feedback,
IEEE Transactions on Information Theory 9(3), 1963, doi:10.1109/TIT.1963.1057832).

The first trials double the rate from the lowest, so that no trial demands more than twice what the server can do.
After the first failure, each trial is at the median of the posterior: half-way between trials that agree, or at the
same rate again if they disagree. The prior is uniform over the logarithm of the rate, and extends a factor of four
beyond the range on both sides. `tests/whole/test_capacity.py` checks the constants by simulation.

`report/figures/trials.py` defines what a trial is and whether it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, log, log1p

import numpy as np

from serverdyno.analysis.contrast import CONFIDENCE, FEWEST_REPETITIONS, of_one

CHANCE = 0.03
"""Share of trials whose result is due to a burst of noise, in either direction."""
STEEPNESS = np.geomspace(4.0, 256.0, 7)
"""Steepness of the logistic curve, in units of 1 / ln(rate).

The rates at which 90 % and 10 % of the trials hold differ by a factor of 3 (at 4), or by 2 % (at 256).
"""
BEYOND = 4.0
"""Factor by which the prior extends beyond the rates to search, on both sides."""
GROWTH = 2
LOOKS = 2
"""Number of trials at the highest rate after which it counts as held."""
STEPS = 8
"""Number of grid steps per unit of precision."""
SURE = 0.99
"""Probability that the capacity is outside the range, at which the search ends.

It is high, so that one trial decided by chance does not end the search.
"""


class End(StrEnum):
    FOUND = "requested precision reached"
    BUDGET = "maximum number of trials reached"
    LOWEST_FAILS = "lowest rate failed"
    HIGHEST_HOLDS = "highest rate passed"


@dataclass(frozen=True, slots=True)
class Trial:
    rate_per_s: int
    held: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The range of rates to search, the precision (half of the 95 % interval), and the largest number of trials."""

    lowest_per_s: int
    highest_per_s: int
    precision_percent: float
    most_trials: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The capacity in requests/s with its 95 % interval. `end` is None while more trials are due.

    `low_per_s` is None if it is below the range, and `high_per_s` if it is above. `held_per_s` is the highest rate at
    which, and below which, every trial held; None if there is none.
    """

    rate_per_s: float
    low_per_s: float | None
    high_per_s: float | None
    held_per_s: int | None
    end: End | None


@dataclass(frozen=True, slots=True)
class _Known:
    """The posterior of ln(capacity) after some trials.

    `below` and `above` are the probabilities that the capacity is below or above the range.
    """

    low: float
    median: float
    high: float
    below: float
    above: float


def next_rate(within: Range, trials: Sequence[Trial]) -> int | None:
    """Return the rate of the next trial, in requests/s; None if the search is over."""
    if not trials:
        return within.lowest_per_s
    known = _known(within, trials)
    if _end(within, trials, known) is not None:
        return None
    reached = max(trial.rate_per_s for trial in trials)
    if all(trial.held for trial in trials) and reached < within.highest_per_s:
        return min(within.highest_per_s, reached * GROWTH)
    return max(within.lowest_per_s, min(round(exp(known.median)), _most_asked_for(within, trials)))


def _most_asked_for(within: Range, trials: Sequence[Trial]) -> int:
    """Return the highest rate allowed for the next trial, to avoid needless overload.

    It is at most twice the highest rate that held. A rate that failed more often than it held is tried again before any
    higher one, because it may have failed by chance.
    """
    balance: dict[int, int] = {}
    for trial in trials:
        balance[trial.rate_per_s] = balance.get(trial.rate_per_s, 0) + (1 if trial.held else -1)
    held = max((trial.rate_per_s for trial in trials if trial.held), default=within.lowest_per_s)
    failed = min((rate for rate, count in balance.items() if count < 0), default=within.highest_per_s)
    return min(failed, GROWTH * held, within.highest_per_s)


def estimate(within: Range, trials: Sequence[Trial]) -> Estimate:
    known = _known(within, trials)
    failed = min((trial.rate_per_s for trial in trials if not trial.held), default=None)
    held = [trial.rate_per_s for trial in trials if failed is None or trial.rate_per_s < failed]
    low, high = exp(known.low), exp(known.high)
    return Estimate(
        exp(known.median),
        low if low >= within.lowest_per_s else None,
        high if high <= within.highest_per_s else None,
        max(held, default=None),
        _end(within, trials, known),
    )


def together(estimates: Sequence[Estimate]) -> tuple[float, float | None, float | None] | None:
    """Return the geometric mean of one configuration's runs and its 95 % interval; None if a run has no figure.

    With two runs or more, the interval is Student's over the runs, which are the repetitions; a single
    run keeps its own interval.
    """
    if not estimates or any(found.end not in (End.FOUND, End.BUDGET) for found in estimates):
        return None
    logs = np.log([found.rate_per_s for found in estimates])
    if len(estimates) < FEWEST_REPETITIONS:
        return estimates[0].rate_per_s, estimates[0].low_per_s, estimates[0].high_per_s
    low, high = of_one(logs).interval()
    return exp(logs.mean()), exp(low), exp(high)


def _end(within: Range, trials: Sequence[Trial], known: _Known) -> End | None:
    if known.below > SURE:
        return End.LOWEST_FAILS
    if known.above > SURE and [trial.rate_per_s for trial in trials].count(within.highest_per_s) >= LOOKS:
        return End.HIGHEST_HOLDS
    if (known.high - known.low) / 2 <= log1p(within.precision_percent / 100):
        return End.FOUND
    return End.BUDGET if len(trials) >= within.most_trials else None


def _known(within: Range, trials: Sequence[Trial]) -> _Known:
    """Return the posterior after these trials."""
    first, last = log(within.lowest_per_s), log(within.highest_per_s)
    step = log1p(within.precision_percent / 100) / STEPS
    grid = np.arange(first - log(BEYOND), last + log(BEYOND) + step, step)
    weights = np.zeros((len(grid), len(STEEPNESS)))
    for trial in trials:
        odds = np.clip(STEEPNESS * (grid[:, np.newaxis] - log(trial.rate_per_s)), -50, 50)
        holds = CHANCE + (1 - 2 * CHANCE) / (1 + np.exp(-odds))
        weights += np.log(holds if trial.held else 1 - holds)
    chances = np.exp(weights - weights.max()).sum(axis=1)
    up_to = np.cumsum(chances / chances.sum())
    tail = (1 - CONFIDENCE) / 2
    low, median, high = (float(grid[np.searchsorted(up_to, at)]) for at in (tail, 0.5, 1 - tail))
    below, up_to_last = (float(np.interp(at, grid, up_to)) for at in (first, last))
    return _Known(low, median, high, below, 1 - up_to_last)
