"""The data of the figures. Drawing them is in `charts`.

A figure holds at most `SERIES_PER_FIGURE` configurations, so that lines stay distinct in grey; more make more
figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from serverdyno.analysis.curve import Spread
from serverdyno.analysis.trust import GENERATOR_LIMITED_SHARE, LIMITS, limits
from serverdyno.plan.axis import Axis
from serverdyno.protocols.work import Terms
from serverdyno.report.figures.histograms import QUANTILE_NAMES
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.source import Source

SERIES_PER_FIGURE = 6


def _key_to_marks(panels: Sequence[Panel]) -> str:
    """What rules through points and hollow points mean, where they occur."""
    points = [point for panel in panels for line in panel.series for point in line.points]
    parts = []
    if any(point.high is not None for point in points):
        parts.append(" Rules: smallest to largest repetition.")
    if limited := list(dict.fromkeys(word for point in points for word in point.limited_by)):
        parts.append(f" Hollow or pale: {' or '.join(limited)}.")
    return "".join(parts)


def groups(results: Results) -> Iterator[tuple[str, Sequence[ConfigurationResult]]]:
    """The configurations in portions that one figure or table can hold, each with a suffix for its key."""
    configurations = results.configurations
    for start in range(0, len(configurations), SERIES_PER_FIGURE):
        suffix = f"-{start // SERIES_PER_FIGURE + 1}" if len(configurations) > SERIES_PER_FIGURE else ""
        yield suffix, configurations[start : start + SERIES_PER_FIGURE]


def peaks(results: Results, basis: str) -> list[Figure]:
    """Bars: the peak of each configuration with its range."""
    series = tuple(
        Series(result.name, style, (_spread_point(0, result.throughput.peak, result.peak),))
        for style, result in enumerate(results.configurations)
        if result.throughput is not None and result.peak is not None
    )
    if not series:
        return []
    unit = results.terms.unit
    panels = (Panel("", f"Peak, {unit}", series),)
    line = basis + _key_to_marks(panels)
    return [Figure("peaks", 0, "Peak throughput", line, "bars", _capital(unit), panels)]


def throughput(source: Source, results: Results, basis: str) -> list[Figure]:
    """Lines: throughput against the load level with the range, and the levels from which a mix is limited."""
    found = []
    for suffix, group in groups(results):
        panel = _throughput_panel(source, results.terms, group)
        if panel.series:
            found.append(_lines(results.axis, f"throughput{suffix}", "Throughput", basis, (panel,)))
    return found


def _lines(axis: Axis, key: str, figure: str, basis: str, panels: tuple[Panel, ...]) -> Figure:
    title = f"{figure} against {axis.column}"
    return Figure(key, 0, title, basis + _key_to_marks(panels), "lines", axis.title, panels)


def _capital(unit: str) -> str:
    return unit[0].upper() + unit[1:]


def _throughput_panel(source: Source, terms: Terms, group: Sequence[ConfigurationResult]) -> Panel:
    series = _series(group, lambda mix: _spread_point(mix.level, mix.throughput, mix))
    if not terms.throughput_counts_operations:
        # The ceiling and the bounds are of operations: they are no level of a figure in bits.
        return Panel("", terms.unit, series)
    highest = max((point.high or point.y for line in series for point in line.points), default=0.0)
    ceilings = [
        mix.operations_s.maximum / mix.cost.share_of_ceiling
        for result in group
        for mix in result.mixes
        if mix is not None and mix.cost.share_of_ceiling
    ]
    bounds = source.max_rate_per_s
    levels = [(GENERATOR_LIMITED_SHARE * ceiling, "80 % of the generator's ceiling") for ceiling in ceilings]
    levels = [min(levels)] if levels else []
    levels += [(bounds[result.name], f"Bound of {result.name}") for result in group if result.name in bounds]
    near = tuple((level, name) for level, name in levels if 0 < level < 1.5 * highest)
    return Panel("", _capital(terms.unit), series, levels=near)


def response_times(results: Results, basis: str) -> list[Figure]:
    """Four panels of lines: the percentiles against the load level."""
    found = []
    for suffix, group in groups(results):
        panels = tuple(
            Panel(name, "Response time, ms", _series(group, _percentile_point(place)), logarithmic=True)
            for place, name in enumerate(QUANTILE_NAMES)
        )
        drawn = tuple(panel for panel in panels if panel.series)
        if drawn:
            found.append(_lines(results.axis, f"response{suffix}", "Response time", basis, drawn))
    return found


def costs(results: Results, basis: str) -> list[Figure]:
    """Two panels of lines: CPU time per operation of server and generator."""
    found, operation = [], results.terms.operation
    for suffix, group in groups(results):
        panels = (
            Panel("Server", f"CPU µs/{operation}", _series(group, _cost_point(server=True))),
            Panel("Generator", f"CPU µs/{operation}", _series(group, _cost_point(server=False))),
        )
        drawn = tuple(panel for panel in panels if panel.series)
        if drawn:
            found.append(_lines(results.axis, f"cpu{suffix}", f"CPU per {operation}", basis, drawn))
    return found


def _series(
    group: Sequence[ConfigurationResult], point: Callable[[MixFigures], Point | None]
) -> tuple[Series, ...]:
    lines = []
    for style, result in enumerate(group):
        points = tuple(found for mix in result.mixes if mix is not None and (found := point(mix)) is not None)
        if points:
            lines.append(Series(result.name, style, points))
    return tuple(lines)


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
