"""The chart of the answer: one bar for each configuration, best first, of the figure that the verdict is about."""

from __future__ import annotations

from serverdyno.analysis.trust import LIMITS
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.figures.sides import limits_of_average
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.parts import MOST_BARS


def figures(results: Results, basis: str) -> tuple[Figure, ...]:
    """Bars of the overall average; nothing where there are no figures."""
    bars = [
        Series(result.name, style, (_point(result),))
        for style, result in enumerate(results.configurations)
        if result.throughput is not None and result.throughput.overall_average is not None
    ]
    if len(bars) < 2:
        return ()
    bars.sort(key=lambda bar: -bar.points[0].y)
    title = "Average throughput over all load levels, and lines from the lowest to the highest repetition"
    if len(bars) > MOST_BARS:
        title += f", the first {MOST_BARS} of {len(bars)}"
    unit = results.terms.unit
    panel = Panel("", unit, tuple(bars[:MOST_BARS]))
    hollow = any(bar.points[0].limited_by for bar in bars)
    line = basis + (" Hollow: something other than the server held it back." if hollow else "")
    return (Figure("overview", 0, title, line, "bars", unit[0].upper() + unit[1:], (panel,)),)


def _point(result: ConfigurationResult) -> Point:
    assert result.throughput is not None  # the caller looked
    average = result.throughput.overall_average
    assert average is not None
    words = tuple(LIMITS[mark] for mark in limits_of_average(result))
    if average.n < 2:
        return Point(0, average.mean, limited_by=words)
    return Point(0, average.mean, average.minimum, average.maximum, words)
