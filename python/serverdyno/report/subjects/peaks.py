"""Peaks and throughput: each configuration's peak, its load level, and the throughput beyond it.

Sentences name every peak that something besides the server may have limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from serverdyno import units, wording
from serverdyno.analysis.oddities import mostly_own_queue
from serverdyno.analysis.trust import LIMITS, Mark, limits
from serverdyno.plan.protocols.work import Terms
from serverdyno.report.basis import Over, basis, letters, mark_notes
from serverdyno.report.figures.histograms import QUANTILES
from serverdyno.report.figures.links import links_mbit_s
from serverdyno.report.figures.results import SIDES, ConfigurationResult, LevelFigures, Results
from serverdyno.report.model import Cell, Column, Figure, Finding, Labels, Panel, Part, Section, Series, Table
from serverdyno.report.parts import (
    FAIRNESS,
    NAME,
    always,
    capital,
    errors_cell,
    groups,
    key_to_marks,
    level_column,
    level_figures,
    lines_of,
    span,
    spread_cell,
    spread_point,
)
from serverdyno.report.subjects import curves, durability

PLAN_BOUND = {Mark.RATE_BOUND, Mark.LINK_BOUND}
BELOW_CACHE_UNIT = "Mbit/s below the cache"
BELOW_CACHE = (
    "Below the cache: all bytes that clients and server exchanged for the operations of the window, including "
    "framing and the cache's own requests. The throughput is counted above the client's cache, which answers "
    "some operations itself."
)
LEAST_UPLOAD_BYTES = 1000
"""Smallest mean size of a request that counts as an upload: header blocks are usually smaller."""
MOST_FINDINGS = 8
"""Maximum number of findings on peaks and comparisons; the tables have the rest."""


applies = always

LEAST_NETWORK_MS = 0.01
"""A time shorter than any exchange with another process, even over loopback."""


def build(results: Results) -> Part:
    drawn, second = tuple(_throughput_charts(results)), results.terms.second_title
    sections = (
        Section("throughput", "Throughput", figures=drawn, tables=_by_portion(results, _throughput)),
        Section("second", second, tables=_by_portion(results, _second_throughput), appendix=True),
    )
    if not results.source.closed_load:
        return Part(sections)
    said = [_highest_and_lowest(results)] if any(result.peak for result in results.configurations) else []
    summary = Section(
        "summary",
        "Peaks and averages",
        text=tuple(said),
        figures=tuple(_peak_chart(results)),
        tables=(_peak_table(results),),
    )
    return Part(sections, partial(_findings, results), summary=summary)


def _findings(results: Results, tables: Labels) -> list[Finding]:
    found = [_peak_finding(results, result, tables) for result in named(results)]
    return [*found, *curves.unsaturated(results, tables)]


def _peak_table(results: Results) -> Table:
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
        Column("At the peak", terms.second_unit),
        Column("Overall average", terms.unit),
        Column("p50", "ms, at the peak"),
        Column("p99", "ms, at the peak"),
        Column("Errors", "all load levels"),
        Column("Kept at the highest load", "share of peak"),
        Column("Fairness", "Jain's index, at the peak"),
        Column("n", "runs"),
    )
    notes = (*mark_notes(marks), FAIRNESS)
    if any(result.throughput and result.throughput.still_rising for result in results.configurations):
        notes = (*notes, "≥ throughput was still rising at the highest load, so the peak is a lower bound.")
    title = "Peak and overall average by configuration"
    return Table("peaks", 0, title, basis(results), columns, tuple(rows), notes)


def _peak_row(result: ConfigurationResult, terms: Terms) -> tuple[Cell, ...]:
    summary, peak = result.throughput, result.peak
    if summary is None or peak is None:
        return (Cell(result.name), *(Cell(wording.NOTHING) for _ in range(9)), Cell(wording.whole(0)))
    bound = f"≥{wording.NO_BREAK}" if summary.still_rising else ""
    return (
        Cell(result.name),
        Cell(
            units.Written(bound + terms.written(summary.peak.mean), summary.peak.mean),
            span(summary.peak, terms.written),
            True,
            letters(peak.marks),
        ),
        Cell(wording.whole(peak.load)),
        spread_cell(peak.second, terms.second_written),
        spread_cell(summary.overall_average, terms.written),
        *_tail_cells(peak),
        errors_cell(result.finished),
        Cell(wording.share(summary.share_of_peak_kept)),
        spread_cell(peak.fairness, wording.index),
        Cell(wording.whole(peak.repetitions)),
    )


def _tail_cells(level: LevelFigures) -> list[Cell]:
    known = level.response.percentiles_ms if level.response else (None,) * len(QUANTILES)
    return [Cell(wording.significant(known[QUANTILES.index(quantile)])) for quantile in (0.5, 0.99)]


def _throughput(results: Results, configurations: Sequence[ConfigurationResult]) -> Table:
    """Return a table, one row per load level and one column per configuration, with the peak in bold.

    For file servers, a second column per configuration has the throughput below the client's cache.
    """
    terms = results.terms
    of_files = terms.below_cache

    def cells(result: ConfigurationResult, place: int) -> list[Cell]:
        level, summary = result.levels[place], result.throughput
        if level is None or summary is None:
            return [Cell(wording.NOTHING)] * (1 + of_files)
        text, detail = terms.written(level.throughput.mean), span(level.throughput, terms.written)
        found = [Cell(text, detail, summary.peak_level == place, letters(level.marks))]
        return [*found, spread_cell(level.below_cache_mbit_s)] if of_files else found

    empty = Table("throughput", 0, f"Throughput in {terms.unit}", basis(results), (), ())
    units = (terms.unit, BELOW_CACHE_UNIT) if of_files else (terms.unit,)
    made = _by_clients(results, configurations, empty, units, cells)
    return replace(made, notes=(*made.notes, BELOW_CACHE)) if of_files else made


def _second_throughput(results: Results, configurations: Sequence[ConfigurationResult]) -> Table:
    """Return the table of the second figure, like the table of throughput, with the highest value in bold."""
    terms = results.terms

    def cells(result: ConfigurationResult, place: int) -> list[Cell]:
        level, summary = result.levels[place], result.second
        if level is None or summary is None:
            return [Cell(wording.NOTHING)]
        text, detail = terms.second_written(level.second.mean), span(level.second, terms.second_written)
        return [Cell(text, detail, summary.peak_level == place, letters(level.marks))]

    empty = Table("second", 0, terms.second_title, basis(results), (), ())
    return _by_clients(results, configurations, empty, (terms.second_unit,), cells)


def _by_clients(
    results: Results,
    configurations: Sequence[ConfigurationResult],
    empty: Table,
    units: Sequence[str],
    cells: Callable[[ConfigurationResult, int], list[Cell]],
) -> Table:
    """Return a table, one row per load level. `cells`: a configuration's cells at a level, one for each unit."""
    axis = results.axis
    rows = tuple(
        (
            Cell(wording.whole(axis.load(level))),
            Cell(wording.whole(level.threads)),
            *(cell for result in configurations for cell in cells(result, place)),
        )
        for place, level in enumerate(results.source.head.levels)
    )
    found = [level.marks for result in configurations for level in result.finished]
    return replace(
        empty,
        columns=(
            level_column(axis),
            Column("Threads", "per client"),
            *(Column(result.name, unit) for result in configurations for unit in units),
        ),
        rows=rows,
        notes=("Bold: the highest mean of a configuration.", *mark_notes(frozenset().union(*found))),
    )


