"""Compare steps that were timed separately, so that all claims of an experiment hold together.

Each step is compared like the overall average of a load (`comparisons`): speed is 1 / elapsed time, each repetition
is one observation of its logarithm, and three or more configurations pool their noise. Noise is pooled per step,
since a step of a millisecond scatters more than one of a minute. Then all claims of all steps and pairs are corrected
together (`holm`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.holm import holds
from serverdyno.analysis.improvement import NO_MARGINS, Improvement, Margins, Runs, Verdict

Times = Mapping[int, float]
"""Seconds by repetition."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The comparison of `other` with `base` in one step, in speed. The verdict of the improvement is final."""

    base: str
    other: str
    improvement: Improvement


@dataclass(frozen=True, slots=True)
class Lead:
    """The configuration that is proven faster than every other in a step, and its speed ratio to the next one."""

    winner: str
    next: str
    ratio: float
    low: float
    high: float


def gaps(
    steps: Sequence[Mapping[str, Times]],
    *,
    paired: bool,
    margins: Margins = NO_MARGINS,
    between: Contrast | None = None,
) -> list[tuple[Gap, ...]]:
    """Return the comparisons of all pairs of configurations in each step; `base` is the earlier one.

    `steps` gives the seconds of each step by configuration. `margins` and `between` are as in `comparisons.compare`.
    """
    found = [_of_step(step, paired, margins, between) for step in steps]
    p_values = [gap.improvement.p_value for step in found for gap in step]
    held, _ = holds([value for value in p_values if value is not None])
    of_claims = iter(held)
    count = len(held)
    return [
        tuple(gap if gap.improvement.p_value is None else _final(gap, next(of_claims), count) for gap in step)
        for step in found
    ]


def lead(step: Sequence[Gap]) -> Lead | None:
    """Return the leader of a step; None if no configuration is proven faster than all others."""
    faster: dict[str, dict[str, tuple[float, float, float]]] = {}
    for gap in step:
        told = gap.improvement
        if told.percent is None or told.low_percent is None or told.high_percent is None:
            continue
        ratio, low, high = (1 + each / 100 for each in (told.percent, told.low_percent, told.high_percent))
        if told.verdict is Verdict.FASTER:
            faster.setdefault(gap.other, {})[gap.base] = (ratio, low, high)
        elif told.verdict is Verdict.SLOWER:
            faster.setdefault(gap.base, {})[gap.other] = (1 / ratio, 1 / high, 1 / low)
    names = {name for gap in step for name in (gap.base, gap.other)}
    for winner, over in faster.items():
        if len(over) == len(names) - 1:
            behind = min(over, key=lambda name: over[name][0])
            return Lead(winner, behind, *over[behind])
    return None


def beaten(step: Sequence[Gap]) -> set[str]:
    """Return the configurations that are proven slower than another one in a step."""
    return {
        gap.base if gap.improvement.verdict is Verdict.FASTER else gap.other
        for gap in step
        if gap.improvement.verdict.proven
    }


def _of_step(
    step: Mapping[str, Times], paired: bool, margins: Margins, between: Contrast | None
) -> list[Gap]:
    known = {name: times for name, times in step.items() if times}
    sides = [
        Runs(tuple(sorted(times)), np.array([[1 / max(times[run], 1e-9)] for run in sorted(times)]))
        for times in known.values()
    ]
    pairs = list(combinations(range(len(sides)), 2))
    names = list(known)
    compared = compare(sides, pairs, paired=paired, margins=margins, between=between)
    # The first figure is the overall average; with one level the peak is the same.
    return [
        Gap(names[base], names[other], figures[0])
        for (base, other), figures in zip(pairs, compared, strict=True)
    ]


def _final(gap: Gap, holds: bool, count: int) -> Gap:
    told = gap.improvement
    verdict = told.verdict if holds else Verdict.NO_DIFFERENCE_SHOWN
    return replace(gap, improvement=replace(told, verdict=verdict, among=count))
