"""Configurations at equal load: the pairs of the report, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno.analysis.levels import AtLevel, at_levels
from serverdyno.analysis.pairs import Comparison
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.source import Source


@dataclass(frozen=True, slots=True)
class Levels:
    """One pair of configurations at every load level that both finished."""

    comparison: Comparison
    found: tuple[AtLevel, ...]


def levels(source: Source, results: Results, comparisons: Sequence[Comparison]) -> tuple[Levels, ...]:
    """Of each comparison, in their order."""
    by_name = {side.name: side for side in sides(results)}
    found = at_levels(
        [(by_name[comparison.base], by_name[comparison.other]) for comparison in comparisons],
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
    )
    return tuple(Levels(comparison, of_pair) for comparison, of_pair in zip(comparisons, found, strict=True))
