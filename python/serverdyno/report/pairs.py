"""Which configurations are set against which, and verdicts that hold for all comparisons together.

Every pair while they are few; else each with the first, which the plan puts there as the base. Among many comparisons
some would claim a difference by chance, so with more than one the verdicts of each figure are corrected by Holm's
procedure (`analysis.holm`); the intervals stay those of single comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from serverdyno.analysis.holm import adjusted_verdicts
from serverdyno.analysis.improvement import Figure, improvement
from serverdyno.analysis.trust import limits
from serverdyno.report.model import Comparison
from serverdyno.report.results import ConfigurationResult

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
    single = [
        Comparison(
            base=base.name,
            other=other.name,
            improvements=tuple(
                improvement(base.runs, other.runs, figure, paired=paired, minimum_percent=minimum_percent)
                for figure in Figure
            ),
            limits=tuple((result.name, mark) for result in (base, other) for mark in limits(result.marks)),
        )
        for base, other in found
    ]
    return _corrected(single)


def _corrected(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Each figure by itself: two configurations alone are one comparison, whatever the number of figures."""
    if len(comparisons) < 2:
        return tuple(comparisons)
    columns = [
        [
            replace(each, verdict=verdict)
            for each, verdict in zip(column, adjusted_verdicts(column), strict=True)
        ]
        for column in zip(*(comparison.improvements for comparison in comparisons), strict=True)
    ]
    return tuple(
        replace(comparison, improvements=tuple(row), corrected_for=len(comparisons))
        for comparison, row in zip(comparisons, zip(*columns, strict=True), strict=True)
    )
