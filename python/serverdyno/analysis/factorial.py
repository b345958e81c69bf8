"""Main effects of a complete factorial design: the effect of each factor, averaged over the levels of the others.

The figures of runs are compared as logarithms, so that effects are ratios. A main effect is the mean over all cells
with one level of a factor, less the mean over all cells with its first level. The interaction of two factors with two
levels each is half the difference of one factor's effect between the levels of the other (G. E. P. Box, J. S. Hunter
and W. G. Hunter, Statistics for Experimenters, 2nd edition, Wiley 2005, chapter 5). The noise is estimated by
`contrast.scatter`. The claims are corrected together (`holm`).

An effect is claimed only if its cells are comparable (`comparability`): each pair of cells that differ in one factor
is checked with the interval of the effect. A disturbance of one pair among several shifts their mean by less, so this
rule is on the safe side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis.comparability import Obstacle, is_at_least, obstacles, stated
from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.durability import differs
from serverdyno.analysis.holm import holds
from serverdyno.analysis.improvement import Metric, Runs, Verdict, scatter_of
from serverdyno.analysis.pairs import Pair, Side
from serverdyno.analysis.threshold import margin_of

Cell = tuple[str, ...]
"""The level of each factor, in the order of the factors."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a factor's level against its first level, in %.

    `other` is the second factor of an interaction. `low_percent` and `high_percent` are the 95 % interval. `verdict`
    says whether the level is faster or slower by more than `minimum_percent`, corrected for all effects; it is never
    equivalent. `obstacles` are the reasons why the cells are not comparable: the largest of each kind.
    `at_least`: only the faster cells were held back, so the true effect may be larger.
    """

    factor: str
    level: str
    base: str
    percent: float
    low_percent: float
    high_percent: float
    other: str = ""
    verdict: Verdict = Verdict.NO_DIFFERENCE_SHOWN
    minimum_percent: float = 0.0
    obstacles: tuple[Obstacle, ...] = ()
    at_least: bool = False

    @property
    def proven(self) -> bool:
        return self.verdict.proven

    @property
    def stated_percent(self) -> float:
        return stated(self.percent, self.low_percent, self.high_percent, at_least=self.at_least)


def effects(
    factors: Sequence[str],
    cells: Mapping[Cell, Side],
    *,
    paired: bool,
    minimum_percent: float = 0.0,
) -> tuple[Effect, ...]:
    """Return main effects, then interactions of factors with two levels.

    `cells` maps each combination of levels to its side. The repetition of an outlying run is excluded. The result is
    empty if a cell has fewer than two whole runs, or runs of different repetitions or without throughput.
    """
    noise = scatter_of([side.runs for side in cells.values()], Metric.OVERALL_AVERAGE, paired=paired)
    if noise is None or noise.scatter.degrees_of_freedom < 1:
        return ()
    logs = np.log([_averages(side.runs, noise.repetitions) for side in cells.values()])
    if noise.scatter.odd is not None:
        logs = np.delete(logs, noise.scatter.odd[1], axis=1)
    variance, degrees = noise.scatter.variance, noise.scatter.degrees_of_freedom
    found = []
    for factor, level, base, other, weights in _contrasts(factors, list(cells)):
        estimate = float(weights @ logs.mean(axis=1))
        contrast = Contrast(estimate, variance * float(weights @ weights) / logs.shape[1], degrees)
        low, high = (_percent(end) for end in contrast.interval())
        effect = Effect(factor, level, base, _percent(estimate), low, high, other)
        effect = replace(effect, minimum_percent=minimum_percent)
        found.append((effect, contrast, _alike_but_for_one(cells, weights)))
    margin = margin_of(minimum_percent)
    held, _ = holds([contrast.p_value_beyond(margin) for _, contrast, _ in found])
    return tuple(
        _comparable_alone(_judged(effect, contrast, claimed=claimed), pairs)
        for (effect, contrast, pairs), claimed in zip(found, held, strict=True)
    )


def _judged(effect: Effect, contrast: Contrast, *, claimed: bool) -> Effect:
    if not claimed:
        return effect
    return replace(effect, verdict=Verdict.FASTER if contrast.estimate > 0 else Verdict.SLOWER)


def _alike_but_for_one(cells: Mapping[Cell, Side], weights: NDArray[np.float64]) -> list[Pair]:
    """Return the pairs of cells that an effect contrasts and that differ in only one factor."""
    weighed = list(zip(cells.items(), weights, strict=True))
    return [
        (base, other)
        for (of_base, base), down in weighed
        for (of_other, other), up in weighed
        if down < 0 < up and sum(one != two for one, two in zip(of_base, of_other, strict=True)) == 1
    ]


def _comparable_alone(effect: Effect, pairs: Sequence[Pair]) -> Effect:
    """Return the effect without its verdict if its cells are not comparable. The measured figures stay."""
    why: dict[str, Obstacle] = {}
    for base, other in pairs:
        of_base, of_other = (side.conditions(range(side.runs.throughput.shape[1])) for side in (base, other))
        differ = differs(base.did, other.did)
        for each in obstacles(of_base, of_other, effect, differs_in_durability=differ):
            if each.kind not in why or each.amount > why[each.kind].amount:
                why[each.kind] = each
    if why:
        return replace(effect, verdict=Verdict.NOT_COMPARABLE, obstacles=tuple(why.values()))
    held = is_at_least(
        effect.verdict,
        base_held=any(base.limits for base, _ in pairs),
        other_held=any(other.limits for _, other in pairs),
    )
    return replace(effect, at_least=held and not effect.other)


def _percent(log: float) -> float:
    return float(np.expm1(log) * 100)


def _averages(runs: Runs, repetitions: Sequence[int]) -> NDArray[np.float64]:
    """Return the average over the load levels, for each of the repetitions."""
    rows = [runs.repetitions.index(number) for number in repetitions]
    return np.asarray(runs.throughput[rows].mean(axis=1))


def _contrasts(
    factors: Sequence[str], names: Sequence[Cell]
) -> list[tuple[str, str, str, str, NDArray[np.float64]]]:
    """Return the weights of the cells for each effect."""
    levels = [list(dict.fromkeys(cell[place] for cell in names)) for place in range(len(factors))]
    found = []
    for place, factor in enumerate(factors):
        base, *others = levels[place]
        first = np.array([cell[place] == base for cell in names], dtype=float)
        for level in others:
            this = np.array([cell[place] == level for cell in names], dtype=float)
            found.append((factor, level, base, "", this / this.sum() - first / first.sum()))
    for one, two in combinations(range(len(factors)), 2):
        if len(levels[one]) == len(levels[two]) == 2:
            signs = [
                (1 if cell[one] == levels[one][1] else -1) * (1 if cell[two] == levels[two][1] else -1)
                for cell in names
            ]
            weights = np.array(signs, dtype=float) / (len(names) / 2)
            found.append((factors[one], levels[one][1], levels[one][0], factors[two], weights))
    return found


def complete(levels: Sequence[Sequence[str]], cells: Sequence[Cell]) -> bool:
    """Return whether the cells are every combination of the levels, once each."""
    return sorted(cells) == sorted(product(*levels))
