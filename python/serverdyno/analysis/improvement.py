"""Two configurations: how much faster is one, how sure are we, and what may be said.

The estimate is the percent improvement, other / base - 1, of the peak or the overall average (VeriTest 2003,
figures 2 and 14).

The highest of several noisy means is biased upward, and the more so the noisier it is: of two equal servers,
the one whose runs scatter would win. So a peak is compared by leave-one-out: for each run the peak's mix is
chosen from the mean of the other runs of its configuration, the throughput of this run is read there, and the
mean over the runs is the peak that is compared (M. Stone, Cross-Validatory Choice and Assessment of
Statistical Predictions, Journal of the Royal Statistical Society B 36(2), 1974,
doi:10.1111/j.2517-6161.1974.tb00994.x; on the bias: B. Efron, Tweedie's Formula and Selection Bias, Journal of
the American Statistical Association 106(496), 2011, doi:10.1198/jasa.2011.tm11181). It is without bias for
the throughput at the mix so chosen. That may be a neighbour of the true peak where noise hides which is
higher, so this figure may lie a little below the peak; where all runs agree on the mix, it is the highest mean.

The interval is a t interval with a bootstrap standard error:

1. Whole runs are resampled with replacement, since a run is what was repeated: the mixes of one run share
   the server's state and the weather of the machine. Where runs were interleaved, repetition k of one
   configuration is drawn together with repetition k of the other, because they ran close in time. The mixes
   of the peaks, the figures and the log ratio are computed anew for each resample; the standard deviation of
   the log ratios is the bootstrap standard error (B. Efron, R. J. Tibshirani, An Introduction to the
   Bootstrap, Chapman & Hall 1993, chapter 6). Choosing anew matters: the leave-one-out values of one
   configuration are not independent, and their own standard error is too small on a plateau. There the
   bootstrap's is too large, which errs on the side of "no difference shown".
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
    """Which figure is compared."""

    PEAK = "peak"
    OVERALL_AVERAGE = "overall average"


@dataclass(frozen=True, slots=True)
class Improvement:
    """`base`, `other`: the figures compared; a peak's is by leave-one-out, and may lie below the highest mean.

    `percent`: other / base - 1, in %. None: can't be computed (a side without operations).

    `low_percent`, `high_percent`: the interval, None below three repetitions. `observed_*`: smallest and
    largest improvement seen between single runs (of the same repetition where `paired`), a peak being read at
    the mix that the other runs chose. `repetitions`: of the side with fewer; where that is 1, no other run can
    choose, and both peaks are the highest means. `mixes`: indices of the mixes that both sides finished and
    that were compared.
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


def _peaks_of_runs(runs: Throughput, copies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each run's throughput at the mix where the mean of the other runs is highest; of two runs or more.

    `copies`: how often each run was drawn, resamples x runs or runs alone. All copies of a run are the same
    run: none of them helps to choose its mix. A resample of one run only keeps the mix of the sample itself.
    """
    others = (copies @ runs)[..., None, :] - copies[..., None] * runs
    others = np.where((copies == len(runs))[..., None], runs.sum(axis=0) - runs, others)
    return np.asarray(runs[np.arange(len(runs)), others.argmax(axis=-1)])


def _of_runs(runs: Throughput, figure: Figure, *, leave_one_out: bool) -> NDArray[np.float64]:
    """The figure of each single run. Without `leave_one_out`, a peak is read where the mean curve has it."""
    if figure is Figure.OVERALL_AVERAGE:
        return np.asarray(runs.mean(axis=1))
    if leave_one_out:
        return _peaks_of_runs(runs, np.ones(len(runs)))
    return np.asarray(runs[:, runs.mean(axis=0).argmax()])


def _of_resamples(runs: Throughput, figure: Figure, rows: NDArray[Any]) -> NDArray[np.float64]:
    """The figure of each resample. `rows`: resamples x drawn runs, as places in `runs`."""
    copies = (rows[..., None] == np.arange(len(runs))).sum(axis=-2).astype(np.float64)
    values = _peaks_of_runs(runs, copies) if figure is Figure.PEAK else runs.mean(axis=1)
    return np.asarray((copies * values).mean(axis=-1))


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
    low, high = _interval_percent(base, other, nothing.figure, nothing.paired)
    if low is not None and np.isnan(low):  # runs without operations where other runs have their peak
        return replace(nothing, base=base_figure, other=other_figure)
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
    base: Throughput, other: Throughput, figure: Figure, paired: bool
) -> tuple[float | None, float | None]:
    repetitions = min(len(base), len(other))
    if repetitions < FEWEST_REPETITIONS:
        return None, None
    base_runs, other_runs = (_of_runs(runs, figure, leave_one_out=True) for runs in (base, other))
    centre = float(np.log(other_runs.mean() / base_runs.mean()))
    error = _bootstrap_standard_error(base, other, figure, paired)
    # The side with fewer runs sets the degrees of freedom: the conservative end of Welch's approximation.
    widening = np.sqrt(repetitions / (repetitions - 1)) * stats.t.ppf((1 + CONFIDENCE) / 2, repetitions - 1)
    reach = float(widening * error)
    return float(np.expm1(centre - reach) * 100), float(np.expm1(centre + reach) * 100)


def _bootstrap_standard_error(base: Throughput, other: Throughput, figure: Figure, paired: bool) -> float:
    def log_ratio(base_rows: NDArray[Any], other_rows: NDArray[Any], axis: int) -> NDArray[np.float64]:
        base_figure, other_figure = (
            _of_resamples(runs, figure, rows) for runs, rows in ((base, base_rows), (other, other_rows))
        )
        return np.asarray(np.log(other_figure) - np.log(base_figure))

    with np.errstate(divide="ignore", invalid="ignore"):  # resamples without operations: the error is NaN
        resampled = stats.bootstrap(
            (np.arange(len(base)), np.arange(len(other))),
            log_ratio,
            paired=paired,
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=1000,
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