def _by_portion(
    results: Results, make: Callable[[Results, Sequence[ConfigurationResult]], Table]
) -> tuple[Table, ...]:
    made = [(suffix, make(results, group)) for suffix, group in groups(results)]
    return tuple(replace(table, key=table.key + suffix) for suffix, table in made)


def _peak_chart(results: Results) -> Iterator[Figure]:
    """Yield a bar chart of each configuration's peak with its range, highest first."""
    series = tuple(
        Series(result.name, style, (spread_point(0, result.throughput.peak, result.peak.marks),))
        for style, result in enumerate(results.configurations)
        if result.throughput is not None and result.peak is not None
    )
    if not series:
        return
    series = tuple(sorted(series, key=lambda bar: -bar.points[0].y))
    unit = results.terms.unit
    panels = (Panel("", f"Peak, {unit}", series),)
    line = basis(results) + key_to_marks(panels)
    yield Figure("peaks", 0, "Peak throughput", line, "bars", capital(unit), panels)


def _throughput_charts(results: Results) -> Iterator[Figure]:
    """Yield charts of throughput against the load level, with the bounds of the plan."""
    title = f"Throughput against {results.axis.column}"
    panels = partial(_throughput_panel, results)
    yield from level_figures(results, "throughput", title, Over.MEAN, lambda group: [panels(group)])


