"""Compare two configurations at equal load: the ratio at each load level with its interval, and the proven differences.

At one level each run is one observation of `contrast`. All levels of a pair estimate the noise together; a level takes
the larger of that pooled variance and its own, as pairs do in `comparisons`. The claims of all levels and all pairs
hold together by Holm's correction (`holm`), so that the largest of many gaps is not claimed because of noise. As for
any other figure, a difference is claimed only if the two are comparable at that level (`comparability`).

`improvement` compares averages over the levels, and peaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from serverdyno.analysis.comparability import Obstacle, is_at_least, obstacles, stated
from serverdyno.analysis.comparisons import pair_without_odd
from serverdyno.analysis.contrast import FEWEST_REPETITIONS, Contrast, of_two, widened
from serverdyno.analysis.durability import differs
from serverdyno.analysis.holm import holds
from serverdyno.analysis.improvement import (
    Metric,
    Runs,
    Verdict,
    percent_improvement,
    scatter_of,
)
from serverdyno.analysis.pairs import Pair
from serverdyno.analysis.threshold import margin_of


@dataclass(frozen=True, slots=True)
class AtLevel:
    """The comparison of `other` with `base` at one level, given by its index.

    `percent` is other / base - 1 of the means, in %. `low_percent` and `high_percent` are the 95 % interval; None
    with one repetition. `verdict` says whether `other` is faster or slower by more than `minimum_percent`, corrected
    for all levels of all pairs; it is never equivalent. `obstacles` are the reasons why the two are not comparable.
    `at_least`: only the faster side was held back, so the true gap may be larger.
    """

    index: int
    base: float
    other: float
    percent: float
    low_percent: float | None = None
    high_percent: float | None = None
    verdict: Verdict = Verdict.TOO_FEW_REPETITIONS
    minimum_percent: float = 0.0
    obstacles: tuple[Obstacle, ...] = ()
    at_least: bool = False

    @property
    def proven(self) -> bool:
        """Return whether one side is proven faster."""
        return self.verdict.proven

    @property
    def stated_percent(self) -> float:
        return stated(self.percent, self.low_percent, self.high_percent, at_least=self.at_least)


_Found = tuple[AtLevel, Contrast | None]


def at_levels(
    pairs: Sequence[Pair], *, paired: bool, minimum_percent: float = 0.0, between: Contrast | None = None
) -> list[tuple[AtLevel, ...]]:
    """Return a tuple for each pair (base, other), with the levels that both finished with some throughput.

    A run that is odd in the overall average is left out everywhere. `between` is as in `comparisons.compare`.
    """
    runs = {side.name: side.runs for pair in pairs for side in pair}
    sides, places = list(runs.values()), {name: place for place, name in enumerate(runs)}
    average = Metric.OVERALL_AVERAGE
    everyone = scatter_of(sides, average, paired=paired) if sides else None
    found = []
    for base, other in pairs:
        both = (places[base.name], places[other.name])
        kept, _ = pair_without_odd(sides, both, average, everyone, paired=paired)
        levels = _pooled(_of_pair(*kept, paired))
        found.append(
            [
                (
                    replace(level, minimum_percent=minimum_percent),
                    widened(contrast, between) if contrast and between else contrast,
                )
                for level, contrast in levels
            ]
        )
    margin = margin_of(minimum_percent)
    p_values = [
        contrast.p_value_beyond(margin)
        for of_pair in found
        for _, contrast in of_pair
        if contrast is not None
    ]
    held, _ = holds(p_values)
    verdicts = iter(held)
    return [
        tuple(
            _comparable_alone(
                level if contrast is None else _judged(level, contrast, claimed=next(verdicts)), pair
            )
            for level, contrast in of_pair
        )
        for pair, of_pair in zip(pairs, found, strict=True)
    ]


def _comparable_alone(level: AtLevel, pair: Pair) -> AtLevel:
    """Return the level without its verdict if the two are not comparable. The measured figures stay."""
    of_base, of_other = (side.conditions((level.index,)) for side in pair)
    differ = differs(pair[0].did, pair[1].did)
    if why := obstacles(of_base, of_other, level, differs_in_durability=differ):
        return replace(level, verdict=Verdict.NOT_COMPARABLE, obstacles=why)
    held = is_at_least(level.verdict, base_held=of_base.held_back, other_held=of_other.held_back)
    return replace(level, at_least=held)


def _of_pair(base: Runs, other: Runs, paired: bool) -> list[_Found]:
    found = []
    for level in range(base.throughput.shape[1]):
        sides = [_at(runs, level) for runs in (base, other)]
        if paired:
            both = sorted(sides[0].keys() & sides[1].keys())
            sides = [{number: side[number] for number in both} for side in sides]
        values = [np.array(list(side.values())) for side in sides]
        rounds = list(sides[0]) if paired else None
        if any(len(of_side) == 0 or of_side.min() <= 0 for of_side in values):
            continue
        low, high = (float(of_side.mean()) for of_side in values)
        contrast = None
        if min(len(of_side) for of_side in values) >= FEWEST_REPETITIONS:
            contrast = of_two(np.log(values[0]), np.log(values[1]), rounds)
        found.append((AtLevel(level, low, high, percent_improvement(low, high)), contrast))
    return found


def _at(runs: Runs, level: int) -> dict[int, float]:
    """Return the figure of each repetition that finished the level."""
    column = runs.throughput[:, level]
    return {
        number: float(value)
        for number, value in zip(runs.repetitions, column, strict=True)
        if not np.isnan(value)
    }


def _pooled(found: Sequence[_Found]) -> list[_Found]:
    """Return the contrasts, each with the larger of two variances: its own, and the pooled one of all levels."""
    known = [contrast for _, contrast in found if contrast is not None]
    if len(known) < 2:
        return list(found)
    variance = float(np.mean([contrast.variance for contrast in known]))
    degrees = sum(contrast.degrees_of_freedom for contrast in known)
    return [
        (level, contrast and Contrast(contrast.estimate, max(contrast.variance, variance), degrees))
        for level, contrast in found
    ]


def _judged(level: AtLevel, contrast: Contrast, *, claimed: bool) -> AtLevel:
    low, high = contrast.interval()
    verdict = Verdict.NO_DIFFERENCE_SHOWN
    if claimed:
        verdict = Verdict.FASTER if contrast.estimate > 0 else Verdict.SLOWER
    return replace(
        level,
        low_percent=float(np.expm1(low) * 100),
        high_percent=float(np.expm1(high) * 100),
        verdict=verdict,
    )
