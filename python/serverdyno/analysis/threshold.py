"""What a difference has to exceed to be claimed: the level of the tests, and the noise floor.

Plans are judged by these, too, so this module imports neither numpy nor scipy.
"""

from __future__ import annotations

import math

LEVEL = 0.05
"""Of experiments in which no claim would be right, at most this share has any."""
PRIMARY_SHARE = 0.98
"""Of the level, for the first family while claims of both are open. Our choice."""
DEFAULT_FLOOR_PERCENT = 2.0
"""The least difference that is claimed where no selftest says more. Our choice: equal servers on equal machines differ
by 1 to 2 % for good, by where their pages and threads happen to lie."""


def margin_of(minimum_percent: float) -> float:
    """A minimum effect, or a noise floor, as a log ratio."""
    return math.log1p(minimum_percent / 100)
