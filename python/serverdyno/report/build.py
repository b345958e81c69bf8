"""From an experiment to its report: numbers first, then tables and figures, then sentences on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from serverdyno import clean
from serverdyno.analysis import pairs, precision
from serverdyno.analysis.pairs import Comparison
from serverdyno.errors import DynoError
from serverdyno.report import answer, caveats, contents, findings
from serverdyno.report.figures.levels import levels
from serverdyno.report.figures.raw import raw_tables
from serverdyno.report.figures.results import Results, compute
from serverdyno.report.figures.sides import sides
from serverdyno.report.methodology import methodology
from serverdyno.report.model import Answer, Fact, Report, Section
from serverdyno.report.source import Source
from serverdyno.report.subjects import beside as published_beside
from serverdyno.report.subjects import capacity, durability, limits, open_load, outages, testbed
from serverdyno.report.subjects.disclosure import disclosure
from serverdyno.report.subjects.reproduce import reproduce

if TYPE_CHECKING:
    from serverdyno.published import PublishedReport
    from serverdyno.store.experiment import Experiment

Value = TypeVar("Value")


def build(experiment: Experiment, beside: PublishedReport | None = None) -> Report:
    """The report of a stored experiment, finished or not: of all that can be read of it, and of what can't.

    `beside`: a published report whose curves are to stand next to these.
    """
    return build_from(source_of(experiment), beside)


def source_of(experiment: Experiment) -> Source:
    """Return what a report is made from: all that can be read."""
    records, damaged_mixes = experiment.readable_mixes()
    run_notes, damaged_notes = experiment.readable_run_notes()
    damaged = [f"{error}" for error in (*damaged_mixes, *damaged_notes)]
    return Source(
        head=experiment.head,
        records=records,
        disclosure=_unless_damaged(experiment.disclosure, {}, damaged),
        run_notes=run_notes,
        power_cuts=_unless_damaged(experiment.power_cuts, [], damaged),
        plan_text=_unless_damaged(lambda: experiment.plan_text, "", damaged),
        damaged=tuple(damaged),
        set_aside=tuple(experiment.set_aside),
    )


def half_width_percent(source: Source) -> float | None:
    """Return how precise the overall averages are so far: see `analysis.precision`."""
    results = _judged(source)
    if len(results.configurations) == 1:
        return precision.of_one_configuration(results.configurations[0].runs.throughput)
    return precision.of_comparisons(_comparisons(source, results))


def _unless_damaged(read: Callable[[], Value], instead: Value, damaged: list[str]) -> Value:
    """What `read` gives; `instead`, with one more sentence in `damaged`, where its file is damaged."""
    try:
        return read()
    except DynoError as error:
        damaged.append(f"{error}")
        return instead


def build_from(source: Source, beside: PublishedReport | None = None) -> Report:
    """The report of records at hand. Text from records, notes and servers is cleaned here, for every view."""
    source = clean.everything(source)
    if source.head.suite.objective is not None:
        return _capacity(source)
    results = _judged(source)
    if source.cut is not None:
        return _outages(source, results)
    return (_open if source.open else _closed)(source, results, beside)


def _closed(source: Source, results: Results, beside: PublishedReport | None) -> Report:
    """Of clients that wait for their answers: peaks, curves, and throughput compared."""
    comparisons = _comparisons(source, results)
    under = contents.lines(results)
    first, summary, *others, bed = contents.numbered(
        [
            contents.answer(results, under),
            contents.summary(results, under),
            *contents.sections(source, results, comparisons, under),
            *([] if beside is None else [published_beside.section(results, beside)]),
            testbed.section(source),
        ]
    )
    labels = _labels(summary, others)
    return _report(
        source,
        results,
        answer=Answer(
            verdict=answer.verdict(source, results, comparisons),
            sure=answer.sure(source, results, comparisons),
            limit=limits.limit(results),
            gaps=answer.gaps(levels(source, results, comparisons), results),
            figures=first.figures,
            caveats=caveats.caveats(source, results),
        ),
        summary=replace(summary, text=findings.summary(source, results)),
        findings=findings.findings(source, results, comparisons, labels),
        sections=tuple(others),
        testbed=bed,
        comparisons=comparisons,
    )


def _open(source: Source, results: Results, beside: PublishedReport | None) -> Report:
    """Build the report of open load: response times by rate, and compared at equal rate.

    Published reports have no such figures: nothing stands `beside`.
    """
    del beside
    part = open_load.build(results)
    assert part.answer is not None and part.summary is not None
    summary, *others, bed = contents.numbered(
        [
            part.summary,
            *part.sections,
            *contents.open_sections(source, results, contents.lines(results)),
            testbed.section(source),
        ]
    )
    labels = _labels(summary, others)
    return _report(
        source,
        results,
        answer=replace(part.answer, caveats=caveats.caveats(source, results)),
        summary=replace(summary, text=findings.summary_without_peaks(source, results)),
        findings=(*part.findings(labels), *findings.of_any_load(source, results, labels)),
        sections=tuple(others),
        testbed=bed,
        comparisons=(),
    )


def _outages(source: Source, results: Results) -> Report:
    """Build the report of servers that are taken away from their clients. Throughput, of which the outage is a part,
    ranks nobody.
    """
    part = outages.build(results)
    assert part.answer is not None and part.summary is not None
    first, summary, *others, bed = contents.numbered(
        [
            Section("answer", "Answer", figures=part.answer.figures),
            part.summary,
            *contents.outage_sections(source, results, contents.lines(results)),
            testbed.section(source),
        ]
    )
    labels = _labels(summary, others)
    return _report(
        source,
        results,
        answer=replace(part.answer, figures=first.figures, caveats=caveats.caveats(source, results)),
        summary=replace(summary, text=findings.summary_without_peaks(source, results)),
        findings=(
            *part.findings(labels),
            *findings.of_durability(results, labels),
            *findings.of_any_load(source, results, labels),
        ),
        sections=tuple(others),
        testbed=bed,
        comparisons=(),
    )


def _capacity(source: Source) -> Report:
    """Build the report of a search for the highest rate that holds an objective: trial by trial, then rate by rate."""
    source = capacity.by_rate(source)
    results = _judged(source)
    part = capacity.build(results)
    assert part.answer is not None and part.summary is not None
    summary, *others, bed = contents.numbered(
        [
            part.summary,
            *part.sections,
            *open_load.build(results).sections,
            *contents.open_sections(source, results, contents.lines(results)),
            testbed.section(source),
        ]
    )
    labels = _labels(summary, others)
    return _report(
        source,
        results,
        answer=replace(part.answer, caveats=caveats.caveats(source, results)),
        summary=replace(summary, text=findings.summary_without_peaks(source, results)),
        findings=(*part.findings(labels), *findings.of_any_load(source, results, labels)),
        sections=tuple(others),
        testbed=bed,
        comparisons=(),
    )


def _judged(source: Source) -> Results:
    """Return the figures of a source, with what was found out about flushes."""
    results = compute(source)
    found = tuple(durability.promises(source, results.used))
    return replace(results, promises=found, outcomes=durability.outcomes(found))


def _labels(summary: Section, others: Sequence[Section]) -> dict[str, str]:
    return {table.key: table.label for section in (summary, *others) for table in section.tables}


def _report(source: Source, results: Results, **parts: Any) -> Report:
    """With what is said of every experiment."""
    comparisons = parts["comparisons"]
    return Report(
        title=source.head.plan.title,
        source=source,
        results=results,
        particulars=_particulars(source),
        methodology=methodology(source, results, comparisons),
        disclosure=disclosure(source.disclosure),
        reproduce=reproduce(source),
        raw=raw_tables(source, results, comparisons),
        **parts,
    )


def _comparisons(source: Source, results: Results) -> tuple[Comparison, ...]:
    return pairs.compared(
        pairs.pairs(sides(results)),
        paired=source.paired,
        margins=source.margins,
    )


def _particulars(source: Source) -> tuple[Fact, ...]:
    head = source.head
    return (
        Fact("Experiment", head.plan.name),
        Fact("Suite", head.suite.name),
        Fact("Made", f"{head.created:%Y-%m-%d %H:%M %Z}"),
        Fact("Tool", f"Serverdyno {head.tool_version}"),
    )
