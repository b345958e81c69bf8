"""The alternative text of charts, for readers who can't see them. It contains the same values as the chart."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.model import Figure, Panel, Series

MOST_SERIES = 8


def text(figure: Figure) -> str:
    """Return one or two sentences per panel."""
    if figure.kind == "diagram":
        assert figure.testbed is not None
        servers = wording.listing([link.server.title for link in figure.testbed.links])
        return f"{figure.title}. The load generator reaches {servers}."
    parts = [_panel(figure, panel) for panel in figure.panels]
    return f"{figure.title}. {' '.join(part for part in parts if part)}"


def _panel(figure: Figure, panel: Panel) -> str:
    if not panel.series:
        return ""
    told = [
        _bar(line) if figure.kind in ("bars", "effects") else _line(line, figure) for line in panel.series
    ]
    more = len(told) - MOST_SERIES
    rest = [f"and {more} more"] if more > 0 else []
    title = f"{panel.title}: " if panel.title else ""
    unit = "" if figure.kind == "effects" or not panel.y_title else f" ({panel.y_title})"
    return f"{title}{'; '.join([*told[:MOST_SERIES], *rest])}{unit}."


def _bar(line: Series) -> str:
    point = line.points[0]
    span = (
        ""
        if point.low is None or point.high is None
        else f" ({wording.significant(point.low)} to {wording.significant(point.high)})"
    )
    limited = f", {', '.join(point.limited_by)}" if point.limited_by else ""
    return f"{line.name} {wording.significant(point.y)}{span}{limited}"


def _line(line: Series, figure: Figure) -> str:
    first, last = line.points[0], line.points[-1]
    highest = max(line.points, key=lambda point: point.y)
    x = figure.x_title.lower()
    if len(line.points) == 1:
        return f"{line.name} {wording.significant(first.y)} at {wording.significant(first.x)} {x}"
    return (
        f"{line.name} from {wording.significant(first.y)} at {wording.significant(first.x)} to "
        f"{wording.significant(last.y)} at {wording.significant(last.x)} {x}, highest "
        f"{wording.significant(highest.y)} at {wording.significant(highest.x)}"
    )
