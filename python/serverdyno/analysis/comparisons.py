"""Compare all configurations of an experiment with one estimate of the noise and verdicts that hold together.

**Noise.** The runs of three or more configurations say more about the noise than those of one pair, so all pairs share
one pooled variance (`contrast.scatter`). This assumes that all configurations are equally noisy, which few repetitions
can't test: for four equal configurations with three runs each, the spreads differ more than threefold in half of all
experiments. So each pair takes the larger of the pooled variance and its own. Each pair is judged by itself if the
configurations didn't finish the same levels in the same repetitions.

**Verdicts** on averages and peaks are corrected together: see `holm`. Claims of differences and claims of equivalence
are corrected separately; otherwise every equivalence would make a false "faster" among the others more probable.
`tests/support/simulations.py` measures how often such verdicts are wrong, and which differences they find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from serverdyno.analysis.contrast import Contrast, Scatter, widened
from serverdyno.analysis.holm import holds
from serverdyno.analysis.improvement import (
    NO_MARGINS,
    Improvement,
    Margins,
    Metric,
    Noise,
    Odd,
    Runs,
    Verdict,
    judged,
    scatter_of,
    unjudged,
    without_odd,
)
from serverdyno.analysis.sensitivity import found_percent, repetitions_needed
from serverdyno.analysis.threshold import LEVEL, degrees, margin_of

Pair = tuple[int, int]
"""Indices of the base and of the other side."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules for all pairs: see `compare`."""

    paired: bool
    margins: Margins
    between: Contrast | None


def compare(
    sides: Sequence[Runs],
    pairs: Sequence[Pair],
    *,
    paired: bool,
    margins: Margins = NO_MARGINS,
    between: Contrast | None = None,
) -> list[tuple[Improvement, ...]]:
    """Return the improvements of each pair, with the figures in the order of `Metric`.

    The verdicts hold for all pairs together. `between` is the error that all runs of a side share if the sides
    ran at different times; its estimate is ignored.
    """
    rules = _Rules(paired, margins, between)
    columns = [_of_figure(sides, pairs, figure, rules) for figure in Metric]
    judged_ones = [[each for each, contrast in column if contrast is not None] for column in columns]
    differ = holds(*[[each.p_value or 0.0 for each in of_it] for of_it in judged_ones])
    equal = holds(*[[each.equivalence_p_value or 0.0 for each in of_it] for of_it in judged_ones])
    count = sum(len(of_it) for of_it in judged_ones)
    corrected = [
        _corrected(column, list(zip(*held, strict=True)), count)
        for column, *held in zip(columns, differ, equal, strict=True)
    ]
    return list(zip(*corrected, strict=True))


_Found = tuple[Improvement, Contrast | None]


def _of_figure(sides: Sequence[Runs], pairs: Sequence[Pair], figure: Metric, rules: _Rules) -> list[_Found]:
    paired = rules.paired
    everyone = scatter_of(sides, figure, paired=paired) if len(sides) > 1 else None
    found: list[_Found] = []
    for pair in pairs:
        (base, other), odd = pair_without_odd(sides, pair, figure, everyone, paired=paired)
        improvement, contrast = unjudged(base, other, figure, paired=paired, margins=rules.margins)
        improvement = replace(improvement, odd=odd)
        if contrast is None:
            found.append((improvement, None))
            continue
        if everyone is not None and len(sides) > 2:
            contrast = _with_pooled(contrast, everyone.scatter, improvement.repetitions)
        if rules.between is not None:
            contrast = widened(contrast, rules.between)
        found.append((judged(improvement, contrast), contrast))
    return found


def pair_without_odd(
    sides: Sequence[Runs], pair: Pair, figure: Metric, everyone: Noise | None, *, paired: bool
) -> tuple[tuple[Runs, Runs], Odd | None]:
    """Return the two sides of a pair without an outlying run, and that run.

    `everyone` is the noise of all sides, with which an outlying run is found; None: use the noise of these two.
    """
    base, other = (sides[place] for place in pair)
    if everyone is None:
        return without_odd((base, other), scatter_of((base, other), figure, paired=paired))
    if everyone.scatter.odd is None or everyone.scatter.odd[0] not in pair:
        return (base, other), None
    side, run = everyone.scatter.odd
    return without_odd(
        (base, other), replace(everyone, scatter=replace(everyone.scatter, odd=(pair.index(side), run)))
    )


def _with_pooled(found: Contrast, pooled: Scatter, repetitions: int) -> Contrast:
    """Return the contrast with the pooled variance of a run if that is larger than the pair's own."""
    variance = max(found.variance - found.added, 2 * pooled.variance / repetitions)
    return replace(found, variance=variance + found.added, degrees_of_freedom=pooled.degrees_of_freedom)


def _corrected(found: Sequence[_Found], held: Sequence[tuple[bool, bool]], count: int) -> list[Improvement]:
    """Return the final improvements.

    `held`: for each contrast, whether its claims of difference and equivalence hold.
    """
    of_claims, level = iter(held), LEVEL / max(1, len(held))
    return [
        each
        if contrast is None
        else replace(_planned(each, contrast, level), verdict=_verdict(each, *next(of_claims)), among=count)
        for each, contrast in found
    ]


def _verdict(found: Improvement, differ: bool, equal: bool) -> Verdict:
    if differ and found.verdict.proven:
        return found.verdict
    return Verdict.EQUIVALENT if equal else Verdict.NO_DIFFERENCE_SHOWN


def _planned(found: Improvement, contrast: Contrast, level: float) -> Improvement:
    """Return the improvement with the smallest detectable difference.

    `level` is the significance level of a claim while all others are open.
    """
    margin, runs, error = margin_of(found.minimum_percent), found.repetitions, contrast.standard_error
    freedom = round(
        contrast.degrees_of_freedom, 1
    )  # few distinct values, so that their results can be cached
    each = freedom / degrees(2, runs, paired=found.paired)
    return replace(
        found,
        found_percent=found_percent(error, freedom, level, margin),
        repetitions_needed=repetitions_needed(
            lambda more: error * float(np.sqrt(runs / more)),
            lambda more: round(each * degrees(2, more, paired=found.paired), 1),
            level,
            margin,
        ),
    )
