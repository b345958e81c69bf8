"""Line charts: panels with each line named at its end, labelled points, and suitable scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from serverdyno import wording
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.views.canvas import Canvas, round_step, tick_words, ticks
from serverdyno.report.views.palette import GRID, INK, PAPER, QUIET, SHADE, colour, dash, shape

WIDTH = 784.0
HEIGHT, PANEL_HEIGHT = 300.0, 190.0
GAP, HEAD, FOOT, PADDING = 26.0, 24.0, 40.0, 6.0
"""Pixels between panels, above each plot, below each plot, and from the first and last point to the plot's edges."""
INSET = 14.0
LABEL_SIZE = 12.0
CHARACTER_WIDTH = 6.9
"""Average width of a letter, in pixels, at the font size of labels."""
WIDE_CHARACTER = 8.4
"""The same of a bold letter in DejaVu Sans, the widest font that may stand in for ours."""
MOST_LABEL, MOST_PANEL_LABEL = 204.0, 112.0
"""Pixels for a line's name in a single panel, and in one of several panels; longer names are cut in the middle."""
MOST_TICKS = 16
CROWDED_SHARE = 0.4
"""Largest gap between load levels, as a share of a linear axis. With a larger gap, the axis is logarithmic."""
LEVEL_DASH = (3, 3)

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Axis:
    """The scale of an axis: pixels of a value, the ticks, and the labels of the ticks."""

    at: Scale
    ticks: Sequence[float]
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class Frame:
    """Position of a plot in pixels."""

    left: float
    top: float
    right: float
    bottom: float


