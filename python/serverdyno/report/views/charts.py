"""Charts as SVG: bars and effects. `lines` draws lines, and `diagram` the testbed.

A drawing has no heading; the page sets one, and `annotate.alone` adds one to files. This code uses no chart library,
because that takes a second of CPU time per chart, which is too slow for a quick first report.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from serverdyno import wording
from serverdyno.report.model import Figure, Series
from serverdyno.report.views import annotate, diagram, lines
from serverdyno.report.views.canvas import Canvas, tick_words, ticks
from serverdyno.report.views.lines import CHARACTER_WIDTH, WIDTH, shortened
from serverdyno.report.views.palette import COLOURS, GRID, INK, PAPER, QUIET, colour

MOST_NAME = 300.0
"""Maximum width of the names of bars, in pixels."""
NARROW = 520.0
"""Width of a chart of bars with short names, so that it can be read on a phone."""
ROW, BAR, FOOT = 32.0, 18.0, 40.0
SHORT_ROW = 24.0
"""Height of a row in a chart of many bars."""


def svg(figure: Figure) -> str:
    """Return a figure as SVG text, without a heading."""
    draw = {"bars": _bars, "effects": _effects, "lines": lines.svg, "diagram": diagram.svg}[figure.kind]
    return annotate.annotated(draw(figure), figure)


def _names(series: tuple[Series, ...]) -> tuple[list[str], float]:
    """Return the label of each row, and the width of the longest in pixels."""
    names = shortened([line.name for line in series], int(MOST_NAME / CHARACTER_WIDTH))
    return names, max(len(name) for name in names) * CHARACTER_WIDTH + 12


def _bars(figure: Figure) -> Element:
    if len(figure.panels) > 1:
        return _bars_by_panel(figure)
    series = figure.panels[0].series
    names, left = _names(series)
    labels = [_label(line) for line in series]
    beside = max(len(label) for label in labels) * CHARACTER_WIDTH + 16
    width = NARROW if left + beside < NARROW / 2 else WIDTH
    canvas, bottom = Canvas(width), ROW * len(series)
    most = max(_high(line) for line in series) or 1.0
    room = max((width - left) / 3, width - left - beside)
    _axis(canvas, figure, (left, left + room, bottom), (0.0, most))
    for place, (line, name, label) in enumerate(zip(series, names, labels, strict=True)):
        _bar(canvas, line, (name, label), (left, room / most), place * ROW + ROW / 2)
    return canvas.finished(bottom + FOOT)


def _bars_by_panel(figure: Figure) -> Element:
    """Draw the panels one below another, each with its title and its own scale; values are next to the bars."""
    rows = [line for panel in figure.panels for line in panel.series]
    names, left = _names(tuple(rows))
    named = dict(zip((line.name for line in rows), names, strict=True))
    labels = [_span_label(line, panel.y_title) for panel in figure.panels for line in panel.series]
    room = max((WIDTH - left) / 3, WIDTH - left - max(len(label) for label in labels) * CHARACTER_WIDTH - 16)
    canvas, top = Canvas(WIDTH), 0.0
    for panel in figure.panels:
        [title] = shortened([panel.title], int(WIDTH / CHARACTER_WIDTH))
        canvas.text((0, top + SHORT_ROW - 8), title, INK, font_size="12", font_weight="bold")
        most = max(_high(line) for line in panel.series) or 1.0
        for place, line in enumerate(panel.series, start=1):
            words = (named[line.name], _span_label(line, panel.y_title))
            _bar(canvas, line, words, (left, room / most), top + (place + 0.5) * SHORT_ROW - 4)
        top += (len(panel.series) + 1) * SHORT_ROW
    return canvas.finished(top + 4)


def _bar(
    canvas: Canvas, line: Series, words: tuple[str, str], scale: tuple[float, float], middle: float
) -> None:
    """Draw one bar with its range. `words`: its name and value. `scale`: the position of zero, and pixels per unit."""
    (name, label), (left, unit) = words, scale
    point, own = line.points[0], colour(line.style)
    end, high = left + unit * point.y, left + unit * _high(line)
    fill = PAPER if point.limited_by else own
    canvas.rectangle(
        (left, middle - BAR / 2), (end - left, BAR), fill, stroke=own, words=f"{line.name}: {label}"
    )
    if point.low is not None:
        canvas.line((left + unit * point.low, middle), (high, middle), INK, 1.6)
    canvas.text((left - 8, middle + 4), name, INK, "end", font_size="12")
    canvas.text((high + 8, middle + 4), label, INK, font_size="12")


def _span_label(line: Series, unit: str) -> str:
    point = line.points[0]
    low, high = (wording.significant(value) for value in (point.low, point.high))
    span = f" ({low} to {high})" if point.low is not None and low != high else ""
    return f"{wording.significant(point.y)} {unit}{span}"


def _label(line: Series) -> str:
    point = line.points[0]
    limited = f" ({', '.join(point.limited_by)})" if point.limited_by else ""
    return f"{wording.significant(point.y)}{limited}"


def _high(line: Series) -> float:
    point = line.points[0]
    return point.y if point.high is None else point.high


def _axis(
    canvas: Canvas,
    figure: Figure,
    frame: tuple[float, float, float],
    ends: tuple[float, float],
    *,
    signed: bool = False,
) -> None:
    """Draw the value axis below the rows, with its grid lines. `frame`: left, right, bottom."""
    left, right, bottom = frame
    written = ticks(*ends)
    for value, word in zip(written, tick_words(written, signed=signed), strict=True):
        at = left + (right - left) * (value - ends[0]) / (ends[1] - ends[0])
        canvas.line((at, 0), (at, bottom), GRID)
        canvas.text((at, bottom + 15), word, INK, "middle")
    canvas.text(((left + right) / 2, bottom + 32), figure.x_title, INK, "middle", font_size="12")


def _effects(figure: Figure) -> Element:
    """Draw points with their intervals, one below another, and a vertical line at zero."""
    series = figure.panels[0].series
    names, left = _names(series)
    canvas, bottom = Canvas(WIDTH), ROW * len(series)
    points = [line.points[0] for line in series]
    low = min(0.0, *(point.y if point.low is None else point.low for point in points))
    high = max(0.0, *(_high(line) for line in series))
    right = WIDTH - 70
    low, high = (low, high) if high > low else (low, low + 1.0)

    def at(value: float) -> float:
        return left + 10 + (right - left - 10) * (value - low) / (high - low)

    _axis(canvas, figure, (left + 10, right, bottom), (low, high), signed=True)
    canvas.line((at(0), 0), (at(0), bottom), INK, 1.2)
    for place, (line, point, name) in enumerate(zip(series, points, names, strict=True)):
        middle = place * ROW + ROW / 2
        if point.low is not None:
            canvas.line((at(point.low), middle), (at(_high(line)), middle), COLOURS[0], 2)
        span = "" if point.low is None else f" ({wording.change_span(point.low, point.high)})"
        words = f"{line.name}: {wording.change(point.y)}{span}"
        fill = PAPER if point.limited_by else COLOURS[0]
        canvas.point((at(point.y), middle), "circle", fill, COLOURS[0], words)
        canvas.text((left - 8, middle + 4), name, INK, "end", font_size="12")
        canvas.text((at(max(point.y, _high(line))) + 9, middle + 4), wording.change(point.y), QUIET)
    return canvas.finished(bottom + FOOT)
