"""From an experiment to its report: judged results first, then one subject after the other.

Here is what spans all subjects: their order, the numbers of tables and figures, and the order of the findings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from serverdyno import clean, wording
from serverdyno.analysis import precision
from serverdyno.errors import DynoError
from serverdyno.report.basis import NAMES_STATEMENT
from serverdyno.report.caveats import caveats
from serverdyno.report.figures.raw import raw_tables
from serverdyno.report.figures.results import Results, compute
from serverdyno.report.methodology import methodology
from serverdyno.report.model import Fact, Part, Report, Section
from serverdyno.report.parts import numbered
from serverdyno.report.source import Source
from serverdyno.report.subjects import (
    anomalies,
    answer,
    capacity,
    clients,
    connections,
    cost,
    curves,
    differences,
    durability,
    errors,
    factorial,
    nodes,
    open_load,
    operations,
    outages,
    peaks,
    response_times,
    runs,
    scaling,
    testbed,
    timeline,
    tuning,
)
from serverdyno.report.subjects import beside as next_to
from serverdyno.report.subjects.disclosure import disclosure
from serverdyno.report.subjects.reproduce import reproduce

if TYPE_CHECKING:
    from serverdyno.published import PublishedReport
    from serverdyno.store.experiment import Experiment

Value = TypeVar("Value")


class Subject(Protocol):
    """A module that holds all that a report says about one thing."""

    def applies(self, results: Results, /) -> bool:
        """Return whether a report has this subject."""

    def build(self, results: Results, /) -> Part:
        """Return what it says."""


FIRST: tuple[Subject, ...] = (capacity, open_load, outages, answer, peaks, differences)
VARIED: tuple[Subject, ...] = (scaling, tuning, factorial)
REST: tuple[Subject, ...] = (
    durability,
    response_times,
    cost,
    errors,
    timeline,
    operations,
    clients,
    nodes,
    connections,
    runs,
    anomalies,
)
SUBJECTS = (*FIRST, curves, *VARIED, *REST)
"""In the order of their sections."""
FINDINGS = (*FIRST, *VARIED, curves, *REST)
"""In the order of their sentences: what a plan varied on purpose comes before what was only seen."""
MOST_SUBJECTS = 6
"""Configurations that one sentence names."""


def build(experiment: Experiment, beside: PublishedReport | None = None) -> Report:
    """Build the report of a stored experiment, finished or not, of all that can be read.

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
    results = judged(source)
    if len(results.configurations) == 1:
        return precision.of_one_configuration(results.configurations[0].runs.throughput)
    return precision.of_comparisons(results.comparisons or differences.compared(results))


def _unless_damaged(read: Callable[[], Value], instead: Value, damaged: list[str]) -> Value:
    """Return what `read` returns; `instead`, with one more sentence in `damaged`, if its file is damaged."""
    try:
        return read()
    except DynoError as error:
        damaged.append(f"{error}")
        return instead


def judged(source: Source) -> Results:
    """Return the figures of a source with all that is judged by them: flushes, and throughput compared."""
    results = compute(source)
    found = tuple(durability.promises(source, results.used))
    results = replace(results, promises=found, outcomes=durability.outcomes(found))
    return replace(results, comparisons=differences.compared(results)) if source.closed_load else results


def build_from(source: Source, beside: PublishedReport | None = None) -> Report:
    """Build the report of records at hand. Text from records, notes and servers is cleaned here, for every view.

    Published reports have peaks: next to other experiments nothing stands `beside`.
    """
    source = clean.everything(source)
    results = judged(source if source.head.suite.objective is None else capacity.by_rate(source))
    parts = {subject: subject.build(results) for subject in SUBJECTS if subject.applies(results)}
    found = next(part.answer for part in parts.values() if part.answer is not None)
    summary = next(part.summary for part in parts.values() if part.summary is not None)
    sections = [section for part in parts.values() for section in part.sections]
    published = [] if beside is None or not source.closed_load else [next_to.section(results, beside)]
    first, summary, *others, bed = numbered(
        [
            Section("answer", "Answer", figures=found.figures),
            summary,
            *(section for section in sections if not section.appendix),
            *(section for section in sections if section.appendix),
            *published,
            testbed.section(results.source),
        ]
    )
    labels = {table.key: table.label for section in (summary, *others) for table in section.tables}
    return Report(
        title=source.head.plan.title,
        particulars=_particulars(source),
        answer=replace(found, figures=first.figures, caveats=caveats(results)),
        summary=replace(summary, text=(_what_was_done(results), *summary.text, NAMES_STATEMENT)),
        findings=tuple(
            finding for subject in FINDINGS if subject in parts for finding in parts[subject].findings(labels)
        ),
        methodology=methodology(results),
        sections=tuple(others),
        testbed=bed,
        disclosure=disclosure(source.disclosure),
        reproduce=reproduce(results.source),
        raw=raw_tables(results),
        source=results.source,
        results=results,
        comparisons=results.comparisons,
    )


def _what_was_done(results: Results) -> str:
    source = results.source
    names = source.configuration_names
    levels = [results.axis.level(mix) for mix in source.head.mixes]
    subject = wording.listing(names) if len(names) <= MOST_SUBJECTS else f"{len(names):,} configurations"
    runs = sorted({len(source.repetitions_of(name)) for name in names})
    times = {1: "once", 2: "twice"}.get(runs[-1], f"{runs[-1]:,} times") if runs else "never"
    each = f"{times} each" if len(names) > 1 else times
    order = f", in {source.head.plan.order} order" if len(names) > 1 and runs and runs[-1] > 1 else ""
    load = (
        f"at {wording.plural(len(levels), 'load level')} from {min(levels):,} to {results.axis.words(max(levels))}"
        if len(set(levels)) > 1
        else f"with {results.axis.words(levels[0])}"
    )
    done = len(results.used)
    completed = (
        f"All {done:,} tests completed."
        if done == source.planned_mixes
        else f"{done:,} of {wording.plural(source.planned_mixes, 'test')} completed."
    )
    return f"We tested {subject} {load} of the suite {source.head.suite.name}, {each}{order}. {completed}"


def _particulars(source: Source) -> tuple[Fact, ...]:
    head = source.head
    return (
        Fact("Experiment", head.plan.name),
        Fact("Suite", head.suite.name),
        Fact("Made", f"{head.created:%Y-%m-%d %H:%M %Z}"),
        Fact("Tool", f"Serverdyno {head.tool_version}"),
    )
