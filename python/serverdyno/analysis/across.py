"""Two experiments at two times: what lies between them besides the change that is looked for.

An interval knows the noise within each experiment. It knows nothing of what differs from one time to the next: the heat
of the machine, its neighbours, the place of pages in memory. Such a shift moves every run of one experiment alike, so
more repetitions make a false claim more probable (simulated with a shift of 2 %: 16 to 59 % of equal pairs differ). So
across experiments there is a ratio with its interval, and no verdict. Where it was measured how far experiments on this
machine lie apart at different times, the interval is widened by that, and a verdict may be given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import expm1, log1p
from typing import TypeVar

from serverdyno.analysis.improvement import Improvement, Verdict, verdict_of_interval
from serverdyno.analysis.levels import AtLevel
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.slowdown import UNTOLD
from serverdyno.analysis.threshold import margin_of

Told = TypeVar("Told", Improvement, AtLevel)


def between_times(comparisons: Sequence[Comparison], apart_percent: float | None) -> tuple[Comparison, ...]:
    """Return comparisons of two experiments with what may be said of them.

    `apart_percent`: how far equal experiments of different times lie apart on this machine; None: not known.
    """
    return tuple(
        replace(
            comparison, improvements=tuple(apart(found, apart_percent) for found in comparison.improvements)
        )
        for comparison in comparisons
    )


def apart(found: Told, apart_percent: float | None) -> Told:
    """Return one difference of two experiments with what may be said of it."""
    if found.verdict in UNTOLD or found.low_percent is None or found.high_percent is None:
        return found
    if apart_percent is None:
        return replace(found, verdict=Verdict.NOT_SEPARATED)
    between = log1p(apart_percent / 100)
    low, high = log1p(found.low_percent / 100) - between, log1p(found.high_percent / 100) + between
    margin, floor = margin_of(found.minimum_percent), margin_of(found.floor_percent)
    verdict = verdict_of_interval(low, high, margin, floor)
    if (
        found.verdict is Verdict.NO_DIFFERENCE_SHOWN
    ):  # the correction for several comparisons has withdrawn it
        verdict = found.verdict
    return replace(found, low_percent=expm1(low) * 100, high_percent=expm1(high) * 100, verdict=verdict)
