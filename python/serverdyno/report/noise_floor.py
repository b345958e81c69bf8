"""The noise floor that an experiment carries: what `dyno selftest` had found on its machine when it began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from serverdyno.analysis.threshold import DEFAULT_FLOOR_PERCENT

MOST_PERCENT = 1000.0


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """`percent`: the least difference that is claimed. `apart_percent`: how far selftests at different times lay
    apart; None: not known. `measured`: whether a selftest found it.
    """

    percent: float = DEFAULT_FLOOR_PERCENT
    apart_percent: float | None = None
    measured: bool = False

    @classmethod
    def of(cls, disclosed: object) -> NoiseFloor:
        """Return that of a disclosure, which may be a stranger's; never less than the default."""
        if not isinstance(disclosed, Mapping):
            return cls()
        percent, apart = (_percent(disclosed.get(key)) for key in ("percent", "apart_percent"))
        if percent is None:
            return cls()
        return cls(max(percent, DEFAULT_FLOOR_PERCENT), apart, measured=True)


def _percent(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_PERCENT:
        return None
    return float(value)
