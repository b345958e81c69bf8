"""What a comparison could have found: the least effect found in four of five experiments, and what 5 % would take.

"No difference shown" says little without this. The figures are of a t test (through the noncentral t distribution:
J. Cohen, Statistical Power Analysis for the Behavioral Sciences, 2nd edition, Lawrence Erlbaum 1988, chapter 2) at the
level that a claim has while all others of its figure are open, with the noise that was measured. They plan the next
experiment; of this one the interval says more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import optimize, special

from serverdyno.analysis.contrast import degrees
from serverdyno.analysis.holm import LEVEL, PRIMARY_SHARE

POWER = 0.8
EFFECT_PERCENT = 5.0
"""The effect of which is said how many repetitions it takes."""
MOST_REPETITIONS = 1000


def found_percent(
    standard_error: float, degrees_of_freedom: float, level: float, margin: float = 0.0
) -> float:
    """Return the improvement, in %, that is claimed beyond `margin`, a log ratio, with a power of 80 %."""
    return float(np.expm1(margin + distance(degrees_of_freedom, level) * standard_error) * 100)


def repetitions_needed(
    standard_error_of: Callable[[int], float],
    degrees_of: Callable[[int], float],
    level: float,
    margin: float = 0.0,
) -> int | None:
    """The fewest repetitions with which 5 % are claimed with a power of 80 %; None above a thousand.

    The first two say what would be with so many.
    """
    effect = float(np.log1p(EFFECT_PERCENT / 100))

    def enough(repetitions: int) -> bool:
        error, freedom = standard_error_of(repetitions), degrees_of(repetitions)
        return margin + distance(freedom, level) * error <= effect

    if margin >= effect or not enough(MOST_REPETITIONS):
        return None
    too_few, many = 1, MOST_REPETITIONS
    while many - too_few > 1:
        middle = (too_few + many) // 2
        too_few, many = (too_few, middle) if enough(middle) else (middle, many)
    return many


def design_finds_percent(
    configurations: int, repetitions: int, deviation: float, margin: float = 0.0
) -> float | None:
    """Return the least difference of overall averages, in %, that an interleaved design finds in four of five cases.

    `deviation`: the relative standard deviation of equal runs; `margin`: the minimum effect, as a log ratio. Of three
    configurations or more the noise is pooled, and each pair is one of many. None: nothing is compared, or once only.
    """
    if configurations < 2 or repetitions < 2:
        return None
    pairs = configurations * (configurations - 1) // 2
    error = deviation * float(np.sqrt(2 / repetitions))
    freedom = degrees(configurations, repetitions, paired=True)
    return found_percent(error, freedom, PRIMARY_SHARE * LEVEL / pairs, margin)


@lru_cache(maxsize=4096)
def distance(degrees_of_freedom: float, level: float) -> float:
    """The true effect that a two-sided t test at `level` finds with a power of 80 %, in standard errors."""
    critical = -float(special.stdtrit(degrees_of_freedom, level / 2))

    def shortfall(true: float) -> float:
        return float(1 - special.nctdtr(degrees_of_freedom, true, critical)) - POWER

    return float(optimize.brentq(shortfall, 0.0, 4 * critical + 10, xtol=1e-3))
