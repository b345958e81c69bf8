"""Compute the smallest detectable difference, and the repetitions needed to detect 5 %.

"No difference shown" says little without these two figures. They apply to a t test with a power of 80 % (through the
noncentral t distribution: J. Cohen, Statistical Power Analysis for the Behavioral Sciences, 2nd edition, Lawrence
Erlbaum 1988, chapter 2), with the measured noise. The significance level is that of a claim while all other claims on
the same figure are open. These figures help to plan the next experiment; for this one, the interval says more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from serverdyno.analysis.root import root
from serverdyno.analysis.threshold import LEVEL, PRIMARY_SHARE, degrees, margin_of

POWER = 0.8
EFFECT_PERCENT = 5.0
"""Effect for which the number of repetitions is computed."""
MOST_REPETITIONS = 1000
_NEGLIGIBLE = 16.0
"""Negative natural logarithm of the neglected share of a distribution's tail."""
_STEPS = 2.0
"""Steps of the quadrature per width over which its integrand changes."""
_SHARPEST = 100.0
"""Critical value above which the steps stay the same; with one or two degrees of freedom the error is within 0.5 %."""
_MOST = 700.0
"""Largest log ratio whose percentage is a floating-point number."""


def found_percent(
    standard_error: float, degrees_of_freedom: float, level: float, margin: float = 0.0
) -> float:
    """Return the smallest true improvement, in %, that is claimed beyond `margin` (a log ratio) with 80 % power."""
    found = margin + distance(degrees_of_freedom, level) * standard_error
    return math.inf if found > _MOST else math.expm1(found) * 100


def repetitions_needed(
    standard_error_of: Callable[[int], float],
    degrees_of: Callable[[int], float],
    level: float,
    margin: float = 0.0,
) -> int | None:
    """Return the number of repetitions that detects 5 % with a power of 80 %; None above a thousand.

    The two functions give the standard error and the degrees of freedom for a number of repetitions.
    """
    effect = margin_of(EFFECT_PERCENT)

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
    """Return the smallest difference of averages, in %, that an interleaved design detects in four of five cases.

    `deviation` is the relative standard deviation of equal runs; `margin` is the minimum effect as a log ratio. With
    three or more configurations the noise is pooled, and each pair is one of many. None: nothing is compared, or there
    is only one repetition.
    """
    if configurations < 2 or repetitions < 2:
        return None
    pairs = configurations * (configurations - 1) // 2
    error = deviation * math.sqrt(2 / repetitions)
    freedom = degrees(configurations, repetitions, paired=True)
    return found_percent(error, freedom, PRIMARY_SHARE * LEVEL / pairs, margin)


@lru_cache(maxsize=4096)
def distance(degrees_of_freedom: float, level: float) -> float:
    """Return the true effect, in standard errors, that a two-sided t test at `level` finds with a power of 80 %."""
    critical = _critical(degrees_of_freedom, level / 2)
    deviations = _deviations(degrees_of_freedom, min(critical, _SHARPEST), 0.0)
    return root(lambda true: _share_above(critical, true, deviations) - POWER, 0.0, 4 * critical + 10)


def _critical(degrees_of_freedom: float, tail: float) -> float:
    """Return the value of Student's t above which `tail` lies."""
    deviations = _deviations(degrees_of_freedom, 1.0, -math.log(tail))
    high = 1.0
    while _share_above(high, 0.0, deviations) > tail:
        high *= 2
    return root(lambda critical: 1 - _share_above(critical, 0.0, deviations) / tail, 0.0, high)


def _share_above(critical: float, true: float, deviations: list[tuple[float, float]]) -> float:
    """Return the probability that t exceeds a critical value: P(Z + true > c S).

    `true` is the true effect in standard errors.
    """
    return 0.5 * sum(
        weight * math.erfc((critical * deviation - true) / math.sqrt(2)) for deviation, weight in deviations
    )


def _deviations(degrees_of_freedom: float, sharpness: float, further: float) -> list[tuple[float, float]]:
    """Return the distribution of the estimated deviation S = sqrt(chi2 / df), as values with weights.

    The trapezoidal rule over log S converges exponentially. `sharpness` is 1 / the width in log S over which the
    summand changes. `further` is added to `_NEGLIGIBLE`.
    """
    width = 1 / math.sqrt(2 * degrees_of_freedom)
    step = min(width, 1 / sharpness) / _STEPS
    negligible = _NEGLIGIBLE + further
    low = -max(negligible / degrees_of_freedom + 0.5, 2 * width * math.sqrt(negligible))
    high = width * math.sqrt(2 * negligible)
    logs = [low + step * place for place in range(math.ceil((high - low) / step) + 1)]
    densities = [math.exp(degrees_of_freedom * (log - math.expm1(2 * log) / 2)) for log in logs]
    total = sum(densities)
    return [(math.exp(log), density / total) for log, density in zip(logs, densities, strict=True)]
