"""SVG drawing: lines, texts, points of six shapes, and the ticks of axes.

Text is placed by an average letter width, which fits Liberation Sans, Arial and Helvetica; the three are equally wide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from serverdyno.report.views.palette import FONT, INK

SVG = "http://www.w3.org/2000/svg"
MOST_TICKS = 6
MARKER = 4.1
"""Half the width of a point in pixels."""
Place = tuple[float, float]


class Canvas:
    """An SVG element to draw on. Positions are in pixels from the top left."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.root = Element("svg", {"xmlns": SVG, "font-family": FONT, "font-size": "11"})

    def finished(self, height: float) -> Element:
        size = {"width": f"{self.width:g}", "height": f"{height:.0f}"}
        self.root.attrib |= {"viewBox": f"0 0 {self.width:g} {height:.0f}", **size}
        return self.root

    def line(self, start: Place, end: Place, colour: str, width: float = 1, dash: Sequence[int] = ()) -> None:
        ends = {"x1": _short(start[0]), "y1": _short(start[1]), "x2": _short(end[0]), "y2": _short(end[1])}
        SubElement(
            self.root, "line", {**ends, "stroke": colour, "stroke-width": f"{width:g}", **_dashes(dash)}
        )

    def path(self, places: Sequence[Place], colour: str, width: float, dash: Sequence[int] = ()) -> None:
        points = " ".join(f"{_short(x)},{_short(y)}" for x, y in places)
        look = {"fill": "none", "stroke": colour, "stroke-width": f"{width:g}", "stroke-linejoin": "round"}
        SubElement(self.root, "polyline", {"points": points, **look, **_dashes(dash)})

    def rectangle(self, corner: Place, size: Place, fill: str, *, stroke: str = "", words: str = "") -> None:
        """Draw a filled rectangle with `words` as its tooltip."""
        place = {"x": _short(corner[0]), "y": _short(corner[1])}
        extent = {"width": _short(max(0.0, size[0])), "height": _short(size[1])}
        frame = {"stroke": stroke, "stroke-width": "2"} if stroke else {}
        _titled(SubElement(self.root, "rect", {**place, **extent, "fill": fill, **frame}), words)

    def text(self, at: Place, words: str, colour: str = INK, anchor: str = "start", **more: str) -> None:
        place = {"x": _short(at[0]), "y": _short(at[1]), "fill": colour}
        named = {name.replace("_", "-"): value for name, value in more.items()}
        ends = {} if anchor == "start" else {"text-anchor": anchor}
        SubElement(self.root, "text", {**place, **ends, **named}).text = words

    def point(self, at: Place, shape: str, fill: str, stroke: str, words: str) -> None:
        """Draw a point with `words` as its tooltip."""
        look = {"fill": fill, "stroke": stroke, "stroke-width": "1.8"}
        if shape == "circle":
            place = {"cx": _short(at[0]), "cy": _short(at[1]), "r": f"{MARKER:g}"}
            _titled(SubElement(self.root, "circle", {**place, **look}), words)
            return
        corners = [(at[0] + x * MARKER, at[1] + y * MARKER) for x, y in OUTLINES[shape]]
        points = " ".join(f"{_short(x)},{_short(y)}" for x, y in corners)
        _titled(SubElement(self.root, "polygon", {"points": points, **look}), words)


OUTLINES: dict[str, tuple[Place, ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle-up": ((0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
    "diamond": ((0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)),
    "cross": (
        *((-0.4, -1.1), (0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4)),
        *((0.4, 1.1), (-0.4, 1.1), (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4)),
    ),
    "triangle-down": ((0, 1.2), (1.1, -0.8), (-1.1, -0.8)),
}
"""Corners of the shapes of points, in half widths."""


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _dashes(dash: Sequence[int]) -> dict[str, str]:
    solid = not dash or 0 in dash
    return {} if solid else {"stroke-dasharray": " ".join(f"{length}" for length in dash)}


def _titled(element: Element, words: str) -> None:
    if words:
        SubElement(element, "title").text = words


def round_step(span: float, most: int = MOST_TICKS) -> float:
    """Return the step of 1, 2 or 5 times a power of ten that divides a span into at most `most` parts."""
    if span <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(span / most))
    return next(lead * unit for lead in (1, 2, 5, 10) if span / (lead * unit) <= most + 1e-9)


def ticks(low: float, high: float, most: int = MOST_TICKS) -> list[float]:
    """Return round values from `low` to `high`."""
    step = round_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_words(values: Sequence[float], *, signed: bool = False) -> list[str]:
    """Return the labels of an axis, with as many decimals as its ticks need."""
    gaps = [abs(after - before) for before, after in itertools.pairwise(values)]
    smallest = min(gaps, default=1.0)
    decimals = max(0, -math.floor(math.log10(smallest) + 1e-9)) if smallest > 0 else 0
    words = [f"{value:{'+' if signed and value else ''},.{decimals}f}" for value in values]
    return [word.replace("-", "\u2212") for word in words]
