"""What an experiment carries of the self-tests that had been made on its machine when it began. No verdict needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from serverdyno.analysis.across import BetweenTimes

USUAL_PERCENT = 2.0
"""What equal servers may differ by for good where no self-test says more, by where their pages and threads happen to
lie. A rule of thumb."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """`percent`: what equal servers may differ by. `measured`: whether a self-test found it. `between`: how far
    experiments of different times lie apart; None: not known.
    """

    percent: float = USUAL_PERCENT
    measured: bool = False
    between: BetweenTimes | None = None

    @classmethod
    def of(cls, disclosed: object) -> NoiseFloor:
        """Return that of a disclosure, which may be a stranger's; never less than the usual."""
        if not isinstance(disclosed, Mapping):
            return cls()
        percent, between = (_percent(disclosed.get(key)) for key in ("percent", "between_times_percent"))
        if percent is None:
            return cls()
        times = disclosed.get("times")
        known = None
        if between is not None and isinstance(times, int) and times > 1:
            known = BetweenTimes(between, times)
        return cls(max(percent, USUAL_PERCENT), measured=True, between=known)


def _percent(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        return None
    return float(value)
