"""Which sections a report has, in their order, and which table or figure stands in which.

Each is made in the module that bears its name; what has nothing to show is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from serverdyno import wording
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import Mark
from serverdyno.report.figures.designs import Designs, Tuned
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.scaling import Group
from serverdyno.report.model import Section
from serverdyno.report.sections import (
    clients,
    curves,
    drawings,
    durability,
    operations,
    scaling,
    tables,
    timeline,
    tuning,
)
from serverdyno.report.source import Source
from serverdyno.report.words import scaling as scaling_words
from serverdyno.report.words.basis import Over, basis


@dataclass(frozen=True, slots=True)
class Lines:
    """The line under a table or figure, by what was done with the repetitions."""

    mean: str
    mean_alone: str
    together: str
    summed: str
    each: str


def lines(source: Source, results: Results) -> Lines:
    """Of this experiment."""
    return Lines(
        mean=basis(source, results),
        mean_alone=basis(source, results, Over.MEAN_ALONE),
        together=basis(source, results, Over.TOGETHER),
        summed=basis(source, results, Over.SUM),
        each=basis(source, results, Over.EACH),
    )


def summary(results: Results, under: Lines) -> Section:
    """The executive summary, its sentences still to come."""
    return Section(
        key="summary",
        title="Executive summary",
        figures=tuple(drawings.peaks(results, under.mean)),
        tables=(tables.peaks(results, under.mean),),
    )


def sections(
    source: Source, results: Results, designs: Designs, comparisons: tuple[Comparison, ...], under: Lines
) -> list[Section]:
    """All results after the summary."""
    return [
        *_throughput(source, results, comparisons, under),
        *_scaling(results, designs.scaling, under.mean),
        *_tuning(designs.tuned, under.mean),
        *_durability(source, results, under.each),
        *_times(source, results, under),
        *_clients(source, results, under),
        *_trust(source, results, under),
    ]


def _throughput(
    source: Source, results: Results, comparisons: tuple[Comparison, ...], under: Lines
) -> list[Section]:
    by_mix = tuple(
        replace(table, key=table.key + suffix)
        for make in (tables.throughput, tables.second_throughput)
        for suffix, group in drawings.groups(results)
        for table in (make(source, results.terms, group, under.mean),)
    )
    drawn = tuple(drawings.throughput(source, results, under.mean))
    found = [Section("throughput", "Throughput", figures=drawn, tables=by_mix)]
    if comparisons:
        improvements = tables.improvements(comparisons, results.terms, under.mean)
        found.append(Section("improvement", "Improvement", tables=(improvements,)))
    seconds = tuple(timeline.figures(source, results, under.mean_alone))
    shape = (curves.table(results, under.mean),)
    return [*found, Section("shape", "The shape of the curves", figures=seconds, tables=shape)]


def _scaling(results: Results, found: Sequence[Group], line: str) -> list[Section]:
    if not found:
        return []
    return [
        Section(
            key="scaling",
            title="Scaling over CPUs",
            text=tuple(scaling_words.law_text(group, results.terms) for group in found),
            figures=(scaling.figure(found, results.terms, line),),
            tables=(scaling.table(found, results.terms, line),),
        )
    ]


def _tuning(tuned: Tuned | None, line: str) -> list[Section]:
    if tuned is None:
        return []
    return [
        Section(
            key="tuning",
            title="Tunings one by one and together",
            figures=tuple(tuning.figure(tuned.effects, line)),
            tables=(tuning.table(tuned.design, tuned.effects, line),),
        )
    ]


def _durability(source: Source, results: Results, line: str) -> list[Section]:
    if not source.head.suite.work.has_durability:
        return []
    text = "A flush promises that what was written is on the disk. This is how we know whether it was."
    shown = durability.table(results.promises, line)
    return [Section("durability", "Durability: what a flush did", text=(text,), tables=(shown,))]


def _times(source: Source, results: Results, under: Lines) -> list[Section]:
    terms = results.terms
    of_classes = (
        operations.by_class(results, under.summed),
        operations.times_by_class(results, under.together),
    )
    return [
        Section(
            key="response",
            title="Response times",
            figures=tuple(drawings.response_times(results, under.together)),
            tables=(tables.response_times(results, under.together),),
        ),
        Section("classes", f"Classes of {terms.classes}", tables=of_classes),
    ]


def _clients(source: Source, results: Results, under: Lines) -> list[Section]:
    """How clients connected, and of file servers how each of them fared: there a client has one session."""
    connected = [
        operations.connections(results, under.summed),
        operations.handshakes(results, under.summed),
    ]
    connections = Section(
        "connections", "Connections", tables=tuple(table for table in connected if table is not None)
    )
    if not source.head.suite.work.shows_clients:
        return [connections]
    of_files = (
        clients.per_client_table(results, under.mean),
        clients.saved_table(results, under.summed),
        clients.calls_table(results, under.summed),
    )
    return [Section("clients", "Client by client", tables=of_files), connections]


def _trust(source: Source, results: Results, under: Lines) -> list[Section]:
    """What the figures cost, what went wrong, and in which order they were made."""
    return [
        Section(
            key="cpu",
            title=f"CPU per {results.terms.operation}",
            text=_cpu_text(results),
            figures=tuple(drawings.costs(results, under.mean)),
            tables=(tables.costs(results, under.mean),),
        ),
        Section(
            key="errors",
            title="Errors and clients that left",
            text=_error_text(results),
            tables=(tables.errors(results, under.summed),),
        ),
        Section("order", "Order of the runs", tables=(tables.runs(source, results, under.each),)),
    ]


def _cpu_text(results: Results) -> tuple[str, ...]:
    unmeasured = [
        result.name
        for result in results.configurations
        if any(mix is not None and mix.cost.server_cpus_busy is None for mix in result.mixes)
    ]
    if not unmeasured:
        return ()
    return (f"The server's CPU could not be measured for {wording.listing(unmeasured)}.",)


def _error_text(results: Results) -> tuple[str, ...]:
    if not results.mixes or any(mix.marks & {Mark.ERRORS, Mark.CLIENTS_LEFT} for mix in results.mixes):
        return ()
    return (
        f"No {results.terms.operation} failed and no client left, in the ramps as in the windows, so the table has no "
        "rows.",
    )


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
