"""Colours, dashes and shapes of charts: the same style for a configuration in every chart of a report.

Six colours have a contrast of 3:1 or more on white and, in a lighter variant, on the dark page; dash and shape
distinguish lines in grey. A seventh configuration reuses the first colour with another dash and shape. In the page,
colours are CSS variables, so that dark mode changes them; separate SVG files contain the values.
"""

from __future__ import annotations

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
COLOURS = ("#0072B2", "#C4500A", "#00805E", "#A8447F", "#3F4A55", "#8A6A00")
DARK_COLOURS = ("#58B4E8", "#F28C4B", "#3FC79A", "#E08BBD", "#C3CCD5", "#D9B740")
DASHES = ([1, 0], [8, 3], [2, 3], [8, 3, 2, 3], [14, 4], [4, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK, QUIET, GRID, SHADE = "#1b2733", "#55616d", "#e3e7eb", "#eef1f4"
PAPER = "#ffffff"
STYLES = len(COLOURS) * len(SHAPES)

VARIABLES = {
    INK: "--ink",
    QUIET: "--quiet",
    GRID: "--grid",
    SHADE: "--shade",
    PAPER: "--paper",
    "#f4f6f8": "--wash",
    "#8593a0": "--frame",
    **{colour: f"--series-{place}" for place, colour in enumerate(COLOURS)},
}
"""The CSS variable of each colour of a chart."""


def colour(style: int) -> str:
    return COLOURS[style % len(COLOURS)]


def dash(style: int) -> list[int]:
    """Return the dash of a style, which changes with each round of the colours."""
    return DASHES[(style + style // len(COLOURS)) % len(DASHES)]


def shape(style: int) -> str:
    """Return the point shape of a style, which changes with each round of the colours."""
    return SHAPES[(style + style // len(COLOURS)) % len(SHAPES)]


def themed(svg: str) -> str:
    """Replace the colours of a drawing by the page's CSS variables."""
    for value, variable in VARIABLES.items():
        svg = svg.replace(f'"{value}"', f'"var({variable})"').replace(
            f'"{value.lower()}"', f'"var({variable})"'
        )
    return svg


def css() -> str:
    """Return the CSS variables of the lines, light and dark."""
    light, dark = (
        " ".join(f"--series-{place}: {value};" for place, value in enumerate(colours))
        for colours in (COLOURS, DARK_COLOURS)
    )
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
