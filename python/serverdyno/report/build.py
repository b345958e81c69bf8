"""From an experiment to its report: numbers first, then tables and figures, then sentences on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from serverdyno.analysis.improvement import Figure, improvement
from serverdyno.analysis.trust import Mark, limits
from serverdyno.report import caveats, figures, findings, tables, wording
from serverdyno.report.basis import Over, basis
from serverdyno.report.disclosure import disclosure
from serverdyno.report.methodology import methodology
from serverdyno.report.model import Comparison, Fact, Report, Section
from serverdyno.report.raw import raw_tables
from serverdyno.report.results import ConfigurationResult, Results, compute
from serverdyno.report.source import Source

if TYPE_CHECKING:
    from serverdyno.store.experiment import Experiment


def build(experiment: Experiment) -> Report:
    """The report of a stored experiment, finished or not."""
    return build_from(
        Source(
            head=experiment.head,
            records=experiment.mixes(),
            ceilings=experiment.ceilings(),
            disclosure=experiment.disclosure(),
            run_notes=experiment.run_notes(),
        )
    )


def build_from(source: Source) -> Report:
    """The report of records at hand."""
    results = compute(source)
    comparisons = _comparisons(source, results)
    line = basis(source, results)
    summary, *sections = _numbered([_summary(results, line), *_sections(source, results, comparisons, line)])
    labels = {table.key: table.label for section in (summary, *sections) for table in section.tables}
    return Report(
        title=source.head.plan.title,
        source=source,
        results=results,
        particulars=_particulars(source),
        warnings=caveats.warnings(source, results),
        summary=replace(summary, text=findings.summary(source, results, comparisons)),
        findings=findings.findings(source, results, comparisons, labels),
        methodology=methodology(source, results),
        sections=tuple(sections),
        disclosure=disclosure(source.disclosure),
        comparisons=comparisons,
        raw=raw_tables(source, results, comparisons),
    )


def compared(base: ConfigurationResult, other: ConfigurationResult, *, paired: bool) -> Comparison:
    """Peak and overall average of `other` against `base`."""
    return Comparison(
        base=base.name,
        other=other.name,
        improvements=tuple(improvement(base.runs, other.runs, figure, paired=paired) for figure in Figure),
        limits=tuple((result.name, mark) for result in (base, other) for mark in limits(result.marks)),
    )


def _comparisons(source: Source, results: Results) -> tuple[Comparison, ...]:
    base, *others = results.configurations
    return tuple(compared(base, other, paired=source.paired) for other in others)


def _particulars(source: Source) -> tuple[Fact, ...]:
    head = source.head
    return (
        Fact("Experiment", head.plan.name),
        Fact("Suite", head.suite.name),
        Fact("Made", f"{head.created:%Y-%m-%d %H:%M %Z}"),
        Fact("Tool", f"Serverdyno {head.tool_version}"),
    )


def _summary(results: Results, line: str) -> Section:
    return Section(
        key="summary",
        title="Executive summary",
        figures=tuple(figures.peaks(results, line)),
        tables=(tables.peaks(results, line),),
    )


def _sections(
    source: Source, results: Results, comparisons: tuple[Comparison, ...], line: str
) -> list[Section]:
    groups = list(figures.groups(results))
    together, summed = basis(source, results, Over.TOGETHER), basis(source, results, Over.SUM)
    sections = [
        Section(
            key="throughput",
            title="Throughput",
            figures=tuple(figures.throughput(source, results, line)),
            tables=tuple(
                replace(table, key=table.key + suffix)
                for make in (tables.throughput, tables.bit_rate)
                for suffix, group in groups
                for table in (make(source, group, line),)
            ),
        ),
        Section(
            key="response",
            title="Response times",
            figures=tuple(figures.response_times(results, together)),
            tables=(tables.response_times(results, together),),
        ),
        Section(
            key="cpu",
            title="CPU per request",
            text=_cpu_text(results),
            figures=tuple(figures.costs(results, line)),
            tables=(tables.costs(results, line),),
        ),
        Section(key="classes", title="Classes of file", tables=(tables.operations(results, summed),)),
        Section(
            key="errors",
            title="Errors and clients that left",
            text=_error_text(results),
            tables=(tables.errors(results, summed),),
        ),
        Section(key="order", title="Order of the runs", tables=(tables.runs(source, results, summed),)),
    ]
    if comparisons:
        improvements = tables.improvements(comparisons, line)
        sections.insert(1, Section(key="improvement", title="Improvement", tables=(improvements,)))
    return sections


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
    if any(mix.marks & {Mark.ERRORS, Mark.CLIENTS_LEFT} for mix in results.mixes):
        return ()
    return (
        "No request failed and no client left, in the ramps as in the windows, so the table has no rows.",
    )


def _numbered(sections: list[Section]) -> list[Section]:
    """Numbers tables and figures in the order in which they appear."""
    table_number = figure_number = 0
    numbered = []
    for section in sections:
        own_tables, own_figures = [], []
        for table in section.tables:
            table_number += 1
            own_tables.append(replace(table, number=table_number))
        for figure in section.figures:
            figure_number += 1
            own_figures.append(replace(figure, number=figure_number))
        numbered.append(replace(section, tables=tuple(own_tables), figures=tuple(own_figures)))
    return numbered
