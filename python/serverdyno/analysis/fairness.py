"""Fairness: how evenly a server served its clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def jain(shares: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Return Jain's fairness index, (sum x)^2 / (n sum x^2): from 1/n (one client has all) to 1 (all have the same).

    None if there are no clients, or if all shares are 0 (R. Jain, D. Chiu, W. Hawe, A Quantitative Measure of
    Fairness and Discrimination for Resource Allocation in Shared Computer Systems, DEC-TR-301, 1984).
    """
    values = np.asarray(shares, dtype=np.float64)
    squares = float((values**2).sum())
    return None if squares == 0 else float(values.sum() ** 2 / (values.size * squares))
