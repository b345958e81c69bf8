"""Two experiments at two times: what lies between them besides the change that is looked for.

An interval knows the noise within each experiment. It knows nothing of what differs from one time to the next: the heat
of the machine, its neighbours, the place of pages in memory. Such a shift moves every run of one experiment alike, so
more repetitions make a false claim more probable (simulated with a shift of 2 %: 16 to 59 % of equal pairs differ). So
across experiments there is a ratio with its interval, and no verdict. Where selftests at several times have measured
the shift, its variance is added, with the degrees of freedom of so few times, and a verdict may be given. (Their range
would be no bound: of three times, another one lies outside in every second case.)
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
    """How equal experiments at different times differ: a relative standard deviation, of so many times."""

    deviation_percent: float
    times: int

    @property
    def error(self) -> Contrast:
        """The error of the ratio of two experiments, each at a time of its own."""
        return Contrast(0.0, 2 * log1p(self.deviation_percent / 100) ** 2, self.times - 1)


def not_separated(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return comparisons of two experiments without verdicts: nothing is known of what lies between the two."""
    return tuple(
        replace(comparison, improvements=tuple(without_verdict(found) for found in comparison.improvements))
        for comparison in comparisons
    )


def without_verdict(found: Told) -> Told:
    """Return one difference of two experiments without its verdict."""
    if found.verdict in UNTOLD or found.low_percent is None:
        return found
    return replace(found, verdict=Verdict.NOT_SEPARATED)
