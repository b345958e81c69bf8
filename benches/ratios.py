"""Statistics of benchmark runs: spread, confidence interval, and whether a target is met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of a figure over the rounds. `interval` covers the median with 95 % or more; None if too few."""

    n: int
    median: float
    low: float
    high: float
    interval: tuple[float, float] | None


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least one value.

    The interval follows from the sign test. Its ends are order statistics, which assume only that the rounds are
    independent (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2). It needs six rounds.
    """
    ordered = sorted(values)
    outside = _values_outside(len(ordered))
    interval = None if outside is None else (ordered[outside], ordered[-1 - outside])
    return Spread(len(ordered), float(np.median(ordered)), ordered[0], ordered[-1], interval)


def _values_outside(n: int) -> int | None:
    """Return the number of values on each side outside an interval of `CONFIDENCE`; None for too few values."""
    tail, outside = 0.0, None
    for k in range(n // 2 + 1):
        tail += math.comb(n, k) / 2**n
        if 2 * tail > 1 - CONFIDENCE:
            break
        outside = k
    return outside


class GoalVerdict(Enum):
    """Whether a target is met, as far as the rounds show."""

    MET = "met"
    MISSED = "missed"
    MET_IN_THE_MEDIAN = "met in the median, not by the whole interval"
    MISSED_IN_THE_MEDIAN = "missed in the median, not by the whole interval"


@dataclass(frozen=True, slots=True)
class Bound:
    """A target: at least `value`, or at most `value`."""

    value: float
    at_least: bool = True

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.value:g}"

    def verdict(self, found: Spread) -> GoalVerdict:
        """Return the verdict on the interval, or on the whole range if there is none."""
        low, high = found.interval or (found.low, found.high)
        holds = [
            value >= self.value if self.at_least else value <= self.value
            for value in (low, found.median, high)
        ]
        if all(holds):
            return GoalVerdict.MET
        if not any(holds):
            return GoalVerdict.MISSED
        return GoalVerdict.MET_IN_THE_MEDIAN if holds[1] else GoalVerdict.MISSED_IN_THE_MEDIAN
