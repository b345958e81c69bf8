"""Draw a testbed as SVG: generators on the left, a line per network, servers on the right.

Sizes follow from the texts, so that nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from serverdyno.report.model import Box, Figure, Link

WIDTH = 784
MARGIN, PADDING, LINE, GAP = 16.0, 12.0, 17.0, 18.0
GENERATOR_WIDTH, SERVER_WIDTH = 190.0, 290.0
JOIN = 10.0
LETTER = 6.6
"""Average width of a letter, in pixels, at a font size of 12 px."""
INK, QUIET, WASH, FRAME = "#1b2733", "#55616d", "#f4f6f8", "#8593a0"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


def svg(figure: Figure) -> Element:
    testbed = figure.testbed
    assert testbed is not None
    inside = [link for link in testbed.links if not link.outside]
    outside = [link for link in testbed.links if link.outside]
    top = MARGIN + len(testbed.machine) * LINE + PADDING
    tops, below = _stacked([link.server for link in inside], top)
    left_tops, left_below = _stacked(testbed.generators, top, GENERATOR_WIDTH)
    frame_bottom = max(below, left_below)
    outside_tops, bottom = _stacked([link.server for link in outside], frame_bottom + 2 * GAP)
    height = (bottom if outside else frame_bottom) + MARGIN
    middle = (top + frame_bottom) / 2
    box = {"viewBox": f"0 0 {WIDTH} {height:g}", "width": f"{WIDTH}", "height": f"{height:g}", "role": "img"}
    root = Element(
        "svg", {"xmlns": "http://www.w3.org/2000/svg", **box, "font-family": FONT, "font-size": "12"}
    )
    frame = _rectangle(root, (MARGIN / 2, MARGIN / 2), (WIDTH - MARGIN, frame_bottom - MARGIN / 2))
    frame.attrib |= {"fill": "none", "stroke-dasharray": "5 4"}
    _texts(root, testbed.machine, (MARGIN + 4, MARGIN + LINE - 3), strong=1)
    for link, y in zip((*inside, *outside), (*tops, *outside_tops), strict=True):
        _wire(root, link, y, middle, JOIN if len(testbed.generators) > 1 else 0.0)
        _box(root, link.server, (WIDTH - MARGIN - 8 - SERVER_WIDTH, y), SERVER_WIDTH)
    if len(left_tops) == 1:
        left_tops = [middle - _height(testbed.generators[0], GENERATOR_WIDTH) / 2]
    for generator, y in zip(testbed.generators, left_tops, strict=True):
        _joined(root, y + _height(generator, GENERATOR_WIDTH) / 2, middle)
        _box(root, generator, (MARGIN + 8, y), GENERATOR_WIDTH)
    return root


def _stacked(boxes: Sequence[Box], top: float, width: float = SERVER_WIDTH) -> tuple[list[float], float]:
    """Return the top of each box, one below another, and the position after the gap below the last."""
    tops = []
    for box in boxes:
        tops.append(top)
        top += _height(box, width) + GAP
    return tops, top


def _height(box: Box, width: float = SERVER_WIDTH) -> float:
    return len(_title(box, width) + _others(box, width)) * LINE + 2 * PADDING - 4


def _title(box: Box, width: float) -> list[str]:
    return _wrapped(box.title, width)


def _others(box: Box, width: float) -> list[str]:
    return [part for line in box.lines for part in _wrapped(line, width)]


def _wrapped(text: str, width: float) -> list[str]:
    """Wrap text to the width of a box; words longer than a line are cut."""
    letters = int((width - 2 * PADDING) / LETTER)
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return [line if len(line) <= letters else f"{line[: letters - 1]}…" for line in lines]


def _box(root: Element, box: Box, corner: tuple[float, float], width: float) -> None:
    _rectangle(root, corner, (width, _height(box, width))).set("fill", WASH)
    title = _title(box, width)
    _texts(
        root,
        [*title, *_others(box, width)],
        (corner[0] + PADDING, corner[1] + PADDING + 9),
        strong=len(title),
    )


def _rectangle(root: Element, corner: tuple[float, float], size: tuple[float, float]) -> Element:
    place = {"x": f"{corner[0]:g}", "y": f"{corner[1]:g}", "width": f"{size[0]:g}", "height": f"{size[1]:g}"}
    return SubElement(root, "rect", {**place, "rx": "4", "stroke": FRAME})


def _texts(root: Element, lines: Sequence[str], at: tuple[float, float], *, strong: int) -> None:
    """Draw lines of text one below another; the first `strong` lines are a heading."""
    for place, line in enumerate(lines):
        head = place < strong
        style = {"fill": INK, "font-weight": "bold"} if head else {"fill": QUIET}
        SubElement(root, "text", {"x": f"{at[0]:g}", "y": f"{at[1] + place * LINE:g}", **style}).text = line


def _joined(root: Element, y: float, middle: float) -> None:
    """Draw the line from one of several generators to their junction."""
    if y != middle:
        start = MARGIN + 8 + GENERATOR_WIDTH
        path = f"M{start:g} {y:g} H{start + JOIN:g} V{middle:g} H{start + 2 * JOIN:g}"
        SubElement(root, "path", {"d": path, "fill": "none", "stroke": FRAME, "stroke-width": "1.5"})


def _wire(root: Element, link: Link, top: float, middle: float, joined: float) -> None:
    """Draw the line from the generator, or from the junction if `joined`, to the left edge of a server.

    The network's name is above the last part of the line.
    """
    start, edge = MARGIN + 8 + GENERATOR_WIDTH, WIDTH - MARGIN - 8 - SERVER_WIDTH
    bend, y = start + 24, top + _height(link.server) / 2
    path = f"M{start + joined:g} {middle:g} H{bend:g} V{y:g} H{edge:g}"
    SubElement(root, "path", {"d": path, "fill": "none", "stroke": FRAME, "stroke-width": "1.5"})
    _texts(root, [link.network], (bend + 8, y - 6), strong=0)
