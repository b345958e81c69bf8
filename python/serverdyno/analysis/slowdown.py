"""Decide whether anything is slower, for programs such as CI: slower, not slower, or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import log1p

from serverdyno.analysis.comparability import Judged
from serverdyno.analysis.improvement import Verdict

TOLERATED_PERCENT = 2.0
"""Slowdown that must be ruled out for the result "not slower", unless the plan's minimum effect is larger."""

UNTOLD = frozenset({Verdict.NOT_COMPARABLE, Verdict.NOT_SEPARATED, Verdict.TOO_FEW_REPETITIONS})
"""Verdicts that neither prove nor rule out a slowdown, regardless of the interval."""


class Slowdown(StrEnum):
    NONE = "nothing is slower"
    SLOWER = "slower"
    CANT_TELL = "can't tell"


def slowdown(improvements: Sequence[Judged], tolerated_percent: float = TOLERATED_PERCENT) -> Slowdown:
    """Return whether any figure is slower; undecided if one is not comparable, or if a slowdown is not ruled out.

    The slowdown to rule out is the larger of the minimum effect and `tolerated_percent`.
    """
    if any(each.verdict is Verdict.SLOWER for each in improvements):
        return Slowdown.SLOWER
    ruled_out = bool(improvements) and all(_ruled_out(each, tolerated_percent) for each in improvements)
    return Slowdown.NONE if ruled_out else Slowdown.CANT_TELL


def _ruled_out(found: Judged, tolerated_percent: float) -> bool:
    if found.verdict in UNTOLD or found.low_percent is None:
        return False
    tolerated = max(found.minimum_percent, tolerated_percent)
    return log1p(found.low_percent / 100) > -log1p(tolerated / 100)
