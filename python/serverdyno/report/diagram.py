"""Draws a testbed as SVG: the generator to the left, a line for each network, the servers to the right.

By hand, since it is boxes and lines; sizes follow from the texts, so that nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from serverdyno.report.model import Box, Figure, Link

WIDTH = 784
MARGIN, PADDING, LINE = 16, 12, 17
GENERATOR_WIDTH, SERVER_WIDTH = 190, 290
GAP = 18
LETTER = 6.6
"""Pixels of an average letter at 12 px."""
INK, QUIET, WASH, FRAME = "#1b2733", "#5b6875", "#f4f6f8", "#8593a0"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


def svg(figure: Figure) -> str:
    """The SVG text of a figure of the kind `diagram`."""
    testbed = figure.testbed
    assert testbed is not None  # the kind says so
    inside = [link for link in testbed.links if not link.outside]
    outside = [link for link in testbed.links if link.outside]
    top = MARGIN + len(testbed.machine) * LINE + PADDING
    heights = [_height(link.server) for link in (*inside, *outside)]
    ends = [top]
    for place, height in enumerate(heights):
        # Servers elsewhere begin below the frame of this machine.
        ends.append(ends[-1] + height + GAP + (2 * GAP if place + 1 == len(inside) and outside else 0))
    frame_bottom = max(ends[len(inside)] if inside else top, top + _height(testbed.generator) + GAP)
    if outside and not inside:
        shift = frame_bottom + 2 * GAP - top
        ends = [end + shift for end in ends]
    bottom = max(ends[-1], frame_bottom) + MARGIN
    middle = (top + frame_bottom) / 2
    parts = [_rect(MARGIN / 2, MARGIN / 2, WIDTH - MARGIN, frame_bottom - MARGIN / 2, "none", dashed=True)]
    parts += _texts(testbed.machine, MARGIN + 4, MARGIN + LINE - 3)
    parts += _wires([*inside, *outside], ends, middle)
    parts += _box(testbed.generator, MARGIN + 8, middle - _height(testbed.generator) / 2, GENERATOR_WIDTH)
    for link, y in zip((*inside, *outside), ends, strict=False):
        parts += _box(link.server, WIDTH - MARGIN - 8 - SERVER_WIDTH, y, SERVER_WIDTH)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom:g}" width="{WIDTH}" '
        f'height="{bottom:g}" font-family="{FONT}" font-size="12" role="img">'
        f'<rect width="{WIDTH}" height="{bottom:g}" fill="white"/>{"".join(parts)}</svg>'
    )


def _height(box: Box) -> float:
    return len(_lines(box)) * LINE + 2 * PADDING - 4


def _lines(box: Box) -> list[str]:
    """The title's lines and the others, each no longer than a server's box is wide; the generator's are shorter."""
    letters = int((SERVER_WIDTH - 2 * PADDING) / LETTER)
    return [part for line in (box.title, *box.lines) for part in _wrapped(line, letters)]


def _wrapped(text: str, letters: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return [line if len(line) <= letters else f"{line[: letters - 1]}…" for line in lines]


def _box(box: Box, x: float, y: float, width: float) -> list[str]:
    titles = len(_wrapped(box.title, int((SERVER_WIDTH - 2 * PADDING) / LETTER)))
    return [
        _rect(x, y, width, _height(box), WASH),
        *_texts(_lines(box), x + PADDING, y + PADDING + 9, titles),
    ]


def _rect(x: float, y: float, width: float, height: float, fill: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{fill}" stroke="{FRAME}"{dash}/>'


def _texts(lines: Sequence[str], x: float, y: float, strong: int = 1) -> list[str]:
    return [
        f'<text x="{x:g}" y="{y + place * LINE:g}" fill="{INK if place < strong else QUIET}"'
        f"{' font-weight="bold"' if place < strong else ''}>{escape(line)}</text>"
        for place, line in enumerate(lines)
    ]


def _wires(links: Sequence[Link], ends: Sequence[float], middle: float) -> list[str]:
    """From the generator to the left edge of each server, with the network's name above the line's last part."""
    start, edge = MARGIN + 8 + GENERATOR_WIDTH, WIDTH - MARGIN - 8 - SERVER_WIDTH
    bend = start + 24
    drawn = []
    for link, top in zip(links, ends, strict=False):
        y = top + _height(link.server) / 2
        drawn.append(
            f'<path d="M{start:g} {middle:g} H{bend:g} V{y:g} H{edge:g}" fill="none" stroke="{FRAME}" stroke-width="1.5"/>'
        )
        [text] = _texts([link.network], bend + 8, y - 6, strong=0)
        drawn.append(text)
    return drawn