def _throughput_panel(results: Results, group: Sequence[ConfigurationResult]) -> Panel:
    terms = results.terms
    series = lines_of(results, group, lambda level: spread_point(level.load, level.throughput, level.marks))
    if not terms.throughput_counts_operations:
        # Bounds are in operations/s, so they can't be drawn in a chart of Mbit/s.
        return Panel("", terms.unit, series)
    highest = max((point.high or point.y for line in series for point in line.points), default=0.0)
    bounds = results.source.max_rate_per_s
    levels = [
        (bounds[result.name], f"Rate limit of {result.name}") for result in group if result.name in bounds
    ]
    near = tuple((level, name) for level, name in levels if 0 < level < 1.5 * highest)
    return Panel("", capital(terms.unit), series, levels=near)


def _highest_and_lowest(results: Results) -> str:
    # Name different effects of a flush here, because readers may rank the peaks without reading on.
    beside = durability.beside_peaks(results.promises)
    ranked = _ranked([result for result in results.configurations if result.throughput is not None])
    highest = _peak_claim(ranked[0], results.terms, beside)
    if len(ranked) == 1:
        return f"Peak: {highest}"
    if _may_be_as_high(ranked[-1], ranked[0]):
        claims = " ".join(_peak_claim(result, results.terms, beside) for result in (ranked[0], ranked[-1]))
        return f"The peaks can't be ranked, because the generator or the plan limited the lowest: {claims}"
    return f"Highest peak: {highest} Lowest peak: {_peak_claim(ranked[-1], results.terms, beside)}"


def _may_be_as_high(lowest: ConfigurationResult, highest: ConfigurationResult) -> bool:
    """Return whether the generator or the plan may hide more of the lowest peak than the peaks differ."""
    peak = lowest.peak
    if peak is None or not lowest.peak_height:
        return False
    hidden = peak.hidden_speed if Mark.GENERATOR_LIMITED in peak.marks else None
    return (
        not peak.marks.isdisjoint(PLAN_BOUND)
        or lowest.peak_height * (1 + (hidden or 0.0)) > highest.peak_height
    )


def named(results: Results) -> list[ConfigurationResult]:
    """Return the configurations that findings name: all if few; else the base, the highest and the lowest."""
    configurations, comparisons = results.configurations, results.comparisons
    if len(configurations) <= MOST_FINDINGS // 2 or len(configurations) + len(comparisons) <= MOST_FINDINGS:
        return list(configurations)
    ranked = _ranked(configurations)
    outstanding = {configurations[0].name, ranked[0].name, ranked[-1].name}
    return [result for result in configurations if result.name in outstanding]


def _ranked(configurations: Sequence[ConfigurationResult]) -> list[ConfigurationResult]:
    """Return the configurations by peak, highest first; those without a peak come last."""
    return sorted(
        configurations,
        key=lambda result: result.peak_height if result.throughput else -1.0,
        reverse=True,
    )


