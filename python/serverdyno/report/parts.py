"""Building blocks for tables, charts and sentences of several subjects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from serverdyno import wording
from serverdyno.analysis.curve import Spread
from serverdyno.analysis.trust import LIMITS, Mark, limits
from serverdyno.plan.axis import Axis
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results
from serverdyno.report.model import Cell, Column, Figure, Panel, Point, Section, Series

SERIES_PER_FIGURE = 6
"""Maximum number of lines per figure, so that they stay distinct in grey; more configurations get more figures."""
MOST_BARS = 12
"""Maximum number of bars of the answer: more do not fit on a first screen."""
MOST_LISTED = 4
"""Maximum number of names in one sentence."""
NAME = Column("Configuration", numeric=False)
TOO_FEW_SAMPLES = f"{wording.NOTHING} fewer than ten responses are slower than this percentile."
FAIRNESS = (
    "Fairness: 1 if all clients had the same throughput, 1/n if one of n clients had all of it (Jain, Chiu and "
    "Hawe, 1984)."
)
MOST_NAMED = 4
"""Maximum number of load levels in one sentence."""


def always(results: Results) -> bool:
    """Return whether there are timed levels, which all subjects except steps need."""
    return bool(results.source.head.levels)


def few(names: Sequence[str]) -> str:
    """Return all names if there are few; else the first two and the number of others."""
    if len(names) <= MOST_LISTED:
        return wording.listing(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"


def style_of(results: Results, name: str) -> int:
    """Return the style of a configuration: its index in the plan, the same in every figure."""
    return next(place for place, result in enumerate(results.configurations) if result.name == name)


def groups(results: Results) -> Iterator[tuple[str, Sequence[ConfigurationResult]]]:
    """Yield the configurations in groups that fit one figure or table, each with a suffix for its key."""
    configurations = results.configurations
    for start in range(0, len(configurations), SERIES_PER_FIGURE):
        suffix = f"-{start // SERIES_PER_FIGURE + 1}" if len(configurations) > SERIES_PER_FIGURE else ""
        yield suffix, configurations[start : start + SERIES_PER_FIGURE]


def lines_of(
    results: Results, group: Sequence[ConfigurationResult], point: Callable[[LevelFigures], Point | None]
) -> tuple[Series, ...]:
    """Return a line for each configuration that has a point at any load level."""
    lines = []
    for result in group:
        points = tuple(
            found for level in result.levels if level is not None and (found := point(level)) is not None
        )
        if points:
            lines.append(Series(result.name, style_of(results, result.name), points))
    return tuple(lines)


def level_column(axis: Axis) -> Column:
    return Column(*axis.heading)


def errors_cell(levels: Sequence[LevelFigures]) -> Cell:
    faults: Counter[str] = Counter()
    for level in levels:
        faults.update(level.faults)
    kinds = "; ".join(f"{count:,} {fault}" for fault, count in faults.most_common())
    return Cell(wording.whole(faults.total()), kinds)


def spread_cell(spread: Spread | None, written: Callable[[float], str] = wording.significant) -> Cell:
    if spread is None:
        return Cell(wording.NOTHING)
    return Cell(written(spread.mean), span(spread, written))


def span(spread: Spread, written: Callable[[float], str]) -> str:
    if spread.n < 2:
        return ""
    return f"{written(spread.minimum)}–{written(spread.maximum)}"  # noqa: RUF001


def key_to_marks(panels: Sequence[Panel]) -> str:
    """Return the explanation of error bars, hollow points and pale bars, if the panels have any."""
    points = [point for panel in panels for line in panel.series for point in line.points]
    parts = []
    if any(point.high is not None for point in points):
        parts.append(" Error bars: from the lowest to the highest repetition.")
    if limited := list(dict.fromkeys(word for point in points for word in point.limited_by)):
        parts.append(f" Hollow points and pale bars: {' or '.join(limited)}.")
    return "".join(parts)


def level_figures(
    results: Results,
    key: str,
    title: str,
    over: Over,
    panels: Callable[[Sequence[ConfigurationResult]], Iterable[Panel]],
) -> Iterator[Figure]:
    """Yield line charts against the load level, one per group of configurations; empty panels are left out."""
    for suffix, group in groups(results):
        if drawn := tuple(panel for panel in panels(group) if panel.series):
            under = basis(results, over) + key_to_marks(drawn)
            yield Figure(f"{key}{suffix}", 0, title, under, "lines", results.axis.title, drawn)


def capital(unit: str) -> str:
    return unit[0].upper() + unit[1:]


def limited(point: Point, marks: frozenset[Mark]) -> Point:
    return replace(point, limited_by=tuple(LIMITS[mark] for mark in limits(marks)))


def spread_point(x: float, spread: Spread, marks: frozenset[Mark] = frozenset()) -> Point:
    """Return the mean as a point, with its range if there are several repetitions."""
    low, high = (spread.minimum, spread.maximum) if spread.n > 1 else (None, None)
    return limited(Point(x, spread.mean, low, high), marks)


def named(points: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return the first load levels by name, and the number of others."""
    rest = len(points) - most
    return wording.listing([*points[:most], *([f"{rest:,} more"] if rest > 0 else [])])


def numbered(sections: Iterable[Section]) -> list[Section]:
    tables, figures = count(1), count(1)
    return [
        replace(
            section,
            tables=tuple(replace(table, number=next(tables)) for table in section.tables),
            figures=tuple(replace(figure, number=next(figures)) for figure in section.figures),
        )
        for section in sections
    ]
