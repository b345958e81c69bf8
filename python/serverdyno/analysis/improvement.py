"""Two configurations: how much faster is one, how sure are we, and what may be said.

The estimate is the percent improvement, other / base - 1, of the peak or the overall average of
the two mean curves (VeriTest 2003, figures 2 and 14). The interval is a t interval with a bootstrap
standard error:

1. Whole runs are resampled with replacement, since a run is what was repeated: the mixes of one run share
   the server's state and the weather of the machine. Where runs were interleaved, repetition k of one
   configuration is drawn together with repetition k of the other, because they ran close in time. Mean
   curve, peak and log ratio are computed anew for each resample; the standard deviation of the log ratios
   is the bootstrap standard error (B. Efron, R. J. Tibshirani, An Introduction to the Bootstrap, Chapman
   & Hall 1993, chapter 6).
2. A bootstrap spread of n runs is too narrow by sqrt((n - 1) / n); it is widened by that factor, and
   multiplied by Student's t with n - 1 degrees of freedom. Percentile intervals leave both out: of 3
   runs, they can't be wider than the range of those 3 (T. C. Hesterberg, What Teachers Should Know About
   the Bootstrap, The American Statistician 69(4), 2015, doi:10.1080/00031305.2015.1089789).
3. Logarithms, because a ratio's errors are multiplicative: "twice" and "half" are equally far from no
   difference.

Below three repetitions no interval is given. This module doesn't adjust for the number of comparisons
made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from serverdyno.analysis.curve import Throughput

CONFIDENCE = 0.95
FEWEST_REPETITIONS = 3
RESAMPLES = 9999
SEED = 20260101


class Verdict(StrEnum):
    """What may be said of the second configuration against the first."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE_SHOWN = "no difference shown"
    TOO_FEW_REPETITIONS = "too few repetitions to tell"
    NOT_COMPARABLE = "not comparable"


class Figure(StrEnum):
    """Which figure of the mean curve is compared."""

    PEAK = "peak"
    OVERALL_AVERAGE = "overall average"


