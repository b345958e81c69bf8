"""Compare two configurations: the difference, its interval and the verdict.

The estimate is the percent improvement, other / base - 1, of the overall average or of the peak (VeriTest 2003,
figures 2 and 14). The overall average is the primary figure, because none of its levels was selected. The highest of
several noisy means is biased upward, and the more so the noisier it is: of two equal servers, the one with more
scatter would win. So peaks are compared by cross-validation: see `peak`, also for the sources.

The interval is the t interval of `contrast`, for at least two repetitions. It excludes **an odd repetition**, which the
report names: one run in twelve at 70 % of the usual speed would hide every slowdown of 5 %.

A **minimum effect** can be set: the smallest difference that matters, as the percentage by which the faster exceeds
the slower. "Faster" and "slower" then mean that the whole interval lies beyond it (K. R. Murphy, B. Myors, Testing
the Hypothesis That Treatments Have Negligible Effects: Minimum-Effect Tests in the General Linear Model, Journal of
Applied Psychology 84(2), 1999, doi:10.1037/0021-9010.84.2.234).

**Equivalent** means that the whole interval lies within the plan's margin, on both sides (two one-sided tests: D. J.
Schuirmann, A Comparison of the Two One-Sided Tests Procedure and the Power Approach, Journal of Pharmacokinetics and
Biopharmaceutics 15(6), 1987, doi:10.1007/BF01068419). The usual test at 5 % takes the 90 % interval; this one takes the
95 % interval that the reader sees, so that "equivalent" is wrong in at most 2.5 % of cases. The bounds are symmetric on
the scale of ratios: within 25 % is from -20 % to +25 %. No self-test changes a margin; a noisy machine has wide
intervals.

This module judges one comparison of one figure by itself. `comparisons` judges all of an experiment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis import peak
from serverdyno.analysis.contrast import (
    CONFIDENCE,
    FEWEST_REPETITIONS,
    Contrast,
    Scatter,
    of_two,
    scatter,
)
from serverdyno.analysis.curve import Throughput
from serverdyno.analysis.threshold import margin_of

__all__ = [
    "CONFIDENCE",
    "FEWEST_REPETITIONS",
    "NO_MARGINS",
    "Improvement",
    "Margins",
    "Metric",
    "Odd",
    "Runs",
    "Verdict",
    "improvement",
    "judged",
    "percent_improvement",
    "unjudged",
    "verdict_of_interval",
]


FEWEST_WITH_ODD = 3
"""Minimum number of repetitions for one of them to be left out."""


class Verdict(StrEnum):
    """The verdict on the second configuration, compared with the first."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE_SHOWN = "no difference shown"
    EQUIVALENT = "equivalent"
    TOO_FEW_REPETITIONS = "too few repetitions to tell"
    NOT_COMPARABLE = "not comparable"
    NOT_SEPARATED = "measured at different times"

    @property
    def proven(self) -> bool:
        """Return whether the verdict names one side as faster."""
        return self in (Verdict.FASTER, Verdict.SLOWER)


class Metric(StrEnum):
    """The figures that are compared, the primary one first."""

    OVERALL_AVERAGE = "overall average"
    PEAK = "peak"


@dataclass(frozen=True, slots=True)
class Odd:
    """A repetition of one configuration that a comparison leaves out. `percent` is its distance from the others."""

    of_base: bool
    repetition: int
    percent: float


