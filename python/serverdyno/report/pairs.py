"""Which configurations are set against which, and verdicts that hold for all comparisons together.

Every pair while they are few; else each with the first, which the plan puts there as the base. Among many comparisons
some would claim a difference by chance, so with more than one the verdicts of each figure are corrected by Holm's
procedure (`analysis.holm`); the intervals stay those of single comparisons.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations

from serverdyno.analysis.holm import adjusted_verdicts, counted
from serverdyno.analysis.improvement import Figure, improvement
from serverdyno.analysis.trust import Mark, limits
from serverdyno.report.figures.results import ConfigurationResult
from serverdyno.report.model import Comparison

MOST_PAIRWISE = 8
"""Configurations: eight make 28 pairs, as many as a table can be read for."""

Pair = tuple[ConfigurationResult, ConfigurationResult]


def pairs(configurations: Sequence[ConfigurationResult]) -> list[Pair]:
    """Those with the first come first, in the order of the plan."""
    if len(configurations) <= MOST_PAIRWISE:
        return list(combinations(configurations, 2))
    base, *others = configurations
    return [(base, other) for other in others]


def compared(found: Sequence[Pair], *, paired: bool, minimum_percent: float) -> tuple[Comparison, ...]:
    """Peak and overall average of the second of each pair against the first."""
    return _corrected([_single(pair, paired, minimum_percent) for pair in found])


def _single(pair: Pair, paired: bool, minimum_percent: float) -> Comparison:
    base, other = pair
    improvements = tuple(
        improvement(base.runs, other.runs, figure, paired=paired, minimum_percent=minimum_percent)
        for figure in Figure
    )
    return Comparison(
        base=base.name,
        other=other.name,
        improvements=improvements,
        limits=tuple((result.name, mark) for result in pair for mark in limits(result.marks)),
        parts_of_a_pass=frozenset(
            found.figure
            for found in improvements
            if _part_of_a_pass(base, found.base_read_at) or _part_of_a_pass(other, found.other_read_at)
        ),
    )


def _part_of_a_pass(result: ConfigurationResult, read_at: Collection[int]) -> bool:
    """Whether one of the mixes at which a figure was read is marked so."""
    mixes = [result.mixes[place] for place in read_at]
    return any(mix is not None and Mark.PART_OF_A_PASS in mix.marks for mix in mixes)


def _corrected(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Each figure by itself: two configurations alone are one comparison, whatever the number of figures."""
    columns = [
        [
            (replace(each, verdict=verdict), None if each.p_value is None else counted(column))
            for each, verdict in zip(column, adjusted_verdicts(column), strict=True)
        ]
        for column in zip(*(comparison.improvements for comparison in comparisons), strict=True)
    ]
    return tuple(
        replace(
            comparison,
            improvements=tuple(each for each, _ in row),
            corrected_for=tuple(count for _, count in row),
        )
        for comparison, row in zip(comparisons, zip(*columns, strict=True), strict=True)
    )
