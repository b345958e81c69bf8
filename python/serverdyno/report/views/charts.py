"""Figures as SVG files that stand alone: title, basis, axes, units, legend. What they show is in `figures`.

Series differ by colour, dash and point shape, so they stay distinct in grey. Colours: M. Okabe, K. Ito, Color
Universal Design (2008), without yellow, which fades on white. The renderer brings its own Liberation Sans,
whose letters are as wide as Arial's and Helvetica's: one of the three is nearly everywhere.
"""

from __future__ import annotations

import textwrap
from typing import Any

import altair as alt
import vl_convert

from serverdyno import wording
from serverdyno.report.model import Figure, Panel, Series
from serverdyno.report.views import diagram

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9")
DASHES = ([1, 0], [8, 3], [2, 3], [8, 3, 2, 3], [14, 4], [4, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK = "#1b2733"
QUIET = "#5b6875"
SHADE = "#eef1f4"
LEVEL_LINE: dict[str, Any] = {"color": QUIET, "strokeDash": [3, 3], "strokeWidth": 1}
WIDTH = 760
HEIGHT = 330
PANEL_GAP = 118
AXIS_EXTENT = 34
MOST_TICKS = 16
VEGA_LITE = "6.4"
CHARACTER_WIDTH = 6.9
"""Pixels of an average letter at the legend's size: enough also for wider fonts."""


def svg(figure: Figure) -> str:
    """The SVG text of a figure."""
    if figure.kind == "diagram":
        return diagram.svg(figure)
    body = {"bars": _bars, "effects": _effects, "lines": _lines}[figure.kind](figure)
    chart = alt.vconcat(*body, spacing=10).properties(
        title=alt.TitleParams(
            figure.title,
            subtitle=textwrap.wrap(figure.basis, 118),
            anchor="start",
            offset=14,
            fontSize=15,
            subtitleFontSize=11,
            subtitleColor=QUIET,
            subtitlePadding=4,
        ),
        padding=12,
        background="white",
    )
    return str(vl_convert.vegalite_to_svg(_styled(chart).to_dict(), vl_version=VEGA_LITE))


def _styled(chart: alt.VConcatChart) -> alt.VConcatChart:
    styled: alt.VConcatChart = (
        chart.configure(font=FONT)
        .configure_axis(
            labelColor=INK,
            titleColor=INK,
            labelFontSize=11,
            titleFontSize=12,
            gridColor="#e3e7eb",
            titlePadding=8,
        )
        .configure_view(stroke=None)
        .configure_title(color=INK)
        .configure_concat(spacing=18)
    )
    return styled


def _lines(figure: Figure) -> list[Any]:
    names: dict[str, int | None] = {line.name: line.style for panel in figure.panels for line in panel.series}
    names |= {name: None for panel in figure.panels for _, name in panel.levels}
    alone = len(figure.panels) == 1
    width = WIDTH if alone else (WIDTH - PANEL_GAP) // 2
    height = HEIGHT if alone else 210
    plots = [_plot(panel, figure.x_title, width, height) for panel in figure.panels]
    rows = [alt.hconcat(*plots[start : start + 2], spacing=24) for start in range(0, len(plots), 2)]
    return [_legend(names), *rows]


def _plot(panel: Panel, x_title: str, width: int, height: int) -> Any:
    rows = _rows(panel)
    ticks = _ticks(sorted({row["x"] for row in rows}), width)
    x_axis = alt.Axis(values=ticks, format=",d", grid=False, tickColor=INK, domainColor=INK)
    x = alt.X("x:Q", title=x_title, axis=x_axis, scale=alt.Scale(zero=False, nice=False, padding=14))
    y_scale, y_axis = _logarithmic(rows) if panel.logarithmic else _linear(rows)
    y = alt.Y("y:Q", title=panel.y_title, scale=y_scale, axis=y_axis)
    base = alt.Chart(alt.InlineData(values=rows))
    layers = [base.mark_line(strokeWidth=1.2 if panel.plain else 2).encode(x, y, _colour(), _dash())]
    if not panel.plain:
        rule = base.mark_rule(strokeWidth=1.2)
        layers.insert(0, rule.encode(x, alt.Y("low:Q", title=panel.y_title), alt.Y2("high:Q"), _colour()))
        points = base.mark_point(size=52, strokeWidth=1.8, opacity=1)
        layers.append(points.encode(x, y, _colour(), _shape(), _fill()))
    layers = [*_shaded(panel), *(_level(level) for level, _ in panel.levels), *layers]
    title = alt.TitleParams(panel.title, anchor="start", fontSize=12, color=INK, offset=6)
    return alt.layer(*layers).properties(width=width, height=height, title=title)


def _rows(panel: Panel) -> list[dict[str, Any]]:
    return [
        {
            "x": point.x,
            "y": point.y,
            "low": point.y if point.low is None else point.low,
            "high": point.y if point.high is None else point.high,
            "style": f"{line.style}",
            "fill": "white" if point.limited_by else COLOURS[line.style],
        }
        for line in panel.series
        for point in line.points
    ]


def _linear(rows: list[dict[str, Any]]) -> tuple[alt.Scale, alt.Axis]:
    axis = alt.Axis(
        format=_number_format(rows), domain=False, ticks=False, tickCount=6, minExtent=AXIS_EXTENT
    )
    return alt.Scale(zero=True, nice=True), axis


def _logarithmic(rows: list[dict[str, Any]]) -> tuple[alt.Scale, alt.Axis]:
    """A scale from the 1-2-5 value below the data to the one above it, with ticks at those values only."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    steps = [lead * 10.0**power for power in range(-6, 10) for lead in (1, 2, 5)]
    first = max((step for step in steps if step <= low), default=steps[0])
    last = min((step for step in steps if step >= high), default=steps[-1])
    ticks = [step for step in steps if first <= step <= last]
    axis = alt.Axis(values=ticks, format=",.6~f", domain=False, ticks=False, minExtent=AXIS_EXTENT)
    return alt.Scale(type="log", nice=False, domain=[first, max(last, first * 2)]), axis


def _number_format(rows: list[dict[str, Any]]) -> str:
    """Whole numbers where they tell the ticks apart, else as many digits as are needed."""
    return (
        ",d" if max(row["high"] for row in rows) >= 20 and min(row["low"] for row in rows) >= 0 else ",.6~f"
    )


def _ticks(values: list[float], width: int) -> list[float]:
    """The client counts themselves, thinned so that labels of their length don't touch; the last stays."""
    widest = max(len(f"{value:,.0f}") for value in values) * CHARACTER_WIDTH + 12
    room = max(2, min(MOST_TICKS, int(width / widest)))
    step = -(-len(values) // room)
    kept = values[::-1][::step][::-1]
    smallest_gap = (values[-1] - values[0]) * widest / width
    if kept[0] - values[0] > smallest_gap:
        kept = [values[0], *kept]
    return [
        value
        for value, after in zip(kept, [*kept[1:], float("inf")], strict=True)
        if after - value > smallest_gap
    ]


def _styles() -> list[str]:
    return [f"{index}" for index in range(len(COLOURS))]


def _colour() -> alt.Color:
    return alt.Color("style:N", scale=alt.Scale(domain=_styles(), range=list(COLOURS)), legend=None)


def _dash() -> alt.StrokeDash:
    return alt.StrokeDash("style:N", scale=alt.Scale(domain=_styles(), range=list(DASHES)), legend=None)


def _shape() -> alt.Shape:
    return alt.Shape("style:N", scale=alt.Scale(domain=_styles(), range=list(SHAPES)), legend=None)


def _fill() -> alt.Fill:
    return alt.Fill("fill:N", scale=None, legend=None)


def _shaded(panel: Panel) -> list[Any]:
    """Ranges of x behind the lines."""
    rows = [{"x": start, "end": end} for start, end in panel.shaded]
    if not rows:
        return []
    return [
        alt.Chart(alt.InlineData(values=rows)).mark_rect(color=SHADE).encode(alt.X("x:Q"), alt.X2("end:Q"))
    ]


def _level(level: float) -> Any:
    """A line across, named in the legend: beside the data a name would meet some point of it."""
    return alt.Chart(alt.InlineData(values=[{"y": level}])).mark_rule(**LEVEL_LINE).encode(alt.Y("y:Q"))


def _legend(names: dict[str, int | None]) -> Any:
    """Samples of the lines with their names; a level, which has no style, is a plain thin line."""
    cell = max(len(name) for name in names) * CHARACTER_WIDTH + 66
    across = max(1, int(WIDTH // cell))
    rows: list[dict[str, Any]] = []
    for place, (name, style) in enumerate(names.items()):
        left, row = (place % across) * cell, place // across
        entry = {
            "name": name,
            "row": row,
            "x": left,
            "end": left + 40,
            "middle": left + 20,
            "text": left + 48,
        }
        rows.append(entry if style is None else entry | {"style": f"{style}", "fill": COLOURS[style]})
    height = (rows[-1]["row"] + 1) * 20
    base, lines, levels = (
        alt.Chart(alt.InlineData(values=values))
        for values in (
            rows,
            [row for row in rows if "style" in row],
            [row for row in rows if "style" not in row],
        )
    )
    y = alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[-0.5, rows[-1]["row"] + 0.5], reverse=True))

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", axis=None, scale=alt.Scale(domain=[0, WIDTH], nice=False))

    return alt.layer(
        levels.mark_rule(**LEVEL_LINE).encode(x("x"), alt.X2("end:Q"), y),
        lines.mark_rule(strokeWidth=2).encode(x("x"), alt.X2("end:Q"), y, _colour(), _dash()),
        lines.mark_point(size=52, strokeWidth=1.8, opacity=1).encode(
            x("middle"), y, _colour(), _shape(), _fill()
        ),
        base.mark_text(align="left", fontSize=12, color=INK).encode(x("text"), y, alt.Text("name:N")),
    ).properties(width=WIDTH, height=height)


def _bars(figure: Figure) -> list[Any]:
    series = figure.panels[0].series
    rows = [_bar(line) for line in series]
    order = [line.name for line in series]
    base = alt.Chart(alt.InlineData(values=rows))
    names = max(len(line.name) for line in series) * CHARACTER_WIDTH
    width = WIDTH - names
    name_axis = alt.Axis(ticks=False, domain=False, labelLimit=WIDTH, minExtent=names)
    y = alt.Y("name:N", sort=order, title=None, axis=name_axis)
    reach = max(row["high"] * width / (width - len(row["label"]) * CHARACTER_WIDTH - 16) for row in rows)
    scale = alt.Scale(domain=[0, reach or 1.0], nice=False)
    x_axis = alt.Axis(format=_number_format(rows), tickCount=6)
    x = alt.X("y:Q", title=figure.x_title, scale=scale, axis=x_axis)
    layers = [
        base.mark_bar(height=18).encode(x, y, alt.Color("colour:N", scale=None)),
        base.mark_rule(color=INK, strokeWidth=1.6).encode(
            alt.X("low:Q", title=figure.x_title), alt.X2("high:Q"), y
        ),
        base.mark_text(align="left", dx=8, fontSize=12, color=INK).encode(
            alt.X("high:Q", title=figure.x_title), y, alt.Text("label:N")
        ),
    ]
    return [alt.layer(*layers).properties(width=width, height=34 * len(rows))]


def _effects(figure: Figure) -> list[Any]:
    """Points with their intervals about a line at zero, one below another."""
    series = figure.panels[0].series
    rows = [_effect(line) for line in series]
    base = alt.Chart(alt.InlineData(values=rows))
    names = max(len(line.name) for line in series) * CHARACTER_WIDTH
    axis = alt.Axis(ticks=False, domain=False, labelLimit=WIDTH, minExtent=names, grid=True)
    y = alt.Y("name:N", sort=[line.name for line in series], title=None, axis=axis)
    reach = max(abs(row[end]) for row in rows for end in ("low", "high")) or 1.0
    scale = alt.Scale(
        domain=[min(0.0, *(row["low"] for row in rows)) - 0.05 * reach, _highest(rows) + 0.2 * reach]
    )

    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q", title=figure.x_title, scale=scale, axis=alt.Axis(format="+.6~g", tickCount=7)
        )

    layers = [
        alt.Chart(alt.InlineData(values=[{"y": 0.0}])).mark_rule(color=INK, strokeWidth=1).encode(x("y")),
        base.mark_rule(color=COLOURS[0], strokeWidth=2).encode(x("low"), alt.X2("high:Q"), y),
        base.mark_point(size=60, filled=True, color=COLOURS[0], opacity=1).encode(x("y"), y),
        base.mark_text(align="left", dx=8, fontSize=12, color=INK).encode(x("high"), y, alt.Text("label:N")),
    ]
    return [alt.layer(*layers).properties(width=WIDTH - names, height=30 * len(rows))]


def _highest(rows: list[dict[str, Any]]) -> float:
    return max(0.0, *(float(row["high"]) for row in rows))


def _effect(line: Series) -> dict[str, Any]:
    point = line.points[0]
    return {
        "name": line.name,
        "y": point.y,
        "low": point.y if point.low is None else point.low,
        "high": point.y if point.high is None else point.high,
        "label": wording.change(point.y),
    }


def _bar(line: Series) -> dict[str, Any]:
    point = line.points[0]
    limited = f" ({', '.join(point.limited_by)})" if point.limited_by else ""
    return {
        "name": line.name,
        "y": point.y,
        "low": point.y if point.low is None else point.low,
        "high": point.y if point.high is None else point.high,
        "label": f"{wording.significant(point.y)}{limited}",
        "colour": "#b9c4cf" if point.limited_by else "#6f8ba4",
    }
