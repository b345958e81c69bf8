"""Find clients and seconds of a window that completed nothing.

A mean hides them, and so do percentiles, because an operation without an answer has no response time. Operations that
were under way when the window closed, and clients that left with an error, are counted elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import groupby

LEAST_MISSING = 10
"""Number of completions expected during a gap, at which the gap is too long to be chance.

In a Poisson process, one in 22,000 such intervals is empty. At 10 per second one empty second is a stall; at 4 per
second, three in a row.
"""


def starved(completed: Iterable[tuple[int, bool]]) -> int:
    """Return the number of clients that completed nothing, given the operations of each and whether it stayed.

    Clients that left are not included, because they count as errors.
    """
    return sum(operations == 0 and stayed for operations, stayed in completed)


def seconds_of_window(ramp_up_s: float, window_s: float) -> range:
    """Return the whole seconds of a level's window, counted from 0 at the start of the level."""
    # Round, so that a window of 5 s that begins at 0.1 + 0.2 s ends at 5.3 s.
    return range(math.ceil(round(ramp_up_s, 6)), math.floor(round(ramp_up_s + window_s, 6)))


def stalled(completed: Mapping[int, int], ramp_up_s: float, window_s: float) -> tuple[int, ...]:
    """Return the whole seconds of the window in gaps without any success that are too long to be chance.

    `completed` gives the successes in each second of the level, ramps included; a missing second had none.
    """
    served = [operations for operations in completed.values() if operations]
    if not served:
        return ()
    usual = sum(served) / len(served)
    window = seconds_of_window(ramp_up_s, window_s)
    found: list[int] = []
    for is_empty, seconds in groupby(window, lambda second: not completed.get(second, 0)):
        gap = list(seconds)
        if is_empty and usual * len(gap) >= LEAST_MISSING:
            found += gap
    return tuple(found)
