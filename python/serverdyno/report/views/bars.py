"""The bar chart of the answer as lines of text, for a terminal and for Markdown."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.model import Figure

MOST = 30
"""Length of the longest bar in characters."""
FEWEST = 8
"""Smallest room, in characters, for the longest bar next to the names; with less, names go above the bars."""
FULL, HOLLOW = "█", "░"


def rows(figure: Figure, longest: int = MOST) -> list[tuple[str, str]]:
    """Return the name of each bar, and the bar with its value, in the figure's order.

    Bars not limited by the server are hollow.
    """
    series = figure.panels[0].series
    highest = max(line.points[0].y for line in series) or 1.0
    found = []
    for line in series:
        point = line.points[0]
        letters = max(1, round(longest * point.y / highest))
        bar = (HOLLOW if point.limited_by else FULL) * letters
        found.append((line.name, f"{bar} {wording.significant(point.y)}"))
    return found


def lines(figure: Figure, width: int) -> list[str]:
    """Return one line per bar, at most `width` wide. If the names leave no room, each gets its own line."""
    names = max(len(line.name) for line in figure.panels[0].series)
    room = width - names - 14
    if room < FEWEST:
        longest = max(1, min(MOST, width - 14))
        return [text for name, bar in rows(figure, longest) for text in (name, f"  {bar}")]
    return [f"{name:<{names}}  {bar}" for name, bar in rows(figure, min(MOST, room))]
