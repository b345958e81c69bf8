"""The chart of the answer as lines of text, for a terminal and for Markdown."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.model import Figure

MOST = 30
"""Letters of the longest bar."""
FEWEST = 8
"""Letters of the longest bar, below which names stand above the bars."""
FULL, HOLLOW = "█", "░"


def rows(figure: Figure, longest: int = MOST) -> list[tuple[str, str]]:
    """The name of each bar, and the bar with its value; best first. What something else held back is hollow."""
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
    """One line a bar, not wider than `width`; a name that leaves no room has a line of its own."""
    names = max(len(line.name) for line in figure.panels[0].series)
    room = width - names - 14
    if room < FEWEST:
        longest = max(1, min(MOST, width - 14))
        return [text for name, bar in rows(figure, longest) for text in (name, f"  {bar}")]
    return [f"{name:<{names}}  {bar}" for name, bar in rows(figure, min(MOST, room))]
