"""Main effects of a complete factorial design: what each factor does on average over the levels of the others.

The figure of each run is taken as a logarithm, so that effects are ratios. A main effect is the mean over all cells
with a factor's level, less the mean over all cells with its first level; the interaction of two factors of two levels
is half the difference of one factor's effect between the levels of the other. The noise is what an additive model
leaves: cells, and repetitions where they ran in rounds (G. E. P. Box, J. S. Hunter and W. G. Hunter, Statistics for
Experimenters, 2nd edition, Wiley 2005, chapters 4 and 5). The claims are corrected together (`holm`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis.contrast import FEWEST_REPETITIONS, Contrast
from serverdyno.analysis.holm import Family, holds
from serverdyno.analysis.improvement import Runs, margin_of

Cell = tuple[str, ...]
"""The level of each factor, in the order of the factors."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a level of a factor does against the first level, in %; of an interaction, `other` names the second factor.

    `low_percent`, `high_percent`: the 95 % interval. `proven`: beyond the minimum effect, among all effects.
    """

    factor: str
    level: str
    base: str
    percent: float
    low_percent: float
    high_percent: float
    proven: bool
    other: str = ""


def effects(
    factors: Sequence[str], cells: dict[Cell, Runs], *, paired: bool, minimum_percent: float = 0.0
) -> tuple[Effect, ...]:
    """Return main effects, then interactions of factors of two levels.

    `cells`: the runs of every combination. Nothing where a cell has fewer than two whole runs, or runs of different
    repetitions or without throughput.
    """
    logs = _logs(cells)
    if logs is None:
        return ()
    names = list(cells)
    variance, degrees = _noise(logs, paired)
    if degrees < 1:
        return ()
    found = []
    for factor, level, base, other, weights in _contrasts(factors, names):
        estimate = float(weights @ logs.mean(axis=1))
        spread = variance * float(weights @ weights) / logs.shape[1]
        found.append((factor, level, base, other, Contrast(estimate, spread, degrees)))
    margin = margin_of(minimum_percent)
    held, _ = holds(Family([contrast.p_value_beyond(margin) for *_, contrast in found]), Family([]))
    return tuple(_effect(each, proven=proven) for each, proven in zip(found, held, strict=True))


_Found = tuple[str, str, str, str, Contrast]


def _effect(found: _Found, *, proven: bool) -> Effect:
    factor, level, base, other, contrast = found
    low, high = contrast.interval()
    return Effect(
        factor, level, base, _percent(contrast.estimate), _percent(low), _percent(high), proven, other
    )


def _percent(log: float) -> float:
    return float(np.expm1(log) * 100)


def _logs(cells: dict[Cell, Runs]) -> NDArray[np.float64] | None:
    """Cells x repetitions: the logarithm of each run's average over the load levels."""
    repetitions = {runs.repetitions for runs in cells.values()}
    averages = [runs.throughput.mean(axis=1) for runs in cells.values()]
    if len(repetitions) != 1 or len(next(iter(repetitions))) < FEWEST_REPETITIONS:
        return None
    matrix = np.array(averages)
    return np.log(matrix) if bool(np.all(matrix > 0)) else None


def _noise(logs: NDArray[np.float64], paired: bool) -> tuple[float, int]:
    """The variance of one run that cells (and rounds) don't explain, and its degrees of freedom."""
    cells, runs = logs.shape
    rest = logs - logs.mean(axis=1, keepdims=True)
    degrees = cells * (runs - 1)
    if paired:
        rest = rest - rest.mean(axis=0, keepdims=True)
        degrees = (cells - 1) * (runs - 1)
    return float((rest**2).sum() / degrees) if degrees else 0.0, degrees


def _contrasts(
    factors: Sequence[str], names: Sequence[Cell]
) -> list[tuple[str, str, str, str, NDArray[np.float64]]]:
    """The weights of the cells for each effect."""
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
    """Whether the cells are every combination of the levels, once each."""
    return sorted(cells) == sorted(product(*levels))
