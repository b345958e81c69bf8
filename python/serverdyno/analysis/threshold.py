"""The significance level of the tests, margins as log ratios, and degrees of freedom.

Plans use this module, so it imports neither numpy nor scipy.
"""

from __future__ import annotations

import math

LEVEL = 0.05
"""Significance level: largest share of experiments with a false claim if nothing differs."""
PRIMARY_SHARE = 0.98
"""Share of the significance level for the primary family while claims of both families are open. Our choice."""

ROUNDS_OF_A_BLOCK = 2


def margin_of(percent: float) -> float:
    """Return a minimum effect, or a margin of equivalence, as a log ratio."""
    return math.log1p(percent / 100)


def degrees(configurations: int, repetitions: int, *, paired: bool) -> int:
    """Return the degrees of freedom of the noise of equally noisy configurations."""
    blocks = -(-repetitions // ROUNDS_OF_A_BLOCK) if paired else 1
    return configurations * (repetitions - 1) - blocks + 1