def _peak_claim(result: ConfigurationResult, terms: Terms, beside: Mapping[str, str]) -> str:
    summary, peak = result.throughput, result.peak
    if summary is None or peak is None:
        return f"{result.name} finished no load level."
    if summary.peak.mean == 0:
        return _nothing_counted(result, terms)
    words = _limit_words(peak)
    limited = f" ({words})" if words else ""
    missing = missing_words(peak, terms)
    flushed = f", {beside[result.name]}" if result.name in beside else ""
    return (
        f"{result.name}, {terms.written(result.peak_height)} {terms.unit}{limited} with "
        f"{peak.at}{missing}{flushed}."
    )


def _limit_words(level: LevelFigures) -> str:
    """Return the limits of a figure other than the server, and how much faster the server may be."""
    words = ", ".join(LIMITS[mark] for mark in limits(level.marks))
    if Mark.GENERATOR_LIMITED not in level.marks:
        return words
    if level.hidden_speed_is_loose:
        return f"{words}: how much faster the server may be is not known"
    return f"{words}: the server may be up to {wording.share(level.hidden_speed)} faster"


def missing_words(level: LevelFigures, terms: Terms) -> str:
    """Return how many clients did not work, and why, in the repetition with the most; empty if all worked."""
    up_to = "up to " if level.repetitions > 1 else ""
    absent = level.clients - level.clients_took_part
    if level.clients_left == level.clients_never_began:
        why = "unable to begin"
    else:
        why = "unable to begin or gone early" if level.clients_never_began else "gone early"
    parts = [f", {up_to}{absent:,} of them {why}"] if absent else []
    if level.clients_starved:
        parts.append(f", {up_to}{level.clients_starved:,} of them without a completed {terms.operation}")
    return "".join(parts)


def _nothing_counted(result: ConfigurationResult, terms: Terms) -> str:
    """Return why throughput is zero: no success, no data, or only successes of clients that left."""
    if not any(level.operations_s.mean for level in result.finished):
        return f"{result.name} completed no {terms.operation} in any window."
    deserted = [f"{level.clients:,}" for level in result.finished if level.all_clients_left]
    if not deserted:
        return f"{result.name} moved no data in any window."
    levels = "the load level" if len(deserted) == 1 else "the load levels"
    clients = f"{wording.listing(deserted)} {'client' if deserted == ['1'] else 'clients'}"
    return (
        f"{result.name} has no throughput: all clients left at {levels} of {clients}, and their earlier work "
        "is not counted."
    )


def _peak_finding(results: Results, result: ConfigurationResult, tables: Labels) -> Finding:
    summary, peak, terms = result.throughput, result.peak, results.terms
    if summary is None or peak is None:
        return Finding("Peak", f"{result.name} finished no load level, so it has no figures.", tables["runs"])
    if summary.peak.mean == 0:
        return Finding("Peak", _nothing_counted(result, terms), f"{_error_words(peak)}. {tables['errors']}.")
    sent = sent_words(results, result)
    figures = (
        f"{terms.written(result.peak_height)} {terms.unit} "
        f"({terms.second_written(peak.second.mean)} {terms.second_unit}{f' received, {sent}' if sent else ''}) with "
        f"{peak.at}{missing_words(peak, terms)}"
    )
    limited = _limit_words(peak)
    if not peak.marks.isdisjoint(PLAN_BOUND):
        claim = (
            f"{result.name} reached {figures}. {_bound_words(results, result, peak)} limited it ({limited}), so "
            "the server's own peak is not known."
        )
    else:
        qualified = f", {limited}" if limited else ""
        corrected = curves.corrected_peak_words(result, terms)
        claim = f"{result.name} peaked at {figures}{qualified}.{corrected} {_after_the_peak(result, peak)}"
    evidence = [
        _spread_words(peak, terms),
        *curves.peak_words(result, terms),
        _network_words(peak),
        _response_words(peak),
        _hidden_words(peak),
        f"{tables['peaks']} and {tables['shape']}",
    ]
    return Finding("Peak", claim, "; ".join(part for part in evidence if part) + ".")


