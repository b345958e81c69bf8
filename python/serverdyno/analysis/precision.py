"""How precise an experiment is so far, and whether that is enough: the rule of `--until`.

Repetitions are added in pairs, from six on, until the widest 95 % interval of the overall average, or of the time of
all steps of a suite, is narrow enough, or a cap is reached. An interval that is looked at again and again and kept
when it is narrow covers less than a fixed one (F. J. Anscombe, Sequential Estimation, Journal of the Royal
Statistical Society B 15(1), 1953). From six repetitions on, little of that is left: see docs/simulations.md. The
width decides, never the estimate or the verdict.
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
"""Repetitions that are added: one in each direction of the interleaved order, so that a drift cancels."""


def is_enough(half_percent: float | None, wanted_percent: float, repetitions: int, most: int) -> bool:
    """Whether no repetitions are to be added: precise enough, or no room for more."""
    precise = half_percent is not None and half_percent <= wanted_percent
    return precise or repetitions + AT_ONCE > most


def of_comparisons(comparisons: Sequence[Comparison]) -> float | None:
    """Return half of the widest interval of the overall average, in % of the ratio; None where there is none."""
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
    """Return half of the interval of the overall average of repetitions x mixes, in %; None of one run, or of zeros."""
    averages = throughput[~np.isnan(throughput).any(axis=1)].mean(axis=1)
    if len(averages) < FEWEST_REPETITIONS or (averages <= 0).any():
        return None
    low, high = of_one(np.log(averages)).interval()
    return expm1((high - low) / 2) * 100


def of_totals(totals: Sequence[Mapping[str, Times]], *, paired: bool) -> float | None:
    """Return half of the widest interval of the ratio of two configurations' times, or of the mean of one, in %.

    `totals`: seconds of each suite by configuration. None: there is no interval yet.
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
    """Return half of an interval of improvements, in % of the ratio."""
    return expm1((log1p(high_percent / 100) - log1p(low_percent / 100)) / 2) * 100
