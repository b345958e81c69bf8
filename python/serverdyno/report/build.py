"""From an experiment to its report: numbers first, then tables and figures, then sentences on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from serverdyno.report import caveats, findings, pairs, sections
from serverdyno.report.disclosure import disclosure
from serverdyno.report.methodology import methodology
from serverdyno.report.model import Comparison, Fact, Report
from serverdyno.report.raw import raw_tables
from serverdyno.report.results import Results, compute
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
    under = sections.lines(source, results)
    summary, *others = sections.numbered(
        [sections.summary(results, under), *sections.sections(source, results, comparisons, under)]
    )
    labels = {table.key: table.label for section in (summary, *others) for table in section.tables}
    return Report(
        title=source.head.plan.title,
        source=source,
        results=results,
        particulars=_particulars(source),
        warnings=caveats.warnings(source, results),
        summary=replace(summary, text=findings.summary(source, results, comparisons)),
        findings=findings.findings(source, results, comparisons, labels),
        methodology=methodology(source, results, comparisons),
        sections=tuple(others),
        disclosure=disclosure(source.disclosure),
        comparisons=comparisons,
        raw=raw_tables(source, results, comparisons),
    )


def _comparisons(source: Source, results: Results) -> tuple[Comparison, ...]:
    return pairs.compared(
        pairs.pairs(results.configurations),
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
    )


def _particulars(source: Source) -> tuple[Fact, ...]:
    head = source.head
    return (
        Fact("Experiment", head.plan.name),
        Fact("Suite", head.suite.name),
        Fact("Made", f"{head.created:%Y-%m-%d %H:%M %Z}"),
        Fact("Tool", f"Serverdyno {head.tool_version}"),
    )
