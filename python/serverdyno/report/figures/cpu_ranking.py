"""Configurations ranked by the server's CPU time an operation, for plans in which the generator set the throughput.

A generator at its limit hides which server is faster. What each operation cost the server is measured all the same: the
one that needs less CPU time can serve more, as long as its CPU is what limits it. Words are in `words/ranking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import Mark
from serverdyno.report.figures.results import ConfigurationResult, Results


@dataclass(frozen=True, slots=True)
class CpuRanking:
    """Names with CPU microseconds an operation, least first. `proven`: whether the first two differ."""

    costs: tuple[tuple[str, float], ...]
    proven: bool


def cpu_ranking(results: Results, comparisons: Sequence[Comparison], *, paired: bool) -> CpuRanking | None:
    """Return the ranking of those that the generator limited, where it may hide the order of a pair; else None."""
    if not any(_hidden(comparison) for comparison in comparisons):
        return None
    limited = {name for comparison in comparisons for name in _limited(comparison)}
    found = [
        (cost, result)
        for result in results.configurations
        if result.name in limited and (cost := _cost(result)) is not None
    ]
    if len(found) < 2:
        return None
    found.sort(key=lambda each: each[0])
    (_, first), (_, second), *_ = found
    average = compare([second.cpu, first.cpu], [(0, 1)], paired=paired)[0][0]
    costs = tuple((result.name, cost) for cost, result in found)
    return CpuRanking(costs, proven=average.verdict is Verdict.SLOWER)


def _limited(comparison: Comparison) -> set[str]:
    return {name for name, mark in comparison.limits if mark is Mark.GENERATOR_LIMITED}


def _hidden(comparison: Comparison) -> bool:
    """Whether the generator may hide the order of the two: it limits both."""
    return _limited(comparison) == {comparison.base, comparison.other} and not comparison.faster


def _cost(result: ConfigurationResult) -> float | None:
    """CPU microseconds an operation, in the mean of the load levels; None where one is not known."""
    known = [mix.cost.server_cpu_us for mix in result.finished]
    values = [spread.mean for spread in known if spread is not None]
    return sum(values) / len(values) if values and len(values) == len(known) else None
