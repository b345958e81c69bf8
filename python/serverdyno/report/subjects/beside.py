"""A published curve or table next to the experiment's own, with its year and hardware, marked as not comparable.

Measurements of twenty years ago, on other hardware and with another program, can show the shape of a curve, not which
server is faster. Published lines therefore have their own axes, and nothing is computed from both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serverdyno import wording
from serverdyno.analysis.contrast import FEWEST_REPETITIONS, of_one
from serverdyno.analysis.curve import Throughput
from serverdyno.analysis.peak import peak
from serverdyno.errors import UserError
from serverdyno.plan.axis import CLIENTS
from serverdyno.plan.protocols.work import Terms
from serverdyno.published import PublishedReport
from serverdyno.published.model import Meta
from serverdyno.published.pictures import Line, Picture, pictures
from serverdyno.published.processors import ByProcessors, by_processors
from serverdyno.report import parts
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Cell, Column, Figure, Panel, Point, Section, Series, Table
from serverdyno.report.parts import SERIES_PER_FIGURE
from serverdyno.report.source import Source
from serverdyno.report.subjects.scaling import Group, groups
from serverdyno.report.subjects.testbed import testbed

MOST_PICTURES = 4
NOT_COMPARABLE = (
    "Not comparable: the year, the hardware and the load generator differ. No figure combines the two "
    "experiments."
)


AS_PUBLISHED = (
    "Rows with the first runs use as many repetitions as the published figures, and average them in the "
    "same way."
)


def section(results: Results, published: PublishedReport) -> Section:
    """Return the section with the published curves, and figures by number of processors.

    Raises UserError if the report has neither in the unit of these results.
    """
    source, unit, scaled = results.source, results.terms.unit, groups(results, fewest=1)
    curves = [picture for picture in pictures(published) if picture.kind == "lines" and picture.unit == unit]
    by_count = by_processors(published, unit)
    if not curves and not by_count:
        raise UserError(
            f"{published.name} has no curve in {unit} to show next to this experiment",
            hint="`dyno published show NAME` shows what a published report has",
        )
    left_out = sum(max(len(found) - MOST_PICTURES, 0) for found in (curves, by_count))
    more = (
        f" {left_out:,} more published figures: `dyno published show {published.name}`."
        if left_out > 0
        else ""
    )
    machine = ", ".join(testbed(source).machine[1:]) or "not disclosed"
    now = f"{source.head.created.year}: {machine}."
    own = Panel(_own_title(source), unit, _own(results))
    figures = [
        *(
            _figure(place, (own, now), picture, published.meta)
            for place, picture in enumerate(curves[:MOST_PICTURES])
        ),
        *(
            _figure_by_count(place, (_own_panel(source, unit, scaled, one), now), one, published.meta)
            for place, one in enumerate(by_count[:MOST_PICTURES], start=len(curves))
            if any(len(row.by_count) > 1 for row in one.rows)
        ),
    ]
    tables = [
        _table_by_count(place, (source.head.created.year, scaled), one, published.meta, results.terms)
        for place, one in enumerate(by_count[:MOST_PICTURES])
    ]
    about = published.meta.citation
    text = f"{NOT_COMPARABLE} Source: {about.title} ({about.laboratory}, {about.year}).{more}"
    lines = (text, *hardware(published.meta))
    return Section(
        "beside", "Next to a published report", text=lines, figures=tuple(figures), tables=tuple(tables)
    )


def _figure(place: int, ours: tuple[Panel, str], picture: Picture, meta: Meta) -> Figure:
    """Return both panels. `ours`: the experiment's panel, and its hardware."""
    own, now = ours
    year = meta.citation.year
    series = tuple(
        # Styles are taken from the end, to differ from the experiment's lines.
        Series(f"{line.name} ({year})", SERIES_PER_FIGURE - 1 - style, _points(line))
        for style, line in enumerate(picture.lines)
    )
    other = Panel(f"{year}: {picture.title}", picture.unit, series)
    title = f"This experiment next to {meta.citation.laboratory} {year}, {picture.title} (not comparable)"
    servers = "; ".join(meta.hardware.servers)
    basis = f"{NOT_COMPARABLE} {meta.citation.year}: {meta.method.tool_words} on {servers}. {now}"
    return Figure(
        f"beside-{place + 1}",
        0,
        title,
        basis,
        "lines",
        CLIENTS.title,
        (own, other) if own.series else (other,),
    )


def _figure_by_count(place: int, ours: tuple[Panel, str], one: ByProcessors, meta: Meta) -> Figure:
    """Return the figure of published servers that were measured with several numbers of processors."""
    own, now = ours
    year = meta.citation.year
    lines = [row for row in one.rows if len(row.by_count) > 1]
    series = tuple(
        Series(
            f"{row.name} ({year})",
            SERIES_PER_FIGURE - 1 - style,
            tuple(Point(count, value) for count, value in sorted(row.by_count.items())),
        )
        for style, row in enumerate(lines[:SERIES_PER_FIGURE])
    )
    named = dict.fromkeys(row.machine for row in lines if row.machine)
    machines = "; ".join(named or meta.hardware.servers)
    other = Panel(f"{year}: {one.title}", one.unit, series)
    return Figure(
        f"beside-{place + 1}",
        0,
        f"{_measure(one)} by number of CPUs: this experiment next to {meta.citation.laboratory} {year}, "
        f"{one.title} (not comparable)",
        f"{NOT_COMPARABLE} {year}: {meta.method.tool_words} on {machines}. {now}",
        "lines",
        "CPUs",
        (own, other) if own.series else (other,),
    )