@dataclass(frozen=True, slots=True)
class Improvement:
    """The comparison of one figure of two configurations, `base` and `other`.

    Peaks are cross-validated, and may lie below the highest mean.

    `percent` is other / base - 1, in %; None if it can't be computed, because a side has no operations.

    `low_percent` and `high_percent` are the interval; None with one repetition. `observed_*` are the smallest and
    largest improvement between single runs (of the same repetition if `paired`), with a peak read at the level that the
    other runs chose. `repetitions` is the smaller number of the two sides. `levels` contains the indices of the
    compared levels, which both sides finished. `base_read_at` and `other_read_at` are the levels from which a side's
    figure was read; empty: no whole run. `minimum_percent` is the minimum effect of the verdict; `equivalence_percent`
    is the margin of equivalence, and 0 means never equivalent. `odd` is the run that all these figures exclude.
    `p_value` is for the claim of a difference beyond the minimum effect; it is below 5 % if and only if this comparison
    by itself claims one. `equivalence_p_value` is for the claim of no difference beyond the margin. Both are None
    without an interval. `among` is the number of claims in the experiment for which the verdict is corrected.
    `found_percent` is the smallest improvement that the design detects in four of five experiments with this noise;
    `repetitions_needed` is the number of repetitions that detect one of 5 % as often. None: no interval, or out of
    reach.
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
    levels: tuple[int, ...]
    verdict: Verdict
    minimum_percent: float = 0.0
    equivalence_percent: float = 0.0
    odd: Odd | None = None
    p_value: float | None = None
    equivalence_p_value: float | None = None
    among: int | None = None
    found_percent: float | None = None
    repetitions_needed: int | None = None
    base_read_at: tuple[int, ...] = ()
    other_read_at: tuple[int, ...] = ()

    @property
    def proven_alone(self) -> bool:
        """Return whether the interval would prove a difference if this were the only comparison of the experiment."""
        return self.p_value is not None and self.p_value < 1 - CONFIDENCE


@dataclass(frozen=True, slots=True)
class Margins:
    """The minimum effect and the margin of equivalence; 0: none. Raises ValueError below 0."""

    minimum_percent: float = 0.0
    equivalence_percent: float = 0.0

    def __post_init__(self) -> None:
        for percent in (self.minimum_percent, self.equivalence_percent):
            if not percent >= 0:
                raise ValueError(f"a minimum effect or margin must be at least 0 %, not {percent} %")


NO_MARGINS = Margins()


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one configuration: `throughput[i]` belongs to repetition `repetitions[i]`."""

    repetitions: tuple[int, ...]
    throughput: Throughput


def percent_improvement(base: float, other: float) -> float:
    """Return other / base - 1, in %. VeriTest 2003, figure 14: 16,783 over 14,741 requests/s is 14 %."""
    return (other / base - 1) * 100


