"""The tables of the report. What they mean is said in `findings`; the unrounded figures are in `raw`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from serverdyno import wording
from serverdyno.analysis.improvement import CONFIDENCE, Improvement
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import Mark
from serverdyno.plan.axis import axis_of
from serverdyno.protocols.work import Terms
from serverdyno.report.basis import letters, mark_notes
from serverdyno.report.figures.histograms import QUANTILES
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Cell, Column, Table
from serverdyno.report.parts import NAME, errors_cell, level_column, span, spread_cell
from serverdyno.report.source import Source
from serverdyno.report.subjects import differences
from serverdyno.store.note import RunNote

BELOW_CACHE_UNIT = "Mbit/s below the cache"
BELOW_CACHE = (
    "Below the cache: all bytes between clients and server, both ways, framing and what clients ask on their own "
    "included; for operations of the window, of all clients. Throughput counts above the client's cache, which answers "
    "a part itself."
)


FAIRNESS = (
    "Fairness, at the peak: 1 where all clients were served alike, 1 / clients where one had everything (Jain, Chiu "
    "and Hawe, 1984)."
)


def peaks(results: Results, basis: str) -> Table:
    """One row a configuration: the peak and what surrounds it."""
    marks: frozenset[Mark] = frozenset()
    rows = []
    for result in results.configurations:
        rows.append(_peak_row(result, results.terms))
        marks |= result.peak.marks if result.peak else frozenset()
    terms = results.terms
    columns = (
        NAME,
        Column("Peak", terms.unit),
        Column(f"at {results.axis.heading[0].lower()}", results.axis.heading[1]),
        Column(terms.second_heading, terms.second_unit),
        Column("Overall average", terms.unit),
        Column("p50", "ms, at the peak"),
        Column("p99", "ms, at the peak"),
        Column("Errors", "all load levels"),
        Column("Kept at the highest load", "share of peak"),
        Column("Fairness", "Jain's index"),
        Column("n", "runs"),
    )
    notes = (*mark_notes(marks), FAIRNESS)
    if any(result.throughput and result.throughput.still_rising for result in results.configurations):
        notes = (*notes, "≥ throughput was still rising at the last mix, so the peak is a lower bound.")
    return Table("peaks", 0, "Peak and overall average by configuration", basis, columns, tuple(rows), notes)


def _peak_row(result: ConfigurationResult, terms: Terms) -> tuple[Cell, ...]:
    summary, peak = result.throughput, result.peak
    if summary is None or peak is None:
        return (Cell(result.name), *(Cell(wording.NOTHING) for _ in range(9)), Cell("0"))
    bound = f"≥{wording.NO_BREAK}" if summary.still_rising else ""
    return (
        Cell(result.name),
        Cell(
            bound + terms.written(summary.peak.mean),
            span(summary.peak, terms.written),
            True,
            letters(peak.marks),
        ),
        Cell(f"{peak.level:,}"),
        spread_cell(peak.second, terms.second_written),
        spread_cell(summary.overall_average, terms.written),
        *_tail_cells(peak),
        errors_cell(result.finished),
        Cell(wording.share(summary.share_of_peak_kept)),
        spread_cell(peak.fairness, wording.index),
        Cell(f"{peak.repetitions}"),
    )


def _tail_cells(mix: MixFigures) -> list[Cell]:
    """p50 and p99."""
    known = mix.response.percentiles_ms if mix.response else (None,) * len(QUANTILES)
    return [Cell(wording.significant(known[QUANTILES.index(quantile)])) for quantile in (0.5, 0.99)]


def throughput(
    source: Source, terms: Terms, configurations: Sequence[ConfigurationResult], basis: str
) -> Table:
    """Throughput: one row a mix, one column a configuration, the peak in bold; of file servers next to each what passed
    below the client's cache.
    """
    of_files = terms.below_cache

    def cells(result: ConfigurationResult, place: int) -> list[Cell]:
        mix, summary = result.mixes[place], result.throughput
        if mix is None or summary is None:
            return [Cell(wording.NOTHING)] * (1 + of_files)
        text, detail = terms.written(mix.throughput.mean), span(mix.throughput, terms.written)
        found = [Cell(text, detail, summary.peak_mix == place, letters(mix.marks))]
        return [*found, spread_cell(mix.below_cache_mbit_s)] if of_files else found

    empty = Table("throughput", 0, f"Throughput in {terms.unit}", basis, (), ())
    units = (terms.unit, BELOW_CACHE_UNIT) if of_files else (terms.unit,)
    made = _by_clients(source, configurations, empty, units, cells)
    return replace(made, notes=(*made.notes, BELOW_CACHE)) if of_files else made


def second_throughput(
    source: Source, terms: Terms, configurations: Sequence[ConfigurationResult], basis: str
) -> Table:
    """The figure next to throughput: one row a mix, one column a configuration, the highest in bold."""

    def cells(result: ConfigurationResult, place: int) -> list[Cell]:
        mix, summary = result.mixes[place], result.second
        if mix is None or summary is None:
            return [Cell(wording.NOTHING)]
        text, detail = terms.second_written(mix.second.mean), span(mix.second, terms.second_written)
        return [Cell(text, detail, summary.peak_mix == place, letters(mix.marks))]

    empty = Table("second", 0, terms.second_title, basis, (), ())
    return _by_clients(source, configurations, empty, (terms.second_unit,), cells)


def _by_clients(
    source: Source,
    configurations: Sequence[ConfigurationResult],
    empty: Table,
    units: Sequence[str],
    cells: Callable[[ConfigurationResult, int], list[Cell]],
) -> Table:
    """`cells`: of a configuration at a mix, by its place; one for each unit."""
    axis = axis_of(source.head.suite.axis, source.head.suite.terms.operation)
    rows = tuple(
        (
            Cell(f"{axis.level(mix):,}"),
            Cell(f"{mix.threads:,}"),
            *(cell for result in configurations for cell in cells(result, place)),
        )
        for place, mix in enumerate(source.head.mixes)
    )
    found = [mix.marks for result in configurations for mix in result.finished]
    return replace(
        empty,
        columns=(
            level_column(axis),
            Column("Threads", "a client"),
            *(Column(result.name, unit) for result in configurations for unit in units),
        ),
        rows=rows,
        notes=("Bold: the highest mean of a configuration.", *mark_notes(frozenset().union(*found))),
    )


def improvements(comparisons: Sequence[Comparison], terms: Terms, basis: str) -> Table:
    """One row a comparison and figure."""
    bases = {comparison.base for comparison in comparisons}
    against = len(bases) > 1
    rows = [
        _improvement_row(comparison, improvement, terms, against=against)
        for comparison in comparisons
        for improvement in comparison.improvements
    ]
    columns = (
        Column("Configuration", "against its base" if against else "", numeric=False),
        Column("Figure", numeric=False),
        Column(terms.unit[0].upper() + terms.unit[1:], "base below"),
        Column("Improvement"),
        Column(f"{CONFIDENCE:.0%} interval".replace("%", " %")),
        Column("Verdict", numeric=False),
        Column("Finds", "in 4 of 5 cases"),
        Column("5 % takes", "runs"),
        Column("n", "runs"),
    )
    notes: tuple[str, ...] = (
        "Improvement: configuration / base - 1. Interval: t interval on the log ratio, from two repetitions on. Finds: "
        "the least difference that such an experiment claims in 4 of 5 cases; and the repetitions that 5 % would take.",
        *_verdict_notes(comparisons),
        "A peak is compared by cross-validation: each half of the runs is read where the other half peaks. So the "
        "figure may lie below the highest mean, which noise lifts.",
    )
    notes += mark_notes(
        frozenset().union(
            *(_marks(comparison, found) for comparison in comparisons for found in comparison.improvements)
        )
    )
    if any(comparison.limits for comparison in comparisons):
        notes += (
            "A mark of an improvement that limits it: of any mix of either side, so the servers may differ by more or "
            "less.",
        )
    title = f"Improvement over {'the base' if against else bases.pop()}"
    return Table("improvements", 0, title, basis, columns, tuple(rows), notes, key_columns=2)


def _verdict_notes(comparisons: Sequence[Comparison]) -> list[str]:
    """What the verdicts are about, and how many of them there are."""
    notes = []
    if least := comparisons[0].improvements[0].minimum_percent:
        notes.append(
            f"Faster and slower: by more than the plan's minimum effect of {least:g}{wording.NO_BREAK}%, with the "
            "whole interval."
        )
    correction = differences.correction(
        [found for comparison in comparisons for found in comparison.improvements]
    )
    if correction:
        notes.append(
            f"Verdicts are corrected for {correction} (Holm 1979); intervals stand alone, so one that leaves out 0 % "
            "may belong to no difference shown."
        )
    return notes


def _marks(comparison: Comparison, improvement: Improvement) -> frozenset[Mark]:
    partial = {Mark.PART_OF_A_PASS} if improvement.figure in comparison.parts_of_a_pass else set[Mark]()
    return frozenset({mark for _, mark in comparison.limits} | partial)


def _improvement_row(
    comparison: Comparison, improvement: Improvement, terms: Terms, *, against: bool
) -> tuple[Cell, ...]:
    return (
        Cell(comparison.other, f"against {comparison.base}" if against else ""),
        Cell(improvement.figure.value),
        _compared_cell(improvement, terms),
        Cell(
            wording.change(improvement.percent),
            strong=True,
            marks=letters(_marks(comparison, improvement)),
        ),
        Cell(wording.change_span(improvement.low_percent, improvement.high_percent)),
        Cell(
            improvement.verdict.value,
            "; ".join(differences.reason(each) for each in comparison.obstacles.get(improvement.figure, ())),
        ),
        Cell(wording.change(improvement.found_percent)),
        Cell(
            wording.NOTHING
            if improvement.repetitions_needed is None
            else f"{improvement.repetitions_needed:,}"
        ),
        Cell(f"{improvement.repetitions}"),
    )


def _compared_cell(improvement: Improvement, terms: Terms) -> Cell:
    """Both figures, the base below; nothing where no whole run of both was there to be read."""
    if not improvement.repetitions or not improvement.mixes:
        return Cell(wording.NOTHING, wording.NOTHING)
    return Cell(terms.written(improvement.other), terms.written(improvement.base))


def runs(source: Source, results: Results, basis: str) -> Table:
    """The order in which the runs were made, how much of each was finished, and the server's own count."""
    finished = Counter(record.run for record in results.used)
    rows = tuple(
        (
            Cell(f"{key.number}"),
            Cell(key.configuration),
            Cell(f"{key.repetition}"),
            Cell(f"{finished[key.number]} of {len(source.head.mixes)}"),
            *_note_cells(source.run_notes.get(key.number)),
        )
        for key in source.head.order
    )
    columns = (
        Column("Run"),
        NAME,
        Column("Repetition"),
        Column("Tests finished"),
        Column("State", numeric=False),
        Column("Answered", "requests"),
        Column("Failed", "requests"),
        Column("The server's count", "requests"),
    )
    notes = (results.terms.requests_note,)
    return Table("runs", 0, "Order of the runs", basis, columns, rows, notes)


def _note_cells(note: RunNote | None) -> list[Cell]:
    if note is None:
        return [Cell(wording.NOTHING)] * 4
    counts = (note.requests_answered, note.requests_failed, note.requests_by_server_count)
    return [Cell(note.state), *(Cell(wording.NOTHING if count is None else f"{count:,}") for count in counts)]
