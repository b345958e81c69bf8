"""Build the report of an experiment: figures and verdicts first, then one subject after another.

This module defines the order of subjects and findings, and numbers the tables and figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from serverdyno import clean, wording
from serverdyno.analysis import precision
from serverdyno.errors import DynoError
from serverdyno.report.basis import NAMES_STATEMENT
from serverdyno.report.caveats import caveats
from serverdyno.report.figures.raw import RawTable, raw_tables
from serverdyno.report.figures.results import Results, compute
from serverdyno.report.figures.steps import Step, compared, totals
from serverdyno.report.methodology import methodology
from serverdyno.report.model import Fact, Finding, Labels, Part, Report, Section
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
    steps,
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
    """A module that builds the part of a report on one topic."""

    def applies(self, results: Results, /) -> bool:
        """Return whether a report has this subject."""

    def build(self, results: Results, /) -> Part:
        """Return the tables, figures and sentences of the subject."""


FIRST: tuple[Subject, ...] = (capacity, open_load, outages, answer, peaks, differences, steps)
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
"""Subjects in the order of their sections."""
FINDINGS = (*FIRST, *VARIED, curves, *REST)
"""Subjects in the order of their findings. Factors that a plan varied come before effects that were only observed."""
MOST_SUBJECTS = 6
"""Maximum number of configurations that one sentence names."""


def build(experiment: Experiment, beside: PublishedReport | None = None) -> Report:
    """Build the report of a stored experiment, which may be unfinished, from all records that can be read.

    `beside`: a published report whose curves are shown next to the experiment's.
    """
    return build_from(source_of(experiment), beside)


def source_of(experiment: Experiment) -> Source:
    records, damaged_levels = experiment.readable_levels()
    run_notes, damaged_notes = experiment.readable_run_notes()
    damaged = [f"{error}" for error in (*damaged_levels, *damaged_notes)]
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
    """Return the precision so far of the overall averages, or of the steps' total times, in percent.

    `analysis.precision` defines it. None if it is not known yet.
    """
    if not source.in_time[0].head.levels:
        return precision.of_totals(totals(compared(source), source), paired=source.paired)
    results = judged(source.in_time[0])
    if len(results.configurations) == 1:
        return precision.of_one_configuration(results.configurations[0].runs.throughput)
    return precision.of_comparisons(results.comparisons or differences.compared(results))


def _unless_damaged(read: Callable[[], Value], instead: Value, damaged: list[str]) -> Value:
    """Return `read()`. If its file is damaged, add a sentence to `damaged` and return `instead`."""
    try:
        return read()
    except DynoError as error:
        damaged.append(f"{error}")
        return instead


def judged(source: Source) -> Results:
    """Return the figures of a source with the verdicts on flushes and throughput."""
    results = compute(source)
    found = tuple(durability.promises(source, results.used))
    results = replace(results, promises=found, outcomes=durability.outcomes(found))
    return replace(results, comparisons=differences.compared(results)) if source.closed_load else results


def build_from(source: Source, beside: PublishedReport | None = None) -> Report:
    """Build the report of a source, with all text from records, notes and servers cleaned for every view.

    Published reports have peaks, so `beside` is ignored for experiments of other kinds.
    """
    source = clean.everything(source)
    found = compared(source)
    views = [
        _View(source, part, found if place == 0 else (), first=place == 0)
        for place, part in enumerate(source.in_time)
    ]
    results = views[0].results
    if len(source.head.suites) == 1 and results.source.head.levels:
        source = results.source  # a search's levels are its rates
    published = [] if beside is None or not results.source.closed_load else [next_to.section(results, beside)]
    made = numbered(
        [
            Section("answer", "Answer", figures=tuple(f for view in views for f in view.answer.figures)),
            *(view.summary for view in views),
            *(section for view in views for section in view.sections if not section.appendix),
            *(section for view in views for section in view.sections if section.appendix),
            *published,
            testbed.section(source),
        ]
    )
    (first, summary, *others), bed = made[:-1], made[-1]
    labels = {table.key: table.label for section in (summary, *others) for table in section.tables}
    comparisons = tuple(each for view in views for each in view.results.comparisons)
    return Report(
        title=source.head.plan.title,
        particulars=_particulars(source),
        answer=replace(
            views[0].answer,
            verdict=" ".join(view.verdict for view in views),
            told=tuple(line for view in views for line in view.told),
            figures=first.figures,
            caveats=(
                *dict.fromkeys(caveat for view in views for caveat in caveats(view.results)),
                *steps.caveats(source, found),
            ),
        ),
        summary=replace(
            summary,
            text=(*(_what_was_done(view.results) for view in views), *summary.text, NAMES_STATEMENT),
        ),
        findings=tuple(finding for view in views for finding in view.findings(labels)),
        methodology=(*_methodology(views), *steps.methodology(source)),
        sections=tuple(others),
        testbed=bed,
        disclosure=(*steps.disclosures(results), *disclosure(source.disclosure)),
        reproduce=reproduce(source),
        raw=(*(table for view in views for table in view.raw()), *steps.raw(results)),
        source=source,
        results=results,
        comparisons=comparisons,
    )


def _methodology(views: Sequence[_View]) -> Iterator[Fact]:
    """Yield each fact that holds for all suites once, and every other fact under the name of its suite."""
    told = [methodology(view.results) for view in views if view.results.source.head.levels]
    for view, facts in zip(views, told, strict=False):
        for fact in facts:
            if all(fact in others for others in told):
                if facts is told[0]:
                    yield fact
            else:
                yield Fact(view.named(fact.label), fact.text)


class _View:
    """The part of a report about one timed suite. The first part also covers all steps.

    If a plan has several timed suites, titles and sentences name the suite.
    """

    def __init__(self, source: Source, part: Source, found: tuple[Step, ...], *, first: bool) -> None:
        results = judged(part if part.head.suite.objective is None else capacity.by_rate(part))
        self.results = replace(results, steps=found, whole_source=source if first else None)
        self.parts = {
            subject: subject.build(self.results) for subject in SUBJECTS if subject.applies(self.results)
        }
        several = len(source.in_time) > 1
        self._suite = part.head.suite.name if several else ""
        own = list(self.parts.values())
        self.answer, *more = [each.answer for each in own if each.answer is not None]
        # The verdict on load is first, if there is load; verdicts on steps are last.
        self.verdict = " ".join([self.named(self.answer.verdict), *(each.verdict for each in more)])
        self.told = tuple(line for each in (self.answer, *more) for line in each.told)
        summary, *further = [each.summary for each in own if each.summary is not None]
        self.summary = self._section(summary)
        self.sections = [
            *further,
            *(
                section if subject is steps else self._section(section)
                for subject, each in self.parts.items()
                for section in each.sections
            ),
        ]

    def named(self, text: str) -> str:
        return f"{self._suite}: {text}" if self._suite else text

    def findings(self, labels: Labels) -> Iterator[Finding]:
        own = {key.removeprefix(self._prefix): label for key, label in labels.items()}
        for subject in FINDINGS:
            if subject in self.parts:
                for finding in self.parts[subject].findings(own):
                    yield replace(finding, topic=self.named(finding.topic))

    def raw(self) -> Iterator[RawTable]:
        for table in raw_tables(self.results):
            yield replace(table, name=f"{self._prefix}{table.name}")

    @property
    def _prefix(self) -> str:
        return f"{self._suite}-" if self._suite else ""

    def _section(self, section: Section) -> Section:
        if not self._suite:
            return section
        return replace(
            section,
            key=f"{self._prefix}{section.key}",
            title=self.named(section.title),
            tables=tuple(replace(table, key=f"{self._prefix}{table.key}") for table in section.tables),
            figures=tuple(replace(each, key=f"{self._prefix}{each.key}") for each in section.figures),
        )


def _what_was_done(results: Results) -> str:
    source = results.source
    if not source.head.levels:
        return "We timed each step of " + wording.listing([suite.name for suite in source.head.suites]) + "."
    names = source.configuration_names
    levels = [results.axis.load(level) for level in source.head.levels]
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
        f"All {done:,} load levels completed."
        if done == source.planned_levels
        else f"{done:,} of {wording.plural(source.planned_levels, 'load level')} completed."
    )
    return f"We tested {subject} {load} of the suite {source.head.suite.name}, {each}{order}. {completed}"


def _particulars(source: Source) -> tuple[Fact, ...]:
    head = source.head
    return (
        Fact("Experiment", head.plan.name),
        Fact("Suite", ", ".join(suite.name for suite in head.suites)),
        Fact("Made", f"{head.created:%Y-%m-%d %H:%M %Z}"),
        Fact("Tool", f"Serverdyno {head.tool_version}"),
    )
