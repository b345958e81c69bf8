"""Compare two experiments that ran at different times. More than the tested change may differ between them.

An interval covers the noise within each experiment. It does not cover changes between two times: the machine's
temperature, its neighbours, the placement of pages in memory. Such a shift moves every run of one experiment alike, so
more repetitions make a false claim more probable (simulated with a shift of 2 %: in 16 to 59 % of equal pairs).
Therefore a comparison across experiments has a ratio with its interval but no verdict. If self-tests at several times
have measured the shift, a verdict is possible: its variance is added, with degrees of freedom for the number of times.
(The range of the self-tests would be no bound: after three times, the next one is outside it in half of the cases.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log1p
from typing import TypeVar

from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.improvement import Improvement, Verdict
from serverdyno.analysis.levels import AtLevel
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.slowdown import UNTOLD

Told = TypeVar("Told", Improvement, AtLevel)


@dataclass(frozen=True, slots=True)
class BetweenTimes:
    """The relative standard deviation between equal experiments at different times, and the number of times."""

    deviation_percent: float
    times: int

    @property
    def error(self) -> Contrast:
        """Return the error of the ratio of two experiments at different times, as a logarithm."""
        return Contrast(0.0, 2 * log1p(self.deviation_percent / 100) ** 2, self.times - 1)


def not_separated(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return the comparisons without verdicts: the shift between the two experiments is unknown."""
    return tuple(
        replace(comparison, improvements=tuple(without_verdict(found) for found in comparison.improvements))
        for comparison in comparisons
    )


def without_verdict(found: Told) -> Told:
    """Return one difference between two experiments without its verdict."""
    if found.verdict in UNTOLD or found.low_percent is None:
        return found
    return replace(found, verdict=Verdict.NOT_SEPARATED)
