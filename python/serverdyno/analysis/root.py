"""Find the root of a function of one number. Importing `scipy.optimize` would take 0.15 s of CPU time."""

from __future__ import annotations

from collections.abc import Callable

PRECISION = 1e-9
"""Precision of the function's value, or of the root relative to itself."""


def root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a rising function between `low` and `high`.

    The method is the Illinois variant of false position (M. Dowell, P. Jarratt, A Modified Regula Falsi Method for
    Computing the Root of an Equation, BIT 11, 1971, doi:10.1007/BF01934364).
    """
    at_low, at_high = rising(low), rising(high)
    moved_high = moved_low = False
    while True:
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        at_middle = rising(middle)
        if abs(at_middle) < PRECISION or high - low < PRECISION * high:
            return middle
        if at_middle > 0:
            high, at_high = middle, at_middle
            at_low /= 2 if moved_high else 1
        else:
            low, at_low = middle, at_middle
            at_high /= 2 if moved_low else 1
        moved_high, moved_low = at_middle > 0, at_middle <= 0
