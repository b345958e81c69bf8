"""The knee of a curve: the load up to which more load brought more throughput, and beyond which it hardly did.

Kneedle (V. Satopaa, J. Albrecht, D. Irwin, B. Raghavan, Finding a "Kneedle" in a Haystack: Detecting Knee Points
in System Behavior, 31st International Conference on Distributed Computing Systems Workshops, 2011,
doi:10.1109/ICDCSW.2011.20): load and throughput are scaled to [0, 1]; the knee is where scaled throughput lies
furthest above scaled load. It counts where that distance is more than one mean step of the scaled load (the
paper's sensitivity 1) and the distance falls by as much afterwards.

Two things differ from the paper. There is no smoothing spline: a suite has some sixteen mixes, and a spline would
round off the very corner. And the curve is replaced by its running maximum: a curve that falls past its peak is
not concave, and how far it falls says nothing about where it stopped rising; `overload` and `dips` are about that.

The knee depends on the range of loads, as with any rule that has no model: a suite that goes on for longer moves it
to the right. It is one of the loads measured, so it is no finer than the suite's steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FEWEST_MIXES = 4
SENSITIVITY = 1.0


def knee(
    loads: Sequence[float], means: Sequence[float] | NDArray[np.float64], *, sensitivity: float = SENSITIVITY
) -> int | None:
    """The index of the knee's mix. None: there is none (still rising in proportion), or there are too few mixes.

    `loads`: connections or clients, growing; `means`: mean throughput at each, NaN where a mix was not finished.
    """
    every_mean = np.asarray(means, dtype=np.float64)
    finished = np.flatnonzero(~np.isnan(every_mean))
    if finished.size < FEWEST_MIXES:
        return None
    load = np.asarray(loads, dtype=np.float64)[finished]
    reached = np.maximum.accumulate(every_mean[finished])
    if reached[-1] <= reached[0]:
        return None
    above = (reached - reached[0]) / (reached[-1] - reached[0]) - (load - load[0]) / (load[-1] - load[0])
    above = above.round(9)  # so that rounding breaks no tie
    highest = int(above.argmax())
    # The mean step of the scaled load. At the last mix the distance is 0, so it has fallen by its whole height.
    if above[highest] <= round(sensitivity / (finished.size - 1), 9):
        return None
    return int(finished[highest])