def improvement(
    base: Runs, other: Runs, figure: Metric, *, paired: bool, margins: Margins = NO_MARGINS
) -> Improvement:
    """Compare `other` with `base` by itself, over the levels and repetitions that both finished."""
    noise = scatter_of([base, other], figure, paired=paired)
    (base, other), odd = without_odd((base, other), noise)
    found, contrast = unjudged(base, other, figure, paired=paired, margins=margins)
    found = replace(found, odd=odd)
    return found if contrast is None else judged(found, contrast)


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of single runs, estimated from several sides. `repetitions`: the repetitions that all sides have."""

    scatter: Scatter
    repetitions: tuple[int, ...]


def scatter_of(sides: Sequence[Runs], figure: Metric, *, paired: bool) -> Noise | None:
    """Return the noise of a run; None unless all sides have the same repetitions, two or more, with throughput."""
    levels = np.logical_and.reduce([_finished(side.throughput) for side in sides])
    kept = [_whole_runs(side, levels) for side in sides]
    repetitions = kept[0].repetitions
    if any(side.repetitions != repetitions for side in kept) or not levels.any():
        return None
    values = [_of_runs(side.throughput, figure) for side in kept if len(repetitions) >= FEWEST_REPETITIONS]
    if not values or any(each.min() <= 0 for each in values):
        return None
    return Noise(scatter([np.log(each) for each in values], repetitions if paired else None), repetitions)


def without_odd(pair: tuple[Runs, Runs], noise: Noise | None) -> tuple[tuple[Runs, Runs], Odd | None]:
    """Return the two sides without an outlying run. `noise` is the noise of these two sides."""
    if noise is None or noise.scatter.odd is None or len(noise.repetitions) < FEWEST_WITH_ODD:
        return pair, None
    side, place = noise.scatter.odd
    odd = Odd(side == 0, noise.repetitions[place], float(np.expm1(noise.scatter.odd_by)) * 100)
    base, other = (
        _without(runs, odd.repetition) if which == side else runs for which, runs in enumerate(pair)
    )
    return (base, other), odd


def _without(runs: Runs, repetition: int) -> Runs:
    return _only(runs, [number for number in runs.repetitions if number != repetition])


def unjudged(
    base: Runs, other: Runs, figure: Metric, *, paired: bool, margins: Margins
) -> tuple[Improvement, Contrast | None]:
    """Return the measured improvement, and the contrast to judge it by.

    The contrast is None with one repetition, or if the two are not comparable.
    """
    levels = _finished(base.throughput) & _finished(other.throughput)
    kept = (_whole_runs(base, levels), _whole_runs(other, levels))
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
        levels=tuple(np.flatnonzero(levels).tolist()),
        verdict=Verdict.NOT_COMPARABLE,
        minimum_percent=margins.minimum_percent,
        equivalence_percent=margins.equivalence_percent,
    )
    if not nothing.levels or nothing.repetitions == 0:
        return nothing, None
    base_at, other_at = (
        tuple(nothing.levels[level] for level in _read_at(side.throughput, figure)) for side in kept
    )
    placed = replace(nothing, base_read_at=base_at, other_read_at=other_at)
    return _estimate(placed, *kept)


def _finished(throughput: Throughput) -> NDArray[np.bool_]:
    return np.asarray(~np.isnan(throughput).all(axis=0))


def _whole_runs(runs: Runs, levels: NDArray[np.bool_]) -> Runs:
    compared = runs.throughput[:, levels]
    whole = ~np.isnan(compared).any(axis=1)
    repetitions = tuple(runs.repetitions[row] for row in np.flatnonzero(whole))
    return Runs(repetitions, compared[whole])


def _only(runs: Runs, repetitions: Sequence[int]) -> Runs:
    rows = [runs.repetitions.index(number) for number in repetitions]
    return Runs(tuple(repetitions), runs.throughput[rows])


def _of_runs(runs: Throughput, figure: Metric) -> NDArray[np.float64]:
    return np.asarray(runs.mean(axis=1)) if figure is Metric.OVERALL_AVERAGE else peak.of_runs(runs)


def _read_at(runs: Throughput, figure: Metric) -> list[int]:
    """Return the columns of `runs` from which `_of_runs` reads."""
    if figure is Metric.OVERALL_AVERAGE:
        return list(range(runs.shape[1]))
    return sorted({int(level) for level in peak.chosen(runs)})


def _estimate(nothing: Improvement, base: Runs, other: Runs) -> tuple[Improvement, Contrast | None]:
    base_runs, other_runs = (_of_runs(runs.throughput, nothing.figure) for runs in (base, other))
    base_figure, other_figure = float(base_runs.mean()), float(other_runs.mean())
    seen = replace(nothing, base=base_figure, other=other_figure)
    if min(base_runs.min(), other_runs.min()) <= 0:
        return seen, None
    contrast = None
    if nothing.repetitions >= FEWEST_REPETITIONS:
        rounds = base.repetitions if nothing.paired else None
        contrast = (
            peak.contrast(base.throughput, other.throughput, rounds)
            if nothing.figure is Metric.PEAK
            else of_two(np.log(base_runs), np.log(other_runs), rounds)
        )
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
    """Return the improvement with the interval of a contrast and the verdict of only that interval."""
    low, high = contrast.interval()
    margin, within = margin_of(found.minimum_percent), margin_of(found.equivalence_percent)
    return replace(
        found,
        low_percent=float(np.expm1(low) * 100),
        high_percent=float(np.expm1(high) * 100),
        p_value=contrast.p_value_beyond(margin),
        equivalence_p_value=contrast.p_value_within(within),
        verdict=verdict_of_interval(low, high, margin, within),
    )


def verdict_of_interval(low: float, high: float, margin: float, within: float) -> Verdict:
    """Return the verdict of an interval of log ratios.

    `margin` (the minimum effect) and `within` (the margin of equivalence) are log ratios, too.
    """
    if low > margin:
        return Verdict.FASTER
    if high < -margin:
        return Verdict.SLOWER
    if -within < low and high < within:
        return Verdict.EQUIVALENT
    return Verdict.NO_DIFFERENCE_SHOWN
