"""The machine's noise floor from self-tests, as disclosed in an experiment. No verdict depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from serverdyno.analysis.across import BetweenTimes

USUAL_PERCENT = 2.0
"""Rule of thumb for the lasting difference between equal servers, used unless a self-test found more. Its cause is the
placement of pages and threads."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The noise floor of a machine. `percent`: how far equal servers may differ.

    `measured`: whether a self-test found it. `between`: the shift between experiments at different times; None if
    unknown.
    """

    percent: float = USUAL_PERCENT
    measured: bool = False
    between: BetweenTimes | None = None

    @classmethod
    def of(cls, disclosed: object) -> NoiseFloor:
        """Return the noise floor in a disclosure (untrusted input), or the usual noise floor if that is larger."""
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
