"""The tables and sections of an experiment with open load: its axis is the offered rate."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.protocols.work import Terms
from serverdyno.report.basis import letters, mark_notes
from serverdyno.report.figures.histograms import QUANTILE_NAMES
from serverdyno.report.figures.results import MixFigures, Results
from serverdyno.report.model import Cell, Column, Section, Table
from serverdyno.report.parts import (
    NAME,
    errors_cell,
    level_column,
    spread_cell,
)
from serverdyno.report.subjects import response_times, times_compared
from serverdyno.report.subjects.open_load import QUANTILE
from serverdyno.report.subjects.times_compared import TimesCompared


def summary(results: Results, mean: str, together: str) -> Section:
    """The executive summary, its sentences still to come."""
    return Section(
        key="summary",
        title="Offered rate and response time",
        figures=(*response_times.charts(results), *response_times.tail_against_throughput(results)),
        tables=(table(results, together),),
    )


def section(results: Results, together: str) -> Section:
    """The same table by itself, where something else is the summary."""
    return Section("rates", "Offered rate and response time", tables=(table(results, together),))


def table(results: Results, basis: str) -> Table:
    """One row a configuration and offered rate."""
    rows = tuple(
        _row(result.name, mix, results)
        for result in results.configurations
        for mix in result.finished
        if mix.open is not None
    )
    terms = results.terms
    one = f"{'an' if terms.operation[0] in 'aeiou' else 'a'} {terms.operation}"
    columns = (
        NAME,
        level_column(results.axis),
        Column("Came", terms.rate_unit),
        Column("Answered", terms.rate_unit),
        *(Column(name, "ms") for name in QUANTILE_NAMES),
        Column("Waited", f"for a {terms.server_of_arrivals}"),
        Column("Dropped", terms.operations),
        Column("Overdue", terms.operations),
        Column("Errors"),
        Column("Sent late", "p99, ms"),
        Column("n", "runs"),
    )
    notes = (
        f"Response times count from when {one} came, whether a {terms.server_of_arrivals} was free or not. Dropped "
        f"{terms.operations} count as slower than every answer in percentiles.",
        f"Overdue: came before the end of the mix, and no {terms.server_of_arrivals} came to them. Sent late: how much "
        f"later than it could the generator sent {one}.",
        *mark_notes(frozenset().union(*(result.marks for result in results.configurations))),
    )
    title = "Response time by offered rate"
    return Table("open", 0, title, basis, columns, rows, notes, key_columns=2)


def _answered_cell(mix: MixFigures, terms: Terms) -> Cell:
    """Operations a second, in whatever throughput is counted."""
    if terms.throughput_counts_operations:
        return spread_cell(mix.throughput, terms.written)
    return spread_cell(mix.second, terms.second_written)


def _row(name: str, mix: MixFigures, results: Results) -> tuple[Cell, ...]:
    found = mix.open
    assert found is not None  # the caller looked
    percentiles = mix.response.percentiles_ms if mix.response else (None,) * len(QUANTILE_NAMES)
    late = found.scheduling_error.percentiles_ms[QUANTILE] if found.scheduling_error else None
    return (
        Cell(name),
        Cell(f"{mix.level:,}", marks=letters(mix.marks)),
        Cell(wording.rate(found.arrived_s)),
        _answered_cell(mix, results.terms),
        *(Cell(wording.significant(value)) for value in percentiles),
        Cell(wording.share(found.waited_share)),
        Cell(f"{found.dropped:,}"),
        Cell(f"{found.overdue:,}"),
        errors_cell([mix]),
        Cell(wording.significant(late)),
        Cell(f"{mix.repetitions}"),
    )


def differences(results: Results, pairs: Sequence[TimesCompared], basis: str) -> list[Section]:
    """Each pair at each offered rate; nothing of one configuration."""
    if not pairs:
        return []
    rows = times_compared.rows(pairs, lambda pair, level: _mix(results, pair.base, level.mix).level)
    columns = times_compared.columns(
        level_column(results.axis), Column("p99", "ms, base below"), Column("Change of p99")
    )
    notes = (
        "Faster: p99 is shorter. p99: harmonic mean over the repetitions. Only rates that both kept up with are "
        f"compared. {times_compared.VERDICTS_NOTE}",
    )
    title = "p99 at equal offered rate"
    found = Table("equal", 0, title, basis, columns, rows, notes, key_columns=2)
    return [Section("improvement", "Differences at equal offered rate", tables=(found,))]


def _mix(results: Results, name: str, place: int) -> MixFigures:
    found = next(result for result in results.configurations if result.name == name).mixes[place]
    assert found is not None  # levels are of finished mixes
    return found
