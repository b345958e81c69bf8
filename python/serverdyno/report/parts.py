"""What the tables, charts and sentences of several subjects are put together from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from serverdyno import wording
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Point, Series

SERIES_PER_FIGURE = 6
"""More configurations make more figures, so that lines stay distinct in grey."""
MOST_BARS = 12
"""Bars of the answer: more don't fit on a first screen."""
MOST_LISTED = 4
"""Names in one sentence."""


def few(names: Sequence[str]) -> str:
    """Return all of a few names; of more, the first two and how many others there are."""
    if len(names) <= MOST_LISTED:
        return wording.listing(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"


def style_of(results: Results, name: str) -> int:
    """Return the style of a configuration: its place in the plan, the same in every figure."""
    return next(place for place, result in enumerate(results.configurations) if result.name == name)


def groups(results: Results) -> Iterator[tuple[str, Sequence[ConfigurationResult]]]:
    """Yield the configurations in portions that one figure or table can hold, each with a suffix for its key."""
    configurations = results.configurations
    for start in range(0, len(configurations), SERIES_PER_FIGURE):
        suffix = f"-{start // SERIES_PER_FIGURE + 1}" if len(configurations) > SERIES_PER_FIGURE else ""
        yield suffix, configurations[start : start + SERIES_PER_FIGURE]


def lines_of(
    results: Results, group: Sequence[ConfigurationResult], point: Callable[[MixFigures], Point | None]
) -> tuple[Series, ...]:
    """Return a line for each configuration that has a point at any load level."""
    lines = []
    for result in group:
        points = tuple(found for mix in result.mixes if mix is not None and (found := point(mix)) is not None)
        if points:
            lines.append(Series(result.name, style_of(results, result.name), points))
    return tuple(lines)