def _table_by_count(
    place: int, ours: tuple[int, Sequence[Group]], one: ByProcessors, meta: Meta, terms: Terms
) -> Table:
    """Return a table, one row per server and machine, ours first, and one column per number of processors.

    If ours were repeated more often than the published ones, a second row has only as many of our repetitions.
    """
    now, scaled = ours
    year, runs = meta.citation.year, meta.method.repetitions
    nothing = Cell(wording.NOTHING)
    own: list[tuple[str, str, str, dict[int, Cell]]] = []
    for group in scaled:
        results = {count: result for count, result in group.by_count.items() if result.throughput}
        cells = {count: _own_cell(result, one, terms) for count, result in results.items()}
        own.append((f"{now}", group.name, "this machine", cells))
        if isinstance(runs, int) and all(len(each.runs.throughput) > runs for each in results.values()):
            first = {
                count: Cell(terms.written(_of_curve(result.runs.throughput[:runs], one)))
                for count, result in results.items()
            }
            own.append(
                (f"{now}", f"{group.name}, first {wording.plural(runs, 'run')}", "this machine", first)
            )
    then = [
        (f"{year}", row.name, row.machine or wording.NOTHING,
         {count: Cell(terms.written(value)) for count, value in row.by_count.items()})
        for row in one.rows
    ]  # fmt: skip
    counts = sorted({count for *_, by_count in (*own, *then) for count in by_count})
    columns = (
        Column("Year", numeric=False),
        Column("Server", numeric=False),
        Column("Machine", numeric=False),
        *(Column(wording.plural(count, "CPU"), terms.unit) for count in counts),
    )
    rows = tuple(
        (Cell(made), Cell(name), Cell(machine), *(by_count.get(count, nothing) for count in counts))
        for made, name, machine, by_count in (*own, *then)
    )
    as_published = len(own) > len(scaled)
    what = "mean over all load levels" if one.averages else "highest mean of the repetitions"
    return Table(
        f"beside-{place + 1}",
        0,
        f"{_measure(one)}s by CPUs: this experiment, and {meta.citation.laboratory} {year}, {one.title}",
        f"{NOT_COMPARABLE} {now}: {what}, with its 95 % interval. {year}: {meta.method.combined}.",
        columns,
        rows,
        (
            f"{wording.NOTHING}: not measured or not published.",
            *([AS_PUBLISHED] * as_published),
        ),
        key_columns=3,
    )


def _measure(one: ByProcessors) -> str:
    return "Overall average" if one.averages else "Peak"


def _of_curve(runs: Throughput, one: ByProcessors) -> float | None:
    """Return the average or the peak of the mean curve of runs; None unless each finished every level."""
    curve = runs.mean(axis=0)
    return None if np.isnan(curve).any() else float(curve.mean() if one.averages else curve.max())


def _own_cell(result: ConfigurationResult, one: ByProcessors, terms: Terms) -> Cell:
    """Return the mean of all runs with its interval; for a peak, the interval of the cross-validated peak."""
    low, high = _interval(result.runs.throughput, one)
    detail = "" if low is None or high is None else f"{terms.written(low)} to {terms.written(high)}"
    return Cell(terms.written(_own_value(result, one)), detail)


def _own_value(result: ConfigurationResult, one: ByProcessors) -> float:
    assert result.throughput is not None  # the caller passes only results with throughput
    return (result.throughput.overall_average if one.averages else result.throughput.peak).mean


def _interval(runs: Throughput, one: ByProcessors) -> tuple[float | None, float | None]:
    if not one.averages:
        found = peak(runs)
        return (None, None) if found is None else (found.low, found.high)
    averages = runs.mean(axis=1)
    averages = averages[averages > 0]  # drops unfinished runs, which are NaN
    if len(averages) < FEWEST_REPETITIONS:
        return None, None
    low, high = np.exp(of_one(np.log(averages)).interval())
    return float(low), float(high)


def _own_panel(source: Source, unit: str, scaled: Sequence[Group], one: ByProcessors) -> Panel:
    series = (
        Series(
            group.name,
            style,
            tuple(Point(count, _own_value(result, one)) for count, result in group.by_count.items()),
        )
        for style, group in enumerate(scaled)
    )
    return Panel(_own_title(source), unit, tuple(series))


def _own_title(source: Source) -> str:
    return f"{source.head.created.year}: this experiment, {source.head.suite.name}"


def _own(results: Results) -> tuple[Series, ...]:
    """Return the mean curves of the first configurations, as many as fit in one panel."""
    _, group = next(parts.groups(results))
    return tuple(
        Series(
            result.name,
            style,
            tuple(Point(level.clients, level.throughput.mean) for level in result.finished),
        )
        for style, result in enumerate(group)
        if result.finished
    )


def _points(line: Line) -> tuple[Point, ...]:
    return tuple(Point(clients, value) for clients, value in line.points)


def hardware(meta: Meta) -> tuple[str, ...]:
    """Return the clients and repetitions of the published figures, then one sentence on each server's hardware."""
    servers = (
        f"{name}: {'; '.join(f'{what} {words}' for what, words in parts.items())}."
        for name, parts in meta.hardware.servers.items()
    )
    year, runs = meta.citation.year, meta.method.repetitions
    return (f"Client machines of {year}: {meta.hardware.client}. Repetitions of {year}: {runs}.", *servers)