def svg(figure: Figure) -> Element:
    """Draw the figure with two panels per row."""
    canvas = Canvas(WIDTH)
    alone = len(figure.panels) == 1
    longest = max((len(line.name) for panel in figure.panels for line in panel.series), default=0)
    names = min(longest * WIDE_CHARACTER, MOST_LABEL if alone else MOST_PANEL_LABEL) + 14
    height = HEIGHT if alone else PANEL_HEIGHT
    across = WIDTH if alone else (WIDTH - GAP) / 2
    shared = _shared(figure)
    for place, panel in enumerate(figure.panels):
        left, top = (place % 2) * (across + GAP), (place // 2) * (height + HEAD + FOOT + PADDING)
        y, margin = _y_axis(panel, shared, top + HEAD, height)
        frame = Frame(left + margin, top + HEAD, left + across - names, top + HEAD + height)
        _plot(canvas, figure, panel, frame, y)
    rows = -(-len(figure.panels) // 2) if not alone else 1
    return canvas.finished(rows * (height + HEAD + FOOT + PADDING))


def _shared(figure: Figure) -> tuple[float, float] | None:
    """Return one range for panels of the same unit, so that they can be compared by eye."""
    if len({panel.y_title for panel in figure.panels}) > 1 or len(figure.panels) < 2:
        return None
    points = [point for panel in figure.panels for line in panel.series for point in line.points]
    return _range(points) if points else None


def _range(points: Sequence[Point]) -> tuple[float, float]:
    low = min(point.y if point.low is None else point.low for point in points)
    return low, max(point.y if point.high is None else point.high for point in points)


def _y_axis(
    panel: Panel, shared: tuple[float, float] | None, top: float, height: float
) -> tuple[Axis, float]:
    """Return the axis of values, and the width of its labels."""
    points = [point for line in panel.series for point in line.points]
    low, high = shared or _range(points)
    high = max(high, *(level for level, _ in panel.levels), 0.0) if panel.levels else high
    axis = (_logarithmic if panel.logarithmic else _linear)(low, high, top, height)
    margin = max(len(word) for word in axis.words) * (CHARACTER_WIDTH - 0.6) + 26
    return axis, margin


def _linear(low: float, high: float, top: float, height: float) -> Axis:
    """Return an axis from zero to a round value above the data."""
    bottom = min(0.0, low)
    step = round_step((high - bottom) or 1.0)
    last = math.ceil(high / step - 1e-9) * step or step
    first = math.floor(bottom / step + 1e-9) * step
    written = ticks(first, last)
    return Axis(
        lambda value: top + height * (1 - (value - first) / (last - first)), written, tick_words(written)
    )


def _logarithmic(low: float, high: float, top: float, height: float) -> Axis:
    """Return an axis between the 1-2-5 values around the data, with ticks only at 1-2-5 values."""
    steps = [lead * 10.0**power for power in range(-6, 10) for lead in (1, 2, 5)]
    first = max((step for step in steps if step <= low), default=steps[0])
    last = max(min((step for step in steps if step >= high), default=steps[-1]), first * 2)
    written = [step for step in steps if first <= step <= last]
    if len(written) > 8:
        written = [step for step in written if f"{step:e}".startswith("1")]
    span = math.log(last / first)
    return Axis(
        lambda value: top + height * (1 - math.log(max(value, first) / first) / span),
        written,
        [f"{value:,.6f}".rstrip("0").rstrip(".") for value in written],
    )


def _x_axis(figure: Figure, panel: Panel, frame: Frame) -> Axis:
    values = sorted({point.x for line in panel.series for point in line.points})
    if figure.free_x:
        step = round_step(values[-1] or 1.0)
        last = math.ceil(values[-1] / step - 1e-9) * step or step
        written = ticks(0.0, last)
        return Axis(
            lambda value: frame.left + (frame.right - frame.left) * value / last, written, tick_words(written)
        )
    crowded = not panel.plain and _is_crowded(values)
    first, last = values[0], values[-1]
    inset = 0.0 if panel.plain else INSET
    width = frame.right - frame.left - 2 * inset

    def at(value: float) -> float:
        if last == first:
            return frame.left + inset + width / 2
        share = (
            math.log(value / first) / math.log(last / first) if crowded else (value - first) / (last - first)
        )
        return frame.left + inset + width * share

    if panel.plain:
        seconds = ticks(0.0, last)
        return Axis(at, [value for value in seconds if value >= first], tick_words(seconds))
    written = _kept(values, at)
    return Axis(at, written, [f"{value:,.0f}" for value in written])


def _is_crowded(values: Sequence[float]) -> bool:
    """Return whether a linear axis would make the lower load levels overlap."""
    if len(values) < 4 or values[0] <= 0:
        return False
    widest = max(after - before for before, after in pairwise(values))
    return widest > CROWDED_SHARE * (values[-1] - values[0]) and values[-1] / values[0] >= 8


def _kept(values: Sequence[float], at: Scale) -> list[float]:
    """Return the load levels to label, thinned so that labels do not touch, with the first and the last one."""
    widest = max(len(f"{value:,.0f}") for value in values) * CHARACTER_WIDTH + 12
    apart = max(widest, (at(values[-1]) - at(values[0])) / MOST_TICKS)
    kept: list[float] = []
    for value in reversed(values):
        if not kept or at(kept[-1]) - at(value) >= apart:
            kept.append(value)
    if len(kept) > 1:
        kept[-1] = values[0]
    return kept[::-1]


def _plot(canvas: Canvas, figure: Figure, panel: Panel, frame: Frame, y: Axis) -> None:
    x = _x_axis(figure, panel, frame)
    for start, end in panel.shaded:
        left, right = (min(max(x.at(value), frame.left), frame.right) for value in (start, end))
        canvas.rectangle((left, frame.top), (right - left, frame.bottom - frame.top), SHADE)
    _axes(canvas, figure, panel, frame, (x, y))
    for level, name in panel.levels:
        canvas.line((frame.left, y.at(level)), (frame.right, y.at(level)), QUIET, 1, LEVEL_DASH)
        canvas.text((frame.left + 4, y.at(level) - 4), name, QUIET)
    for line in panel.series:
        _line(canvas, figure, panel, line, (x, y))
    _names(canvas, panel, frame, y)


def _axes(canvas: Canvas, figure: Figure, panel: Panel, frame: Frame, axes: tuple[Axis, Axis]) -> None:
    x, y = axes
    for value, word in zip(y.ticks, y.words, strict=True):
        canvas.line((frame.left, y.at(value)), (frame.right, y.at(value)), GRID)
        canvas.text((frame.left - 6, y.at(value) + 4), word, INK, "end")
    canvas.line((frame.left, frame.bottom), (frame.right, frame.bottom), INK)
    for value, word in zip(x.ticks, x.words[len(x.words) - len(x.ticks) :], strict=True):
        canvas.line((x.at(value), frame.bottom), (x.at(value), frame.bottom + 4), INK)
        canvas.text((x.at(value), frame.bottom + 16), word, INK, "middle")
    middle = (frame.left + frame.right) / 2
    canvas.text((middle, frame.bottom + 32), figure.x_title, INK, "middle", font_size="12")
    heading = f"{panel.title}, {panel.y_title}" if panel.title else panel.y_title
    canvas.text(
        (frame.left - 6 if not panel.title else frame.left, frame.top - 10),
        heading,
        font_size="12",
        font_weight="bold",
    )


def _line(canvas: Canvas, figure: Figure, panel: Panel, line: Series, axes: tuple[Axis, Axis]) -> None:
    x, y = axes
    own = colour(line.style)
    places = [(x.at(point.x), y.at(point.y)) for point in line.points]
    canvas.path(places, own, 1.2 if panel.plain else 2, dash(line.style))
    if panel.plain:
        return
    for point, place in zip(line.points, places, strict=True):
        if point.low is not None and point.high is not None:
            canvas.line((place[0], y.at(point.low)), (place[0], y.at(point.high)), own, 1.3)
        fill = PAPER if point.limited_by else own
        canvas.point(place, shape(line.style), fill, own, tooltip(line, point, figure, panel))


def tooltip(line: Series, point: Point, figure: Figure, panel: Panel) -> str:
    """Return `nginx: 3,875 requests/s (3,831 to 3,908) at 24 clients, generator-limited`."""
    span = (
        ""
        if point.low is None or point.high is None
        else f" ({wording.significant(point.low)} to {wording.significant(point.high)})"
    )
    limited = f", {', '.join(point.limited_by)}" if point.limited_by else ""
    at = point.label or f"{wording.significant(point.x)} {figure.x_title.lower()}"
    what = f"{panel.title}: " if panel.title else ""
    return f"{line.name}: {what}{wording.significant(point.y)} {panel.y_title}{span} at {at}{limited}"


def _names(canvas: Canvas, panel: Panel, frame: Frame, y: Axis) -> None:
    """Draw the name of each line at the right edge, at the height of its last point; move overlapping names apart."""
    ends = sorted(((y.at(line.points[-1].y), line) for line in panel.series), key=lambda end: end[0])
    places = spread([at for at, _ in ends], LABEL_SIZE + 2, (frame.top, frame.bottom))
    across = MOST_PANEL_LABEL if frame.bottom - frame.top < HEIGHT else MOST_LABEL
    names = shortened([line.name for _, line in ends], int(across / CHARACTER_WIDTH))
    for place, (_, line), words in zip(places, ends, names, strict=True):
        look = {"font_size": f"{LABEL_SIZE:g}", "font_weight": "bold"}
        if len(words) * WIDE_CHARACTER > across:  # a wide font must not push its end out of the drawing
            look |= {"textLength": f"{len(words) * across / int(across / CHARACTER_WIDTH):.0f}"}
            look |= {"lengthAdjust": "spacingAndGlyphs"}
        canvas.text((frame.right + 9, place + 4), words, colour(line.style), **look)


def spread(places: Sequence[float], gap: float, ends: tuple[float, float]) -> list[float]:
    """Move sorted positions at least `gap` apart, as little as possible, between two ends."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap if moved else ends[0]))
    limit = ends[1]
    for index in range(len(moved) - 1, -1, -1):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - gap
    return moved


def shortened(names: Sequence[str], letters: int) -> list[str]:
    """Cut names to at most `letters` characters, all at one position.

    The position is the nearest to the middle at which different names stay different, if there is one.
    """
    middle = (letters - 1) // 2
    for head in sorted(range(letters), key=lambda place: abs(place - middle)):
        found = [_cut(name, letters, head) for name in names]
        if len(set(found)) == len(set(names)):
            return found
    return [_cut(name, letters, middle) for name in names]


def _cut(name: str, letters: int, head: int) -> str:
    """Shorten a name to `letters` characters: its first `head` characters, an ellipsis, and its last characters."""
    if len(name) <= letters:
        return name
    return f"{name[:head]}…{name[len(name) - (letters - 1 - head) :]}"
