"""Two configurations: how much faster is one, how sure are we, and what may be said.

The estimate is the percent improvement, other / base - 1, of the overall average or of the peak (VeriTest 2003,
figures 2 and 14). The overall average is the primary figure: none of its mixes was chosen. The highest of several
noisy means is biased upward, and the more so the noisier it is: of two equal servers, the one whose runs scatter would
win. So peaks are compared by leave-one-out: see `peak`, also for the sources.

The interval is the t interval of `contrast`, from two repetitions on; a peak's has a bootstrap variance.

A **minimum effect** may be stated: the least difference that would matter, as the percentage by which the
quicker is faster than the slower. Faster and slower then mean: by more than that, the whole interval being
beyond it (K. R. Murphy, B. Myors, Testing the Hypothesis That Treatments Have Negligible Effects:
Minimum-Effect Tests in the General Linear Model, Journal of Applied Psychology 84(2), 1999,
doi:10.1037/0021-9010.84.2.234). Equivalent means: the whole interval is within it, on both sides (two
one-sided tests: D. J. Schuirmann, A Comparison of the Two One-Sided Tests Procedure and the Power Approach,
Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987, doi:10.1007/BF01068419). The usual test at 5 %
takes the 90 % interval; here it is the 95 % interval that the reader sees, so that "equivalent" is wrong in 2.5 %
at most. The bounds are alike on the scale of ratios: within 25 % is from -20 % to +25 %.

A **noise floor** is the least difference that is claimed at all: below it, two equal servers may differ in every run
alike, by the place of their pages or of their threads, and no interval sees that. Faster and slower need an estimate
of at least the floor. It costs little power, since most estimates of a larger difference reach it. Where no minimum
effect is stated, equivalence is about the floor. The same idea is `noise_threshold` of the benchmark library criterion.

This module judges one comparison of one figure by itself. What holds for all of an experiment is in `comparisons`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis import peak
from serverdyno.analysis.contrast import CONFIDENCE, FEWEST_REPETITIONS, Contrast, of_two
from serverdyno.analysis.curve import Throughput
from serverdyno.analysis.threshold import margin_of

__all__ = [
    "CONFIDENCE",
    "FEWEST_REPETITIONS",
    "Improvement",
    "Metric",
    "Runs",
    "Verdict",
    "improvement",
    "judged",
    "percent_improvement",
    "unjudged",
    "verdict_of_interval",
]


class Verdict(StrEnum):
    """What may be said of the second configuration against the first."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE_SHOWN = "no difference shown"
    EQUIVALENT = "equivalent"
    TOO_FEW_REPETITIONS = "too few repetitions to tell"
    NOT_COMPARABLE = "not comparable"
    NOT_SEPARATED = "the day is not separated from the change"

    @property
    def proven(self) -> bool:
        """Whether one of the two is faster."""
        return self in (Verdict.FASTER, Verdict.SLOWER)


class Metric(StrEnum):
    """Which figure is compared, the primary one first."""

    OVERALL_AVERAGE = "overall average"
    PEAK = "peak"


