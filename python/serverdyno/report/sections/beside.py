"""A published curve next to one's own: in a panel of its own, with its year and hardware, and never as comparable.

What was measured twenty years ago, on other hardware, with a program that is not ours, can show how a curve runs; it
can't say which server is faster. So no line of one stands in the axes of the other, and nothing is computed from both.
"""

from __future__ import annotations

from serverdyno.errors import UserError
from serverdyno.plan.axis import CLIENTS
from serverdyno.published import PublishedReport
from serverdyno.published.model import Meta
from serverdyno.published.pictures import Line, Picture, pictures
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Figure, Panel, Point, Section, Series
from serverdyno.report.sections.drawings import SERIES_PER_FIGURE, groups
from serverdyno.report.sections.testbed import testbed
from serverdyno.report.source import Source

MOST_PICTURES = 4
NOT_COMPARABLE = (
    "Not comparable: another time, other hardware, another program. Nothing is computed from both."
)


def section(source: Source, results: Results, published: PublishedReport) -> Section:
    """Its figures. Raises UserError for a report without curves in the unit of these results."""
    unit = results.terms.unit
    curves = [picture for picture in pictures(published) if picture.kind == "lines" and picture.unit == unit]
    if not curves:
        raise UserError(
            f"{published.name} has no curve in {unit}, so none can be drawn next to this one",
            hint="`dyno published show NAME` draws what a published report has",
        )
    left_out = len(curves) - MOST_PICTURES
    more = f" `dyno published show {published.name}` draws {left_out:,} more." if left_out > 0 else ""
    own = Panel(_own_title(source), unit, _own(results))
    machine = ", ".join(testbed(source).machine[1:]) or "not disclosed"
    now = f"{source.head.created.year}: {machine}."
    figures = [
        _figure(place, (own, now), picture, published.meta)
        for place, picture in enumerate(curves[:MOST_PICTURES])
    ]
    about = published.meta.citation
    text = f"{NOT_COMPARABLE} From: {about.title} ({about.laboratory}, {about.year}).{more}"
    lines = (text, *_hardware(published.meta))
    return Section("beside", "Next to a published report", text=lines, figures=tuple(figures))


def _figure(place: int, ours: tuple[Panel, str], picture: Picture, meta: Meta) -> Figure:
    """`ours`: the experiment's panel, and what it was measured on."""
    own, now = ours
    year = meta.citation.year
    series = tuple(
        # Styles from the other end, so that no line looks like one of the experiment's.
        Series(f"{line.name} ({year})", SERIES_PER_FIGURE - 1 - style, _points(line))
        for style, line in enumerate(picture.lines)
    )
    other = Panel(f"{year}: {picture.title}", picture.unit, series)
    title = f"This experiment, and {meta.citation.laboratory} {meta.citation.year}, {picture.title}: not comparable"
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


def _own_title(source: Source) -> str:
    return f"{source.head.created.year}: this experiment, {source.head.suite.name}"


def _own(results: Results) -> tuple[Series, ...]:
    """The mean curves of the first portion of configurations: what fits in one panel."""
    _, group = next(groups(results))
    return tuple(
        Series(result.name, style, tuple(Point(mix.clients, mix.throughput.mean) for mix in result.finished))
        for style, result in enumerate(group)
        if result.finished
    )


def _points(line: Line) -> tuple[Point, ...]:
    return tuple(Point(clients, value) for clients, value in line.points)


def _hardware(meta: Meta) -> tuple[str, ...]:
    """What the published figures were measured on, in a sentence a server."""
    servers = (
        f"{name}: {'; '.join(f'{what} {words}' for what, words in parts.items())}."
        for name, parts in meta.hardware.servers.items()
    )
    return (f"Clients then: {meta.hardware.client}. Repetitions: {meta.method.repetitions}.", *servers)
