"""Add alternative text to a drawing, and a heading to a drawing in its own file.

In the page, title and basis are text outside the drawing.
"""

from __future__ import annotations

import textwrap
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from serverdyno.report.model import Figure
from serverdyno.report.views import alt
from serverdyno.report.views.lines import WIDTH
from serverdyno.report.views.palette import FONT, INK, PAPER, QUIET

SVG = "http://www.w3.org/2000/svg"
MARGIN, TITLE_LINE, BASIS_LINE = 12.0, 22.0, 15.0
TITLE_WIDTH, BASIS_WIDTH = 88, 118
"""Characters per line of the title and of the basis, for a drawing of the usual width."""

ElementTree.register_namespace("", SVG)


def annotated(root: Element, figure: Figure) -> str:
    """Return a drawing as text, with its alternative text."""
    root.attrib |= {"role": "img", "aria-label": alt.text(figure)}
    return ElementTree.tostring(root, encoding="unicode")


def alone(svg: str, figure: Figure) -> str:
    """Return the drawing for its own file: with title and basis above it, on white."""
    inner = ElementTree.fromstring(svg)
    width, height = (float(value) for value in inner.attrib["viewBox"].split()[2:])
    share = width / WIDTH
    titles = textwrap.wrap(figure.title, int(TITLE_WIDTH * share))
    lines = textwrap.wrap(figure.basis, int(BASIS_WIDTH * share))
    below = MARGIN + TITLE_LINE * len(titles)
    top = below + BASIS_LINE * len(lines) + 10
    full, whole = width + 2 * MARGIN, height + top + MARGIN
    box = {"viewBox": f"0 0 {full:g} {whole:g}", "width": f"{full:g}", "height": f"{whole:g}"}
    root = Element(f"{{{SVG}}}svg", {**box, "role": "img", "aria-label": inner.attrib.pop("aria-label", "")})
    SubElement(root, f"{{{SVG}}}rect", {"width": f"{full:g}", "height": f"{whole:g}", "fill": PAPER})
    place = {"x": f"{MARGIN:g}", "font-family": FONT}
    for number, line in enumerate(titles):
        look = {**place, "y": f"{MARGIN + 15 + TITLE_LINE * number:g}", "fill": INK}
        SubElement(root, f"{{{SVG}}}text", {**look, "font-size": "15", "font-weight": "bold"}).text = line
    for number, line in enumerate(lines, 1):
        look = {**place, "y": f"{below + BASIS_LINE * number - 2:g}", "fill": QUIET}
        SubElement(root, f"{{{SVG}}}text", {**look, "font-size": "11"}).text = line
    moved = {"transform": f"translate({MARGIN:g} {top:g})", "font-family": FONT, "font-size": "11"}
    SubElement(root, f"{{{SVG}}}g", moved).extend(list(inner))
    return ElementTree.tostring(root, encoding="unicode")
