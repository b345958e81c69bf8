"""The data of the figures. Drawing them is in `charts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from serverdyno import wording
from serverdyno.analysis.curve import Spread
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import LIMITS, limits
from serverdyno.plan.axis import Axis
from serverdyno.report.figures.histograms import QUANTILE_NAMES
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.parts import groups, lines_of, style_of
from serverdyno.report.source import Source

MOST_KINDS = 6
MOST_PAIRS = 28


def _key_to_marks(panels: Sequence[Panel]) -> str:
    """What rules through points and hollow points mean, where they occur."""
    points = [point for panel in panels for line in panel.series for point in line.points]
    parts = []
    if any(point.high is not None for point in points):
        parts.append(" Rules: smallest to largest repetition.")
    if limited := list(dict.fromkeys(word for point in points for word in point.limited_by)):
        parts.append(f" Hollow or pale: {' or '.join(limited)}.")
    return "".join(parts)


def peaks(results: Results, basis: str) -> list[Figure]:
    """Bars: the peak of each configuration with its range, highest first."""
    series = tuple(
        Series(result.name, style, (_spread_point(0, result.throughput.peak, result.peak),))
        for style, result in enumerate(results.configurations)
        if result.throughput is not None and result.peak is not None
    )
    if not series:
        return []
    series = tuple(sorted(series, key=lambda bar: -bar.points[0].y))
    unit = results.terms.unit
    panels = (Panel("", f"Peak, {unit}", series),)
    line = basis + _key_to_marks(panels)
    return [Figure("peaks", 0, "Peak throughput", line, "bars", _capital(unit), panels)]


def throughput(source: Source, results: Results, basis: str) -> list[Figure]:
    """Lines: throughput against the load level with the range, and the levels from which a mix is limited."""
    found = []
    for suffix, group in groups(results):
        panel = _throughput_panel(source, results, group)
        if panel.series:
            found.append(_lines(results.axis, f"throughput{suffix}", "Throughput", basis, (panel,)))
    return found


def _lines(axis: Axis, key: str, figure: str, basis: str, panels: tuple[Panel, ...]) -> Figure:
    title = f"{figure} against {axis.column}"
    return Figure(key, 0, title, basis + _key_to_marks(panels), "lines", axis.title, panels)


def _capital(unit: str) -> str:
    return unit[0].upper() + unit[1:]


def _throughput_panel(source: Source, results: Results, group: Sequence[ConfigurationResult]) -> Panel:
    terms = results.terms
    series = lines_of(results, group, lambda mix: _spread_point(mix.level, mix.throughput, mix))
    if not terms.throughput_counts_operations:
        # The bounds are of operations: they are no level of a figure in bits.
        return Panel("", terms.unit, series)
    highest = max((point.high or point.y for line in series for point in line.points), default=0.0)
    bounds = source.max_rate_per_s
    levels = [(bounds[result.name], f"Bound of {result.name}") for result in group if result.name in bounds]
    near = tuple((level, name) for level, name in levels if 0 < level < 1.5 * highest)
    return Panel("", _capital(terms.unit), series, levels=near)


def response_times(results: Results, basis: str) -> list[Figure]:
    """Panels of lines: the percentiles against the load level.

    With a client cache the median is mostly the cache's own time, not the server's, and isn't drawn.
    """
    found = []
    for suffix, group in groups(results):
        panels = tuple(
            Panel(
                name,
                "Response time, ms",
                lines_of(results, group, _percentile_point(place)),
                logarithmic=True,
            )
            for place, name in enumerate(QUANTILE_NAMES)
            if not (results.terms.below_cache and name == "p50")
        )
        drawn = tuple(panel for panel in panels if panel.series)
        if drawn:
            found.append(_lines(results.axis, f"response{suffix}", "Response time", basis, drawn))
    return found


def latency(results: Results, basis: str) -> list[Figure]:
    """Lines: the tail of the response time against the throughput it comes with, load level by load level."""
    found, place = [], QUANTILE_NAMES.index("p99")
    for suffix, group in groups(results):
        series = []
        for result in group:
            points = tuple(
                replace(_limited(Point(mix.throughput.mean, tail), mix), label=_level_words(results, mix))
                for mix in result.finished
                if mix.response and (tail := mix.response.percentiles_ms[place])
            )
            if points:
                series.append(Series(result.name, style_of(results, result.name), points))
        if series:
            panels = (Panel("", "p99, ms", tuple(series), logarithmic=True),)
            title = "Response time p99 against throughput, from the lowest load level to the highest"
            line = basis + _key_to_marks(panels)
            unit = _capital(results.terms.unit)
            found.append(Figure(f"latency{suffix}", 0, title, line, "lines", unit, panels, free_x=True))
    return found


def _level_words(results: Results, mix: MixFigures) -> str:
    return wording.plural(mix.level, results.axis.noun)


def busy(results: Results, basis: str) -> list[Figure]:
    """Panels of lines: how busy server and generator were, and what a CPU-second of the server bought."""
    found = []
    per_s = f"{results.terms.operations} a CPU-second"
    for suffix, group in groups(results):
        panels = (
            Panel("Server", "CPUs busy", lines_of(results, group, _server_busy)),
            Panel("Generator", "CPUs busy", lines_of(results, group, _generator_busy)),
            Panel("Server's efficiency", per_s, lines_of(results, group, _per_cpu_second)),
        )
        drawn = tuple(panel for panel in panels if panel.series)
        if drawn:
            found.append(_lines(results.axis, f"busy{suffix}", "CPU and efficiency", basis, drawn))
    return found


def _server_busy(mix: MixFigures) -> Point | None:
    busy_cpus = mix.cost.server_cpus_busy
    return None if busy_cpus is None else _limited(Point(mix.level, busy_cpus), mix)


def _generator_busy(mix: MixFigures) -> Point | None:
    return _limited(Point(mix.level, mix.cost.generator_cpu_share * mix.cost.generator_threads), mix)


def _per_cpu_second(mix: MixFigures) -> Point | None:
    cost = mix.cost.server_cpu_us
    return None if cost is None or not cost.mean else _limited(Point(mix.level, 1e6 / cost.mean), mix)


def _limited(point: Point, mix: MixFigures) -> Point:
    return replace(point, limited_by=tuple(LIMITS[mark] for mark in limits(mix.marks)))


def errors(results: Results, basis: str) -> list[Figure]:
    """A panel of lines for each kind of error; nothing where there was none."""
    kinds = list(dict.fromkeys(kind for mix in results.mixes for kind in mix.faults))
    found = []
    for suffix, group in groups(results):
        panels = tuple(
            Panel(kind, "Errors", lines_of(results, group, _errors_of(kind))) for kind in kinds[:MOST_KINDS]
        )
        if panels and any(mix.faults for result in group for mix in result.finished):
            title = "Errors by kind"
            found.append(_lines(results.axis, f"errors{suffix}", title, basis, panels))
    return found


def _errors_of(kind: str) -> Callable[[MixFigures], Point | None]:
    return lambda mix: Point(mix.level, mix.faults.get(kind, 0))


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


def costs(results: Results, basis: str) -> list[Figure]:
    """Two panels of lines: CPU time per operation of server and generator."""
    found, operation = [], results.terms.operation
    for suffix, group in groups(results):
        panels = (
            Panel("Server", f"CPU µs/{operation}", lines_of(results, group, _cost_point(server=True))),
            Panel("Generator", f"CPU µs/{operation}", lines_of(results, group, _cost_point(server=False))),
        )
        drawn = tuple(panel for panel in panels if panel.series)
        if drawn:
            found.append(_lines(results.axis, f"cpu{suffix}", f"CPU per {operation}", basis, drawn))
    return found


def _spread_point(x: float, spread: Spread, mix: MixFigures) -> Point:
    limited_by = tuple(LIMITS[mark] for mark in limits(mix.marks))
    if spread.n < 2:
        return Point(x, spread.mean, limited_by=limited_by)
    return Point(x, spread.mean, spread.minimum, spread.maximum, limited_by)


def _percentile_point(place: int) -> Callable[[MixFigures], Point | None]:
    def point(mix: MixFigures) -> Point | None:
        value = mix.response.percentiles_ms[place] if mix.response else None
        if not value:
            return None
        runs = [times.percentiles_ms[place] for times in mix.response_of_runs]
        known = [run for run in runs if run]
        if len(known) < 2 or len(known) < len(runs):
            return Point(mix.level, value)
        return Point(mix.level, value, min(known), max(known))

    return point


def _cost_point(*, server: bool) -> Callable[[MixFigures], Point | None]:
    def point(mix: MixFigures) -> Point | None:
        spread = mix.cost.server_cpu_us if server else mix.cost.generator_cpu_us
        return None if spread is None else _spread_point(mix.level, spread, mix)

    return point
