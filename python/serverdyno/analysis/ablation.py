"""Ablation: the gain of each tuning over the baseline, by itself and together with the others.

VeriTest tuned Samba in this way in 2003 (File Server Performance Comparison, appendix C): a baseline, one change at a
time, then all together. Each row is an improvement over the baseline, with verdicts that hold for all rows together
(`pairs`). A change that was added to earlier ones has two rows: against the baseline, and against the previous step.
Interactions of changes are not judged, because that needs a factorial design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from serverdyno.analysis.improvement import NO_MARGINS, Improvement, Margins
from serverdyno.analysis.pairs import Comparison, Side, compared


class Role(StrEnum):
    ONE_CHANGE = "one change, against the baseline"
    CUMULATIVE = "this change and the earlier ones, against the baseline"
    STEP = "this change, against the earlier ones alone"
    ALL_TOGETHER = "all changes together, against the baseline"


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of an ablation. Its verdicts hold for all rows together."""

    name: str
    role: Role
    comparison: Comparison

    @property
    def found(self) -> tuple[Improvement, ...]:
        """Return the improvements of the row, in the order of `Metric`."""
        return self.comparison.improvements


@dataclass(frozen=True, slots=True)
class Tunings:
    """The sides of an ablation. `piled_up` is in the order in which the changes were added."""

    baseline: Side
    single: Sequence[Side]
    piled_up: Sequence[Side] = ()
    together: Side | None = None


def ablation(tunings: Tunings, *, paired: bool, margins: Margins = NO_MARGINS) -> tuple[Effect, ...]:
    """Return the single changes, then the cumulative steps, then all together."""
    baseline = tunings.baseline
    rows = [(Role.ONE_CHANGE, (baseline, side)) for side in tunings.single]
    before: Side | None = None
    for side in tunings.piled_up:
        rows.append((Role.CUMULATIVE, (baseline, side)))
        if before is not None:  # for the first change, both rows would be equal
            rows.append((Role.STEP, (before, side)))
        before = side
    if tunings.together is not None:
        rows.append((Role.ALL_TOGETHER, (baseline, tunings.together)))
    found = compared([pair for _, pair in rows], paired=paired, margins=margins)
    return tuple(
        Effect(comparison.other, role, comparison) for (role, _), comparison in zip(rows, found, strict=True)
    )
