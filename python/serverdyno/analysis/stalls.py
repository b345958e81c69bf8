"""Clients and seconds of a window in which nothing was completed. A mean over both hides them, and so do percentiles:
what was not answered has no response time.

Not for: operations that the window closed upon, which are counted apart, and clients that left the mix with an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import groupby

LEAST_MISSING = 10
"""Completions that are usual in the time of a gap, from which on the gap can't be chance: of a Poisson process, one
such time in 22,000 is empty. At 10 a second one empty second is a stall, at 4 a second three in a row are."""


def starved(completed: Iterable[tuple[int, bool]]) -> int:
    """Return how many clients completed nothing, of operations in the window and whether the client stayed.

    Clients that left are not among them: they were served an error, and are counted as such.
    """
    return sum(operations == 0 and stayed for operations, stayed in completed)


def seconds_of_window(ramp_up_s: float, window_s: float) -> range:
    """Return the seconds of a mix, counted from 0 at its start, that lie in its window as a whole."""
    # A window of 5 s that begins at 0.1 + 0.2 s ends where it should.
    return range(math.ceil(round(ramp_up_s, 6)), math.floor(round(ramp_up_s + window_s, 6)))


def stalled(completed: Mapping[int, int], ramp_up_s: float, window_s: float) -> tuple[int, ...]:
    """Return the whole seconds of the window without any success that stand in a row too long to be chance.

    `completed`: successes by second of the mix, ramps included; a second that is not there had none.
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
