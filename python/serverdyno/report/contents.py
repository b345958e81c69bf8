"""Which sections a report has, in their order, and which table or figure stands in which.

Each is made in the module that bears its name; what has nothing to show is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from serverdyno.analysis.pairs import Comparison
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Section, Table
from serverdyno.report.parts import groups
from serverdyno.report.sections import curves, drawings, overview, tables
from serverdyno.report.source import Source
from serverdyno.report.subjects import (
    breaks,
    clients,
    cost,
    durability,
    errors,
    factorial,
    members,
    nodes,
    operations,
    outages,
    response_times,
    scaling,
    timeline,
    tuning,
)


@dataclass(frozen=True, slots=True)
class Lines:
    """The line under a table or figure, by what was done with the repetitions."""

    mean: str
    mean_alone: str
    together: str
    summed: str
    each: str


def lines(results: Results) -> Lines:
    return Lines(
        mean=basis(results),
        mean_alone=basis(results, Over.MEAN_ALONE),
        together=basis(results, Over.TOGETHER),
        summed=basis(results, Over.SUM),
        each=basis(results, Over.EACH),
    )


def answer(results: Results, under: Lines) -> Section:
    """The chart of the answer."""
    return Section(key="answer", title="Answer", figures=overview.figures(results, under.mean))


def summary(results: Results, under: Lines) -> Section:
    """The executive summary, its sentences still to come."""
    return Section(
        key="summary",
        title="Peaks and averages",
        figures=tuple(drawings.peaks(results, under.mean)),
        tables=(tables.peaks(results, under.mean),),
    )


def open_sections(source: Source, results: Results, under: Lines) -> list[Section]:
    """Return all results of open load after those of the rates: no peak, since the rate is given."""
    drawn = tuple(drawings.throughput(source, results))
    by_mix = _by_mix(tables.throughput, source, results, under.mean)
    return [
        Section("throughput", "Throughput", figures=drawn, tables=by_mix),
        Section("response", "Response times", tables=(response_times.table(results),)),
        *_trust(results, under),
        *_appendices(source, results, under),
    ]


def sections(
    source: Source, results: Results, comparisons: tuple[Comparison, ...], under: Lines
) -> list[Section]:
    """All results after the summary."""
    return [
        *_throughput(source, results, comparisons, under),
        *(scaling.build(results).sections if scaling.applies(results) else ()),
        *(tuning.build(results).sections if tuning.applies(results) else ()),
        *(factorial.build(results).sections if factorial.applies(results) else ()),
        *(durability.build(results).sections if durability.applies(results) else ()),
        *response_times.build(results).sections,
        *_trust(results, under),
        *_appendices(source, results, under),
    ]


def outage_sections(source: Source, results: Results, under: Lines) -> list[Section]:
    """All results after the summary where the server is taken away: what each second shows stands first."""
    return [
        replace(_timeline(source, results, under), appendix=False),
        *_throughput(source, results, (), under)[:1],
        *(durability.build(results).sections if durability.applies(results) else ()),
        *response_times.build(results).sections,
        *_trust(results, under),
        *_appendices(source, results, under),
    ]


def _throughput(
    source: Source, results: Results, comparisons: tuple[Comparison, ...], under: Lines
) -> list[Section]:
    by_mix = _by_mix(tables.throughput, source, results, under.mean)
    drawn = tuple(drawings.throughput(source, results))
    found = [Section("throughput", "Throughput", figures=drawn, tables=by_mix)]
    if comparisons:
        improvements = tables.improvements(comparisons, results.terms, under.mean)
        effects = tuple(drawings.improvements(comparisons, under.mean))
        found.append(Section("improvement", "Differences", figures=effects, tables=(improvements,)))
    shape = (curves.table(results, under.mean),)
    return [*found, Section("shape", "Peak, overload and dips", tables=shape)]


def _timeline(source: Source, results: Results, under: Lines) -> Section:
    drawn = (
        *timeline.whole_test(results, under.each),
        *timeline.figures(source, results, under.mean_alone),
    )
    title = "The whole test, and each mix second by second"
    return Section("timeline", title, figures=drawn, appendix=True)


def _by_mix(make: Callable[..., Table], source: Source, results: Results, line: str) -> tuple[Table, ...]:
    """One table for each portion of the configurations."""
    return tuple(
        replace(table, key=table.key + suffix)
        for suffix, group in groups(results)
        for table in (make(source, results.terms, group, line),)
    )


def _trust(results: Results, under: Lines) -> list[Section]:
    """What the figures cost, and what went wrong."""
    return [
        *cost.build(results).sections,
        *errors.build(results).sections,
    ]


def _appendices(source: Source, results: Results, under: Lines) -> list[Section]:
    """What few readers need: collapsed in the page."""
    terms = results.terms
    by_class = (
        operations.by_content(results, under.together),
        operations.by_class(results, under.summed),
        operations.times_by_class(results, under.together),
    )
    of_classes = tuple(table for table in by_class if table is not None)
    second = _by_mix(tables.second_throughput, source, results, under.mean)
    found = [
        Section("second", terms.second_title, tables=second, appendix=True),
        *([_timeline(source, results, under)] if source.cut is None else []),
        Section("classes", f"Classes of {terms.classes}", tables=of_classes, appendix=True),
    ]
    if source.head.suite.work.shows_clients:
        of_files = (
            clients.per_client_table(results, under.mean),
            clients.saved_table(results, under.summed),
            clients.calls_table(results, under.summed),
            breaks.table(results, under.summed),
            outages.handles_table(results, Over.SUM) if source.cut is None else None,
        )
        there = tuple(table for table in of_files if table is not None)
        found.append(Section("clients", "Single clients, and their cache", tables=there, appendix=True))
    connected = (operations.connections(results, under.summed), operations.handshakes(results, under.summed))
    connections = tuple(table for table in connected if table is not None)
    of_runs = (tables.runs(source, results, under.each), members.table(source, under.each))
    runs = tuple(table for table in of_runs if table is not None)
    of_nodes = nodes.section(source, results)
    return [
        *found,
        *([] if of_nodes is None else [of_nodes]),
        Section("connections", "Connections", tables=connections, appendix=True),
        Section("order", "Order of the runs", tables=runs, appendix=True),
    ]


def numbered(sections: list[Section]) -> list[Section]:
    """Numbers tables and figures in the order in which they appear."""
    table_number = figure_number = 0
    found = []
    for section in sections:
        own_tables, own_figures = [], []
        for table in section.tables:
            table_number += 1
            own_tables.append(replace(table, number=table_number))
        for figure in section.figures:
            figure_number += 1
            own_figures.append(replace(figure, number=figure_number))
        found.append(replace(section, tables=tuple(own_tables), figures=tuple(own_figures)))
    return found
