"""Clients and seconds of a window in which nothing was completed. A mean over both hides them, and so do percentiles:
what was not answered has no response time.

Not for: operations that the window closed upon, which are counted apart, and clients that left the mix with an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

LEAST_A_SECOND = 10
"""Completions in a second with any, in the mean, from which on a second without one can't be chance: of a Poisson
process of that rate, one second in 22,000 is empty. Where fewer are usual, an empty second says nothing."""


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
    """Return the whole seconds of the window without any success, where a second usually has several.

    `completed`: successes by second of the mix, ramps included; a second that is not there had none.
    """
    served = [operations for operations in completed.values() if operations]
    if not served or sum(served) / len(served) < LEAST_A_SECOND:
        return ()
    return tuple(second for second in seconds_of_window(ramp_up_s, window_s) if not completed.get(second, 0))
