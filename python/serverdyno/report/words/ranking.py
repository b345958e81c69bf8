"""A ranking by the server's CPU time a request, for plans in which the load generator set the throughput.

A generator at its limit hides which server is faster. What each request cost the server is measured all the same: the
one that needs less CPU time can serve more, as long as its CPU is what limits it.
"""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.improvement import Improvement, Verdict
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import Mark
from serverdyno.report.figures.results import ConfigurationResult, Results

GENERATOR = {Mark.GENERATOR_LIMITED}


def by_cpu(results: Results, comparisons: Sequence[Comparison], *, paired: bool) -> str:
    """Return the ranking, where the generator limited the slower side of a pair or hid its order; else nothing."""
    if not any(_hidden(comparison) for comparison in comparisons):
        return ""
    limited = {name for comparison in comparisons for name, mark in comparison.limits if mark in GENERATOR}
    ranked = [
        result for result in results.configurations if result.name in limited and _cost(result) is not None
    ]
    if len(ranked) < 2:
        return ""
    ranked.sort(key=lambda result: _cost(result) or 0.0)
    costs = [f"{result.name} {wording.significant(_cost(result))} µs" for result in ranked]
    first, second = ranked[0], ranked[1]
    found = _difference(second, first, paired)
    proven = found.verdict is Verdict.SLOWER
    sure = "" if proven else "; the first two are not proven different"
    operation = results.terms.operation
    return f"By the server's CPU time a {operation}, least first: {', '.join(costs)}{sure}."


def _hidden(comparison: Comparison) -> bool:
    """Whether the generator may hide the order of the two: it limits both."""
    limited = {name for name, mark in comparison.limits if mark in GENERATOR}
    average = comparison.average
    ranked = average.verdict in (Verdict.FASTER, Verdict.SLOWER)
    return limited == {comparison.base, comparison.other} and not ranked


def _cost(result: ConfigurationResult) -> float | None:
    """CPU microseconds a request, in the mean of the load levels."""
    known = [mix.cost.server_cpu_us for mix in result.finished]
    values = [spread.mean for spread in known if spread is not None]
    return sum(values) / len(values) if values and len(values) == len(known) else None


def _difference(base: ConfigurationResult, other: ConfigurationResult, paired: bool) -> Improvement:
    return compare([base.cpu, other.cpu], [(0, 1)], paired=paired)[0][0]