def _bound_words(results: Results, result: ConfigurationResult, peak: LevelFigures) -> str:
    if Mark.RATE_BOUND in peak.marks:
        return f"The plan's bound of {wording.rate(results.source.max_rate_per_s[result.name])} requests/s"
    used = links_mbit_s(results.records(result.name, peak.index)[0], results.source.head.plan.testbed)
    return f"The plan's links, {wording.rate(used)} Mbit/s in each direction,"


def sent_words(results: Results, result: ConfigurationResult) -> str:
    """Return `1,608 Mbit/s sent` at the peak, if clients sent more bytes than they received; else empty."""
    assert result.peak is not None
    records = results.records(result.name, result.peak.index)
    operations, sent = (
        sum(record.operations for record in records),
        sum(record.bytes_out for record in records),
    )
    is_upload = sent > max(sum(record.bytes_in for record in records), LEAST_UPLOAD_BYTES * operations)
    if not results.work.uses_documents or not is_upload:
        return ""
    mbit_s = units.mbit_per_s(sent, sum(record.window_s for record in records))
    return f"{wording.significant(mbit_s)} Mbit/s sent"


def _after_the_peak(result: ConfigurationResult, peak: LevelFigures) -> str:
    summary = result.throughput
    if summary is None or sum(point is not None for point in summary.points) < 2:
        return "Only one load level was tested, so other loads are unknown."
    if summary.still_rising:
        return "That is the highest load tested, so the true peak may lie higher."
    if summary.share_of_peak_kept is None:
        return (
            "The highest load is missing, so it is not known how much of the peak throughput remains there."
        )
    last = next(level for level in reversed(result.levels) if level is not None)
    if summary.share_of_peak_kept == 1:
        return "That is the highest load tested; there, throughput no longer rose by more than the noise."
    kept = wording.share(summary.share_of_peak_kept)
    return f"With {last.at}, the highest load, it kept {kept} of this throughput."


def _spread_words(level: LevelFigures, terms: Terms) -> str:
    spread = level.throughput
    if spread.n < 2:
        return "1 repetition"
    return f"mean of {spread.n} repetitions, {terms.span(spread.minimum, spread.maximum)} {terms.unit}"


def time_words(name: str, value_ms: float, level: LevelFigures) -> str:
    """Return `p50 0.28 ms`, and say if the time is so short that only a client's own cache can have answered."""
    cached = level.network_share is not None and value_ms < LEAST_NETWORK_MS
    return f"{name} {wording.significant(value_ms)} ms{' (answered by the client cache)' if cached else ''}"


def _response_words(level: LevelFigures) -> str:
    if level.response is None:
        return ""
    median, tail = (level.response.percentiles_ms[QUANTILES.index(quantile)] for quantile in (0.5, 0.99))
    if median is None or tail is None:
        return ""
    words = f"response time {time_words('p50', median, level)}, {time_words('p99', tail, level)}"
    limited = Mark.GENERATOR_LIMITED in level.marks
    mostly_own = limited and mostly_own_queue(level.own_queue_ms, level.response.mean_ms)
    return f"{words}, most of it in the generator's own queue" if mostly_own else words


def _network_words(level: LevelFigures) -> str:
    """Return the share of a file server's throughput that reached it; clients' caches answered the rest."""
    if level.network_share is None:
        return ""
    return f"the network carried {wording.share(level.network_share)} of the bytes that applications moved"


def _hidden_words(level: LevelFigures) -> str:
    if level.is_failing or Mark.LINK_BOUND in level.marks:
        return ""
    if level.hidden_speed is None:
        return "whether the generator limited the server was not measured"
    if level.hidden_speed_is_loose:
        return "the generator waited for a CPU, so its effect on the figure is not known"
    return f"without the generator's delays, the server would be at most {wording.share(level.hidden_speed)} faster"


def _error_words(level: LevelFigures) -> str:
    sides = [f"{units.format_count(level.errors[side])} {side}" for side in SIDES if level.errors[side]]
    return f"Errors at {level.at}: {wording.listing(sides)}" if sides else "No error counted"
