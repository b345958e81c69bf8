"""The data of the figures. Drawing them is in `charts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import LIMITS
from serverdyno.report.basis import Over
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.parts import capital, key_to_marks, level_figures, lines_of, spread_point
from serverdyno.report.source import Source

MOST_PAIRS = 28


def peaks(results: Results, basis: str) -> list[Figure]:
    """Bars: the peak of each configuration with its range, highest first."""
    series = tuple(
        Series(result.name, style, (spread_point(0, result.throughput.peak, result.peak),))
        for style, result in enumerate(results.configurations)
        if result.throughput is not None and result.peak is not None
    )
    if not series:
        return []
    series = tuple(sorted(series, key=lambda bar: -bar.points[0].y))
    unit = results.terms.unit
    panels = (Panel("", f"Peak, {unit}", series),)
    line = basis + key_to_marks(panels)
    return [Figure("peaks", 0, "Peak throughput", line, "bars", capital(unit), panels)]


def throughput(source: Source, results: Results) -> Iterator[Figure]:
    """Yield throughput against the load level, and the levels from which a mix is limited."""
    title = f"Throughput against {results.axis.column}"
    panels = partial(_throughput_panel, source, results)
    yield from level_figures(results, "throughput", title, Over.MEAN, lambda group: [panels(group)])


def _throughput_panel(source: Source, results: Results, group: Sequence[ConfigurationResult]) -> Panel:
    terms = results.terms
    series = lines_of(results, group, lambda mix: spread_point(mix.level, mix.throughput, mix))
    if not terms.throughput_counts_operations:
        # The bounds are of operations: they are no level of a figure in bits.
        return Panel("", terms.unit, series)
    highest = max((point.high or point.y for line in series for point in line.points), default=0.0)
    bounds = source.max_rate_per_s
    levels = [(bounds[result.name], f"Bound of {result.name}") for result in group if result.name in bounds]
    near = tuple((level, name) for level, name in levels if 0 < level < 1.5 * highest)
    return Panel("", capital(terms.unit), series, levels=near)


def improvements(comparisons: Sequence[Comparison], basis: str) -> list[Figure]:
    """The difference of each pair in the overall average, with its interval; hollow where something else limited."""
    bars = []
    for comparison in comparisons[:MOST_PAIRS]:
        average = comparison.average
        if average.percent is None:
            continue
        words = tuple(dict.fromkeys(LIMITS[mark] for _, mark in comparison.limits))
        point = Point(0, average.percent, average.low_percent, average.high_percent, words)
        bars.append(Series(f"{comparison.other} over {comparison.base}", 0, (point,)))
    if not bars:
        return []
    bars.sort(key=lambda bar: -bar.points[0].y)
    panels = (Panel("", "", tuple(bars)),)
    line = f"{basis} Rules: 95 % intervals." + (
        " Hollow: the load generator or the plan limited a side."
        if any(bar.points[0].limited_by for bar in bars)
        else ""
    )
    title = "Differences in the average over all load levels"
    return [Figure("improvements", 0, title, line, "effects", "Difference, %", panels)]
