"""All comparisons of one experiment: one estimate of the noise, and verdicts that hold for all of them together.

**Noise.** The runs of three configurations or more tell more of the noise than those of one pair. In the model
"configuration x repetition" the mean of the variances of all pairs is the pooled one, with (k - 1)(n - 1) degrees of
freedom of k configurations and n paired repetitions (k(n - 1) unpaired; Box, Hunter and Hunter, Statistics for
Experimenters, 2nd edition, Wiley 2005, chapter 4). It holds where all configurations are equally noisy. Of few
repetitions that can't be tested: of four equal ones with three runs each, half of all experiments show spreads that
differ more than threefold. So a pair takes the larger of the pooled variance and its own. Pairs stand alone where
configurations didn't finish the same mixes as often.

**Verdicts** of averages and peaks are corrected together: see `holm`. `tests/support/simulations.py` measures how often
such verdicts are wrong, and what they find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.holm import Family, holds
from serverdyno.analysis.improvement import (
    Improvement,
    Metric,
    Runs,
    Verdict,
    judged,
    unjudged,
)
from serverdyno.analysis.sensitivity import found_percent, repetitions_needed
from serverdyno.analysis.threshold import LEVEL, margin_of

Pair = tuple[int, int]
"""Places of the base and of the other."""


@dataclass(frozen=True, slots=True)
class _Pooled:
    """What all pairs say of the noise of each."""

    variance: float
    degrees_of_freedom: float
    configurations: int


def compare(
    sides: Sequence[Runs],
    pairs: Sequence[Pair],
    *,
    paired: bool,
    minimum_percent: float = 0.0,
    floor_percent: float = 0.0,
) -> list[tuple[Improvement, ...]]:
    """The improvements of each pair, the figures in the order of `Metric`; verdicts hold for all of them together."""

    def single(base: Runs, other: Runs, figure: Metric) -> _Found:
        found, contrast = unjudged(base, other, figure, paired=paired, minimum_percent=minimum_percent)
        return replace(found, floor_percent=floor_percent), contrast

    columns, families = [], []
    for figure in Metric:
        found, family = _of_figure(sides, pairs, partial(single, figure=figure), paired)
        columns.append(found)
        families.append(family)
    primary, secondary = families
    held = holds(primary, secondary)
    count = sum(len(family.p_values) for family in families)
    corrected = [
        _corrected(column, of_it, LEVEL / max(1, len(of_it)), count)
        for column, of_it in zip(columns, held, strict=True)
    ]
    return list(zip(*corrected, strict=True))


_Found = tuple[Improvement, Contrast | None]
_Single = Callable[[Runs, Runs], _Found]


def _of_figure(
    sides: Sequence[Runs], pairs: Sequence[Pair], single: _Single, paired: bool
) -> tuple[list[_Found], Family]:
    wanted = {(base, other): single(sides[base], sides[other]) for base, other in dict.fromkeys(pairs)}
    others = [
        pair
        for pair in combinations(range(len(sides)), 2)
        if len(sides) > 2 and pair not in wanted and pair[::-1] not in wanted
    ]
    pooled = _pooled([*wanted.items(), *(((a, b), single(sides[a], sides[b])) for a, b in others)], paired)
    found = [_with_pooled(wanted[pair], pooled) for pair in pairs]
    p_values = [each.p_value for each, _ in found if each.p_value is not None]
    if pooled is None:
        return found, Family(p_values)
    return found, Family(p_values, pooled.configurations, pooled.degrees_of_freedom)


def _pooled(found: Sequence[tuple[Pair, _Found]], paired: bool) -> _Pooled | None:
    """Of three configurations or more, all pairs of which were compared over the same mixes, equally often."""
    known = [(pair, each, contrast) for pair, (each, contrast) in found if contrast is not None]
    configurations = len({place for pair, _, _ in known for place in pair})
    alike = {(each.mixes, each.repetitions) for _, each, _ in known}
    if configurations < 3 or len(known) != configurations * (configurations - 1) // 2 or len(alike) > 1:
        return None
    of_each = known[0][1].repetitions - 1
    return _Pooled(
        float(np.mean([contrast.variance for _, _, contrast in known])),
        of_each * (configurations - 1 if paired else configurations),
        configurations,
    )


def _with_pooled(found: _Found, pooled: _Pooled | None) -> _Found:
    improvement, contrast = found
    if contrast is None:
        return found
    if pooled is not None:
        variance = max(contrast.variance, pooled.variance)
        contrast = Contrast(contrast.estimate, variance, pooled.degrees_of_freedom)
    return judged(improvement, contrast), contrast


def _corrected(found: Sequence[_Found], held: Sequence[bool], level: float, count: int) -> list[Improvement]:
    """`level`: of a single claim where all others of its figure are still open."""
    of_claims = iter(held)
    return [
        each if contrast is None else _final(each, contrast, next(of_claims), level, count)
        for each, contrast in found
    ]


def _final(found: Improvement, contrast: Contrast, holds: bool, level: float, count: int) -> Improvement:
    margin, floor = margin_of(found.minimum_percent), margin_of(found.floor_percent)
    runs, degrees, error = found.repetitions, contrast.degrees_of_freedom, contrast.standard_error
    return replace(
        found,
        verdict=found.verdict if holds else Verdict.NO_DIFFERENCE_SHOWN,
        among=count,
        found_percent=found_percent(error, degrees, level, margin, floor),
        repetitions_needed=repetitions_needed(
            lambda more: error * float(np.sqrt(runs / more)),
            lambda more: degrees * (more - 1) / (runs - 1),
            level,
            margin,
            floor,
        ),
    )