@dataclass(frozen=True, slots=True)
class Improvement:
    """`percent`: other / base - 1, in %. None: can't be computed (a side without operations).

    `low_percent`, `high_percent`: the interval, None below three repetitions. `observed_*`: smallest and
    largest improvement seen between single runs (of the same repetition where `paired`), a peak being read at
    the mixes of the two mean curves' peaks. `repetitions`: of the side with fewer. `mixes`: indices of the
    mixes that both sides finished and that were compared.
    """

    figure: Figure
    base: float
    other: float
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    observed_low_percent: float | None
    observed_high_percent: float | None
    repetitions: int
    paired: bool
    mixes: tuple[int, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one configuration: `throughput[i]` is repetition `repetitions[i]`."""

    repetitions: tuple[int, ...]
    throughput: Throughput


def percent_improvement(base: float, other: float) -> float:
    """other / base - 1, in %. VeriTest 2003, figure 14: 16,783 over 14,741 requests/s is 14 %."""
    return (other / base - 1) * 100


def improvement(base: Runs, other: Runs, figure: Figure, *, paired: bool) -> Improvement:
    """Compares `other` with `base` over the mixes and repetitions that both finished."""
    mixes = _finished(base.throughput) & _finished(other.throughput)
    kept = (_whole_runs(base, mixes), _whole_runs(other, mixes))
    if paired:
        both = sorted(set(kept[0].repetitions) & set(kept[1].repetitions))
        kept = (_only(kept[0], both), _only(kept[1], both))
    nothing = Improvement(
        figure=figure,
        base=0.0,
        other=0.0,
        percent=None,
        low_percent=None,
        high_percent=None,
        observed_low_percent=None,
        observed_high_percent=None,
        repetitions=min(len(side.repetitions) for side in kept),
        paired=paired,
        mixes=tuple(np.flatnonzero(mixes).tolist()),
        verdict=Verdict.NOT_COMPARABLE,
    )
    return _estimate(nothing, kept[0].throughput, kept[1].throughput)


def _finished(throughput: Throughput) -> NDArray[np.bool_]:
    return np.asarray(~np.isnan(throughput).all(axis=0))


def _whole_runs(runs: Runs, mixes: NDArray[np.bool_]) -> Runs:
    compared = runs.throughput[:, mixes]
    whole = ~np.isnan(compared).any(axis=1)
    repetitions = tuple(runs.repetitions[row] for row in np.flatnonzero(whole))
    return Runs(repetitions, compared[whole])


def _only(runs: Runs, repetitions: Sequence[int]) -> Runs:
    rows = [runs.repetitions.index(number) for number in repetitions]
    return Runs(tuple(repetitions), runs.throughput[rows])


def _peaks_of_runs(runs: Throughput) -> NDArray[np.float64]:
    """Each run's throughput at the mix where the mean of the other runs is highest; needs two runs or more."""
    others = (runs.sum(axis=0) - runs) / (len(runs) - 1)
    return np.asarray(runs[np.arange(len(runs)), others.argmax(axis=1)])


def _of_runs(runs: Throughput, figure: Figure, *, leave_one_out: bool) -> NDArray[np.float64]:
    """The figure of each single run. Without `leave_one_out`, a peak is read where the mean curve has it."""
    if figure is Figure.OVERALL_AVERAGE:
        return np.asarray(runs.mean(axis=1))
    return _peaks_of_runs(runs) if leave_one_out else np.asarray(runs[:, runs.mean(axis=0).argmax()])


def _estimate(nothing: Improvement, base: Throughput, other: Throughput) -> Improvement:
    if not nothing.mixes or nothing.repetitions == 0:
        return nothing
    # A single run on either side has no others to choose its mix by; then neither side's peak is chosen so.
    base_runs, other_runs = (
        _of_runs(runs, nothing.figure, leave_one_out=nothing.repetitions > 1) for runs in (base, other)
    )
    base_figure, other_figure = float(base_runs.mean()), float(other_runs.mean())
    if min(base_runs.min(), other_runs.min()) <= 0:
        return replace(nothing, base=base_figure, other=other_figure)
    observed = _observed_percent(base_runs, other_runs, nothing.paired)
    low, high = _interval_percent(base_runs, other_runs, nothing.paired)
    return replace(
        nothing,
        base=base_figure,
        other=other_figure,
        percent=percent_improvement(base_figure, other_figure),
        low_percent=low,
        high_percent=high,
        observed_low_percent=float(observed.min()),
        observed_high_percent=float(observed.max()),
        verdict=_verdict(low, high),
    )


def _observed_percent(
    base: NDArray[np.float64], other: NDArray[np.float64], paired: bool
) -> NDArray[np.float64]:
    ratios = other / base if paired else np.divide.outer(other, base)
    return np.asarray((ratios - 1) * 100)


def _interval_percent(
    base: NDArray[np.float64], other: NDArray[np.float64], paired: bool
) -> tuple[float | None, float | None]:
    repetitions = min(len(base), len(other))
    if repetitions < FEWEST_REPETITIONS:
        return None, None
    centre = float(np.log(other.mean() / base.mean()))
    error = _bootstrap_standard_error(base, other, paired)
    # The side with fewer runs sets the degrees of freedom: the conservative end of Welch's approximation.
    widening = np.sqrt(repetitions / (repetitions - 1)) * stats.t.ppf((1 + CONFIDENCE) / 2, repetitions - 1)
    reach = float(widening * error)
    return float(np.expm1(centre - reach) * 100), float(np.expm1(centre + reach) * 100)


def _bootstrap_standard_error(base: NDArray[np.float64], other: NDArray[np.float64], paired: bool) -> float:
    def log_ratio(base_runs: NDArray[Any], other_runs: NDArray[Any], axis: int) -> NDArray[np.float64]:
        return np.asarray(np.log(other_runs.mean(axis=axis) / base_runs.mean(axis=axis)))

    resampled = stats.bootstrap(
        (base, other),
        log_ratio,
        paired=paired,
        vectorized=True,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(SEED),
    )
    return float(resampled.standard_error)


def _verdict(low: float | None, high: float | None) -> Verdict:
    if low is None or high is None:
        return Verdict.TOO_FEW_REPETITIONS
    if low > 0:
        return Verdict.FASTER
    if high < 0:
        return Verdict.SLOWER
    return Verdict.NO_DIFFERENCE_SHOWN
