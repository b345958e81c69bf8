"""Tunings one by one and together: what each brought over the baseline.

As VeriTest tuned Samba in 2003 (File Server Performance Comparison, appendix C): a baseline, one change at a time, all
together. Each row is an improvement over the baseline, with verdicts that hold for all rows together (`comparisons`).
Changes that were piled up one on another have two rows each: against the baseline, and against the step before. Which
changes interact is not judged: that takes a factorial design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.improvement import Improvement, Runs


class Role(StrEnum):
    """What a row compares."""

    ONE_CHANGE = "one change, against the baseline"
    CUMULATIVE = "this change and those before it, against the baseline"
    STEP = "this change, against those before it"
    ALL_TOGETHER = "all changes together, against the baseline"


@dataclass(frozen=True, slots=True)
class Effect:
    """One row. `found`: of each figure, in the order of `Metric`; verdicts hold for all rows."""

    name: str
    role: Role
    found: tuple[Improvement, ...]


@dataclass(frozen=True, slots=True)
class Tunings:
    """The runs of an ablation. `piled_up`: in the order in which the changes were added."""

    baseline: Runs
    single: Mapping[str, Runs]
    piled_up: Sequence[tuple[str, Runs]] = ()
    together: Runs | None = None


def ablation(
    tunings: Tunings, *, paired: bool, minimum_percent: float = 0.0, together: str = "all"
) -> tuple[Effect, ...]:
    """Single changes, then what was piled up, then all together. `together`: the name of the last row."""
    sides = [tunings.baseline, *tunings.single.values(), *(runs for _, runs in tunings.piled_up)]
    rows = [(name, Role.ONE_CHANGE, (0, place)) for place, name in enumerate(tunings.single, start=1)]
    first = 1 + len(tunings.single)
    for place, (name, _) in enumerate(tunings.piled_up, start=first):
        rows.append((name, Role.CUMULATIVE, (0, place)))
        if place > first:  # the first step is both
            rows.append((name, Role.STEP, (place - 1, place)))
    if tunings.together is not None:
        rows.append((together, Role.ALL_TOGETHER, (0, len(sides))))
        sides.append(tunings.together)
    found = compare(sides, [pair for _, _, pair in rows], paired=paired, minimum_percent=minimum_percent)
    return tuple(Effect(name, role, of_it) for (name, role, _), of_it in zip(rows, found, strict=True))
