"""Which configurations are set against which, and verdicts that hold for all comparisons together.

Every pair while they are few; else each with the first, which the plan puts there as the base. Verdicts hold for all of
them together (`analysis.comparisons`); the intervals stay those of single comparisons.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.improvement import Improvement
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
    """Overall average and peak of the second of each pair against the first, with verdicts for all together."""
    sides = {result.name: result.runs for pair in found for result in pair}
    places = {name: place for place, name in enumerate(sides)}
    improvements = compare(
        list(sides.values()),
        [(places[base.name], places[other.name]) for base, other in found],
        paired=paired,
        minimum_percent=minimum_percent,
    )
    return tuple(_comparison(pair, of_it) for pair, of_it in zip(found, improvements, strict=True))


def _comparison(pair: Pair, improvements: tuple[Improvement, ...]) -> Comparison:
    base, other = pair
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
