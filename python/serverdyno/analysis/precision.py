"""The precision of an experiment so far, and whether it suffices: the rule of `--until`.

Repetitions are added in pairs, after the first six, until the widest 95 % interval is narrow enough, or a cap is
reached. The interval belongs to the overall average, or to the total time of a suite's steps. An interval that is
checked repeatedly and kept once it is narrow covers less than a fixed one (F. J. Anscombe, Sequential Estimation,
Journal of the Royal Statistical Society B 15(1), 1953). With at least six repetitions this effect is small: see
docs/simulations.md. Only the width decides, never the estimate or the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import expm1, log1p

import numpy as np

from serverdyno.analysis.contrast import FEWEST_REPETITIONS, of_one
from serverdyno.analysis.curve import Throughput
from serverdyno.analysis.improvement import Metric
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.steps import Times, gaps

AT_ONCE = 2
"""Repetitions to add at once: one in each direction of the interleaved order, so that a drift cancels."""


def is_enough(half_percent: float | None, wanted_percent: float, repetitions: int, most: int) -> bool:
    """Return whether to stop adding repetitions, because the precision suffices or the cap is reached."""
    precise = half_percent is not None and half_percent <= wanted_percent
    return precise or repetitions + AT_ONCE > most


def of_comparisons(comparisons: Sequence[Comparison]) -> float | None:
    """Return half the width of the overall average's widest interval, in % of the ratio; None without intervals."""
    halves = [
        half_percent(found.low_percent, found.high_percent)
        for comparison in comparisons
        for found in comparison.improvements
        if found.figure is Metric.OVERALL_AVERAGE
        and found.low_percent is not None
        and found.high_percent is not None
    ]
    return max(halves, default=None)


def of_one_configuration(throughput: Throughput) -> float | None:
    """Return half the width of the overall average's interval, in %; None with one run or with zeros.

    `throughput` is repetitions x levels.
    """
    averages = throughput[~np.isnan(throughput).any(axis=1)].mean(axis=1)
    if len(averages) < FEWEST_REPETITIONS or (averages <= 0).any():
        return None
    low, high = of_one(np.log(averages)).interval()
    return expm1((high - low) / 2) * 100


def of_totals(totals: Sequence[Mapping[str, Times]], *, paired: bool) -> float | None:
    """Return half the width, in %, of the widest interval of two configurations' time ratio, or of one's mean.

    `totals` gives the seconds of each suite by configuration. None: there is no interval yet.
    """
    if any(len(of_suite) == 1 for of_suite in totals):
        speeds = [1 / np.array([[*times.values()]]).T for of_suite in totals for times in of_suite.values()]
        halves = [of_one_configuration(each) for each in speeds]
    else:
        halves = [
            half_percent(found.low_percent, found.high_percent)
            if found.low_percent is not None and found.high_percent is not None
            else None
            for of_suite in gaps(totals, paired=paired)
            for found in (gap.improvement for gap in of_suite)
        ]
    known = [half for half in halves if half is not None]
    return max(known) if known and len(known) == len(halves) else None


def half_percent(low_percent: float, high_percent: float) -> float:
    """Return half the width of an interval of improvements, in % of the ratio."""
    return expm1((log1p(high_percent / 100) - log1p(low_percent / 100)) / 2) * 100