@dataclass(frozen=True, slots=True)
class Improvement:
    """`base`, `other`: the figures compared; a peak's is by leave-one-out, and may lie below the highest mean.

    `percent`: other / base - 1, in %. None: can't be computed (a side without operations).

    `low_percent`, `high_percent`: the interval, None of one repetition. `observed_*`: smallest and
    largest improvement seen between single runs (of the same repetition where `paired`), a peak being read at
    the mix that the other runs chose. `repetitions`: of the side with fewer. `mixes`: indices of the mixes that both
    sides finished and that were compared; `base_read_at`, `other_read_at`: those at which the figure of a side was
    read, none where no whole run was there to be read. `minimum_percent`: the minimum effect that the verdict is about;
    `floor_percent`: the least difference that is claimed.
    `p_value`: of the strongest claim, that there is a difference beyond the minimum effect or none beyond it; below 5 %
    exactly where the verdict of this comparison by itself claims something. None where there is no interval.
    `among`: of how many claims of the experiment its verdict is one, and corrected for.
    `found_percent`: the least improvement that the design finds in four of five experiments, through noise like this;
    `repetitions_needed`: how many would find one of 5 % as often. None: no interval, or not in reach.
    """

    figure: Metric
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
    minimum_percent: float = 0.0
    floor_percent: float = 0.0
    p_value: float | None = None
    among: int | None = None
    found_percent: float | None = None
    repetitions_needed: int | None = None
    base_read_at: tuple[int, ...] = ()
    other_read_at: tuple[int, ...] = ()

    @property
    def proven_alone(self) -> bool:
        """Whether it would claim something if it were the only comparison of its experiment."""
        return self.p_value is not None and self.p_value < 1 - CONFIDENCE

    @property
    def below_floor(self) -> bool:
        """Whether its interval leaves out 0 % and its difference is too small to be claimed."""
        if self.percent is None or self.low_percent is None or self.high_percent is None:
            return False
        leaves_out_zero = self.low_percent > 0 or self.high_percent < 0
        return leaves_out_zero and abs(math.log1p(self.percent / 100)) < math.log1p(self.floor_percent / 100)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one configuration: `throughput[i]` is repetition `repetitions[i]`."""

    repetitions: tuple[int, ...]
    throughput: Throughput


def percent_improvement(base: float, other: float) -> float:
    """other / base - 1, in %. VeriTest 2003, figure 14: 16,783 over 14,741 requests/s is 14 %."""
    return (other / base - 1) * 100


def improvement(
    base: Runs, other: Runs, figure: Metric, *, paired: bool, minimum_percent: float = 0.0
) -> Improvement:
    """Compares `other` with `base` over the mixes and repetitions that both finished, as the only comparison.

    `minimum_percent`: the least difference that would matter, 0 or more. Raises ValueError below 0.
    """
    found, contrast = unjudged(base, other, figure, paired=paired, minimum_percent=minimum_percent)
    return found if contrast is None else judged(found, contrast)


def unjudged(
    base: Runs, other: Runs, figure: Metric, *, paired: bool, minimum_percent: float = 0.0
) -> tuple[Improvement, Contrast | None]:
    """What was seen, and the contrast that it is to be judged by: None of one repetition, or not comparable."""
    if not minimum_percent >= 0:
        raise ValueError(f"a minimum effect of {minimum_percent} %")
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
        minimum_percent=minimum_percent,
    )
    if not nothing.mixes or nothing.repetitions == 0:
        return nothing, None
    base_at, other_at = (
        tuple(nothing.mixes[mix] for mix in _read_at(side.throughput, figure)) for side in kept
    )
    placed = replace(nothing, base_read_at=base_at, other_read_at=other_at)
    return _estimate(placed, kept[0].throughput, kept[1].throughput)


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


def _of_runs(runs: Throughput, figure: Metric) -> NDArray[np.float64]:
    """The figure of each single run."""
    return np.asarray(runs.mean(axis=1)) if figure is Metric.OVERALL_AVERAGE else peak.of_runs(runs)


def _read_at(runs: Throughput, figure: Metric) -> list[int]:
    """Columns of `runs` from which `_of_runs` reads."""
    if figure is Metric.OVERALL_AVERAGE:
        return list(range(runs.shape[1]))
    return sorted({int(mix) for mix in peak.chosen(runs)})


def _estimate(
    nothing: Improvement, base: Throughput, other: Throughput
) -> tuple[Improvement, Contrast | None]:
    base_runs, other_runs = (_of_runs(runs, nothing.figure) for runs in (base, other))
    base_figure, other_figure = float(base_runs.mean()), float(other_runs.mean())
    seen = replace(nothing, base=base_figure, other=other_figure)
    if min(base_runs.min(), other_runs.min()) <= 0:
        return seen, None
    contrast = None
    if nothing.repetitions >= FEWEST_REPETITIONS:
        contrast = (
            peak.contrast(base, other, paired=nothing.paired)
            if nothing.figure is Metric.PEAK
            else of_two(np.log(base_runs), np.log(other_runs), paired=nothing.paired)
        )
        if np.isnan(contrast.variance):
            # Runs without operations where other runs have their peak.
            return seen, None
    observed = _observed_percent(base_runs, other_runs, nothing.paired)
    found = replace(
        seen,
        percent=percent_improvement(base_figure, other_figure),
        observed_low_percent=float(observed.min()),
        observed_high_percent=float(observed.max()),
        verdict=Verdict.TOO_FEW_REPETITIONS,
    )
    return found, contrast


def _observed_percent(
    base: NDArray[np.float64], other: NDArray[np.float64], paired: bool
) -> NDArray[np.float64]:
    ratios = other / base if paired else np.divide.outer(other, base)
    return np.asarray((ratios - 1) * 100)


def judged(found: Improvement, contrast: Contrast) -> Improvement:
    """With the interval of a contrast, and what that interval by itself says."""
    low, high = contrast.interval()
    margin, floor = margin_of(found.minimum_percent), margin_of(found.floor_percent)
    p_value = contrast.p_value_within(margin or floor)
    if abs(contrast.estimate) >= floor:
        p_value = min(p_value, contrast.p_value_beyond(margin))
    return replace(
        found,
        low_percent=float(np.expm1(low) * 100),
        high_percent=float(np.expm1(high) * 100),
        p_value=p_value,
        verdict=verdict_of_interval(low, high, margin, floor),
    )


def verdict_of_interval(low: float, high: float, margin: float, floor: float) -> Verdict:
    """What an interval of log ratios says about a minimum effect and a noise floor, also as log ratios."""
    estimate, within = (low + high) / 2, margin or floor
    if low > margin and estimate >= floor:
        return Verdict.FASTER
    if high < -margin and estimate <= -floor:
        return Verdict.SLOWER
    if -within < low and high < within:
        return Verdict.EQUIVALENT
    return Verdict.NO_DIFFERENCE_SHOWN
