"""Open load: the rates that each server kept up with, the response times, and their comparison.

Configurations are compared by the 99th percentile of the response time at the same offered rate. If a side falls
behind, its percentile depends on the length of the level, so the report says only that it fell behind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from serverdyno import units, wording
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.levels import AtLevel
from serverdyno.analysis.trust import (
    FAILED_SHARE,
    HIDDEN_SPEED,
    SAMPLES_BEYOND_PERCENTILE,
    Mark,
    hidden_speed,
    waiting_share,
)
from serverdyno.plan.open_load import Law
from serverdyno.plan.protocols.work import Terms
from serverdyno.report.basis import Over, basis, letters, mark_notes
from serverdyno.report.figures import histograms
from serverdyno.report.figures.histograms import MEDIAN, QUANTILE_NAMES, QUANTILES
from serverdyno.report.figures.open_load import kept_up, unanswered
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.model import Answer, Cell, Column, Finding, Labels, Part, Section, Table
from serverdyno.report.parts import NAME, errors_cell, level_column, named, spread_cell
from serverdyno.report.source import Source
from serverdyno.report.subjects import errors, limits, response_times, times_compared
from serverdyno.report.subjects.times_compared import (
    TimesCompared,
    change_percent,
    compared,
    side_of_times,
    undecided,
)
from serverdyno.store.head import PeakNote
from serverdyno.store.records import LevelRecord

QUANTILE = histograms.QUANTILES.index(0.99)
RESOLUTION_PERCENT = 0.2
"""Width of two buckets of a histogram with three digits: equal servers may be in adjacent buckets in every run."""

TITLE = "Offered rate and response time"
LOAD = (
    "{Operations} are due at a given rate, {law}, regardless of earlier ones. The generator sends them over "
    "{connections}. {One} that finds no free {connection} waits for one, and its response time counts from "
    "the moment when it was due (Tene, How NOT to measure latency). At most {queue} may wait. The generator "
    "drops any more, which count as slower than every answer."
)
PEAKS = (
    "Rates are {percents} % of the lowest peak, {lowest} {unit} of {name}. All configurations get the same rates, "
    "because response times are comparable only at the same rate. Peaks come from a closed load of "
    "{connections} before the "
    "runs, in a window of {window}: {listed} {unit}."
)
HELD_BACK = (
    "the rate limit (--max-rate, or max_rate_per_s in bounds) delayed requests. Whether the server keeps up "
    "is not known. Set the limit to at least twice the rate."
)
HELD_BACK_MARKS = {Mark.BEHIND, Mark.RATE_BOUND}
LEAST_SAMPLES = round(SAMPLES_BEYOND_PERCENTILE / (1 - QUANTILES[QUANTILE]))
"""Number of answers that a 99th percentile needs."""
LAWS = {"poisson": "at random (Poisson)", "uniform": "at even intervals"}


def applies(results: Results) -> bool:
    return results.source.open


def build(results: Results) -> Part:
    pairs = at_equal_rate(results)
    differences = tuple(_differences(results, pairs))
    if results.source.head.suite.objective is not None:
        # In a search, `capacity` gives the answer.
        return Part((Section("rates", TITLE, tables=(table(results),)), *differences))
    figures = (*response_times.charts(results), *response_times.tail_against_throughput(results))
    return Part(
        differences,
        partial(_findings, results, pairs),
        answer=Answer(
            verdict=_verdict(results, pairs),
            sure=_sure(results),
            limit=limits.limit(results),
            gaps="",
            figures=(),
            caveats=(),
        ),
        summary=Section("summary", TITLE, figures=figures, tables=(table(results),)),
    )


def at_equal_rate(results: Results) -> tuple[TimesCompared, ...]:
    """Compare each pair of configurations, with the earlier in the plan as the base."""
    source = results.source
    timeout_ms = source.head.suite.timeout_s * 1000
    by_side = [
        side_of_times(
            side, result, results, lambda record: _p99_ms(record, timeout_ms, source.head.suite.law)
        )
        for side, result in zip(sides(results), results.configurations, strict=True)
    ]
    return compared(
        list(combinations(by_side, 2)),
        paired=source.paired,
        minimum_percent=max(source.head.plan.minimum_effect_percent, RESOLUTION_PERCENT),
    )


def _p99_ms(record: LevelRecord, timeout_ms: float, law: Law) -> float | None:
    """Return p99, with unanswered operations ranked above every answer; None if the server fell behind."""
    if not kept_up(record, law):
        return None
    found = histograms.times([record.response_time_hdr], *unanswered([record], timeout_ms))
    return None if found is None else found.percentiles_ms[QUANTILE]


def table(results: Results) -> Table:
    rows = tuple(_row(level, results) for level in results.levels if level.open is not None)
    terms = results.terms
    one = f"{'an' if terms.operation[0] in 'aeiou' else 'a'} {terms.operation}"
    columns = (
        NAME,
        level_column(results.axis),
        Column("Arrival rate", terms.rate_unit),
        Column("Answered", terms.rate_unit),
        *(Column(name, "ms") for name in QUANTILE_NAMES),
        Column("Waited", f"share, for a {terms.server_of_arrivals}"),
        Column("Dropped", terms.operations),
        Column("Never sent", terms.operations),
        Column("Errors"),
        Column("Sent late", "p99, ms"),
        Column("n", "runs"),
    )
    notes = (
        f"Response times count from the moment when {one} was due, whether a {terms.server_of_arrivals} was free or "
        f"not. In percentiles, dropped {terms.operations} count as slower than every answer. Arrival rate: the "
        f"{terms.operations} that were due in the window.",
        f"Never sent: {terms.operations} that were due before the end of the load level, but found no free "
        f"{terms.server_of_arrivals}. Sent late: the delay that the generator caused.",
        *mark_notes(results.marks),
    )
    title = "Response time by offered rate"
    return Table("open", 0, title, basis(results, Over.TOGETHER), columns, rows, notes, key_columns=2)


def _answered_cell(level: LevelFigures, terms: Terms) -> Cell:
    """Return a cell with operations/s, even if throughput has another unit."""
    if terms.throughput_counts_operations:
        return spread_cell(level.throughput, terms.written)
    return spread_cell(level.second, terms.second_written)


def _row(level: LevelFigures, results: Results) -> tuple[Cell, ...]:
    found = level.open
    assert found is not None
    percentiles = level.response.percentiles_ms if level.response else (None,) * len(QUANTILE_NAMES)
    late = found.scheduling_error.percentiles_ms[QUANTILE] if found.scheduling_error else None
    return (
        Cell(level.configuration),
        Cell(wording.whole(level.load), marks=letters(level.marks)),
        Cell(wording.rate(found.arrived_s)),
        _answered_cell(level, results.terms),
        *(Cell(wording.significant(value)) for value in percentiles),
        Cell(wording.share(found.waited_share)),
        Cell(wording.whole(found.dropped)),
        Cell(wording.whole(found.overdue)),
        errors_cell([level]),
        Cell(wording.significant(late)),
        Cell(wording.whole(level.repetitions)),
    )


def _differences(results: Results, pairs: Sequence[TimesCompared]) -> Iterator[Section]:
    """Yield the comparison of each pair at each offered rate, if there are pairs."""
    if not pairs:
        return
    rows = times_compared.rows(pairs, lambda pair, level: results.at(pair.base, level.index).load)
    columns = times_compared.columns(
        level_column(results.axis), Column("p99", "ms; second line: base"), Column("Change of p99")
    )
    notes = (
        "Faster: p99 is shorter. p99: harmonic mean over the repetitions. The table compares only rates at which "
        f"both servers kept up. {times_compared.VERDICTS_NOTE}",
    )
    title = "p99 at the same offered rate"
    found = Table("equal", 0, title, basis(results), columns, rows, notes, key_columns=2)
    yield Section("improvement", "Differences at the same offered rate", tables=(found,))


def load(source: Source) -> str:
    """Return the methodology's description of the open load."""
    suite = source.head.suite
    assert suite.open is not None
    connections, terms = suite.clients[-1] * suite.threads, suite.terms
    return LOAD.format(
        Operations=terms.operations.capitalize(),
        One=f"{'An' if terms.operation[0] in 'aeiou' else 'A'} {terms.operation}",
        law=LAWS[suite.open.law],
        connections=wording.plural(connections, terms.server_of_arrivals),
        connection=terms.server_of_arrivals,
        queue=f"{suite.open.queue:,}",
    )


def peaks(source: Source) -> str:
    """Return the methodology's description of how rates follow from peaks; empty if the suite gives the rates."""
    found = source.head.peaks
    if found is None:
        return ""
    lowest = min(found.peaks, key=lambda peak: peak.requests_s)
    listed = wording.listing(
        [f"{peak.configuration} {wording.rate(peak.requests_s)}{_hidden(peak)}" for peak in found.peaks]
    )
    percents = wording.listing([f"{percent}" for percent in found.percents])
    terms = source.head.suite.terms
    return PEAKS.format(
        percents=percents,
        lowest=wording.rate(lowest.requests_s),
        name=lowest.configuration,
        connections=wording.plural(lowest.connections, terms.server_of_arrivals),
        unit=terms.rate_unit,
        window=wording.seconds(lowest.window_s),
        listed=listed,
    )


def _hidden(peak: PeakNote) -> str:
    """Return a note if the generator may have limited a peak; else an empty text."""
    clients_s = peak.connections * peak.window_s
    hidden = hidden_speed(waiting_share(peak.ready_work_s, clients_s, peak.run_delay_share), None)
    return (
        f" (the generator limited it: the server may be up to {wording.share(hidden)} faster)"
        if hidden is not None and hidden > HIDDEN_SPEED
        else ""
    )


def _verdict(results: Results, pairs: Sequence[TimesCompared]) -> str:
    """Return which configuration answers faster at the same rate; for a single one, the rates that it kept up with."""
    counted = [
        result for result in results.configurations if any(level.response for level in result.finished)
    ]
    if not results.levels:
        return "There is no result: no load level finished."
    if not counted:
        return f"There is no result: no {results.terms.operation} succeeded."
    if len(results.configurations) == 1:
        return _kept(counted[0], results.terms)
    proven = [(pair, level) for pair in pairs for level in pair.found if level.proven]
    behind = [_behind(result, results.terms) for result in results.configurations]
    said = [words for words in behind if words]
    if proven:
        pair, level = max(proven, key=lambda found: abs(change_percent(found[1].percent) or 0.0))
        faster, slower, gap = _gap(pair, level)
        said.insert(
            0, f"{faster} answers faster than {slower}: p99 {gap} at {results.at(pair.base, level.index).at}."
        )
    elif not any(pair.found for pair in pairs):
        said.insert(0, _incomparable(results))
    elif undecided(pairs):
        said.insert(0, "No winner: a difference at the same rate needs two repetitions.")
    else:
        said.insert(0, "No winner: no difference in p99 at the same rate is proven.")
    return " ".join(said)


def _incomparable(results: Results) -> str:
    """Return why no rate has a p99 of two configurations: no two kept up, or there were too few answers."""
    kept = [{level.load for level in _kept_up(result)} for result in results.configurations]
    both = sorted(set().union(*(one & other for one, other in combinations(kept, 2))))
    if not both:
        return "No winner: there is no rate at which two configurations kept up in every repetition."
    window_s = math.ceil(LEAST_SAMPLES / both[-1])
    return (
        f"No winner: too few {results.terms.operations} ended for a p99, which needs {LEAST_SAMPLES:,} in each load "
        f"level. Use load levels of more than {units.format_duration_s(window_s)} at {both[-1]:,} "
        f"{results.terms.rate_unit}, or a higher rate."
    )


def _gap(pair: TimesCompared, level: AtLevel) -> tuple[str, str, str]:
    """Return the faster and the slower configuration, and by how much the p99 of the faster one is shorter."""
    percents = [level.percent, level.low_percent, level.high_percent]
    faster, slower = pair.other, pair.base
    if level.verdict is Verdict.SLOWER:
        faster, slower = slower, faster
        percents = [None if each is None else (1 / (1 + each / 100) - 1) * 100 for each in percents]
        percents[1:] = reversed(percents[1:])
    change, first, second = (change_percent(each) for each in percents)
    return faster, slower, f"{wording.change(change)} (95 % interval {wording.change_span(second, first)})"


def _kept(result: ConfigurationResult, terms: Terms) -> str:
    """Return `target kept up with 1,000 requests/s: p50 0.1 ms, p99 0.4 ms`."""
    failing = [level for level in result.finished if level.failed_share > FAILED_SHARE]
    kept = [level for level in _kept_up(result) if level not in failing]
    words = [errors.failed_words(level, terms) for level in failing[:1]]
    if kept:
        best = kept[-1]
        words.insert(0, f"{result.name} kept up with {best.load:,} {terms.rate_unit}{_times(best)}.")
    elif not failing and not _crowded(result) and not _held_back(result):
        return (
            f"{result.name} kept up with none of the offered rates, so its response times are not meaningful."
        )
    return " ".join([*words, _behind(result, terms)]).rstrip()


def _behind(result: ConfigurationResult, terms: Terms) -> str:
    """Return the rates that the server did not keep up with, and those for which the connections were too few."""
    crowded, held = _crowded(result), _held_back(result)
    behind = [
        f"{level.load:,}"
        for level in result.finished
        if level.open and not level.open.kept_up and level not in (*crowded, *held)
    ]
    rates = f"{wording.listing(behind)} {terms.rate_unit}"
    words = [f"{result.name} did not keep up with {rates}."] if behind else []
    if crowded:
        at = wording.listing([f"{level.load:,}" for level in crowded])
        words.append(f"{result.name} at {at} {terms.rate_unit}: {too_few(result, crowded[-1], terms)}")
    if held:
        at = wording.listing([f"{level.load:,}" for level in held])
        words.append(f"{result.name} at {at} {terms.rate_unit}: {HELD_BACK}")
    return " ".join(words)


def _kept_up(result: ConfigurationResult) -> list[LevelFigures]:
    return [level for level in result.finished if level.open and level.open.kept_up]


def _held_back(result: ConfigurationResult) -> list[LevelFigures]:
    """Return the rates so near the rate limit that the limit may be why the server fell behind."""
    crowded = _crowded(result)
    return [level for level in result.finished if level.marks >= HELD_BACK_MARKS and level not in crowded]


def _crowded(result: ConfigurationResult) -> list[LevelFigures]:
    return [level for level in result.finished if result.connections_needed(level) is not None]


def too_few(result: ConfigurationResult, level: LevelFigures, terms: Terms) -> str:
    """Return the highest rate that the connections can carry, and the number of connections that the rate needs."""
    found, needed = level.open, result.connections_needed(level)
    assert found is not None and found.service_ms is not None and needed is not None
    connections = wording.plural(found.connections, terms.server_of_arrivals)
    most = wording.rate(found.connections / found.service_ms * units.MS_PER_S)
    words = (
        f"{connections} can't carry more than {most} {terms.rate_unit}, because {terms.operations} took "
        f"{wording.significant(found.service_ms)} ms each and all were busy. Use --clients "
        f"{-(-needed // level.threads)} for {level.load:,} {terms.rate_unit}."
    )
    known = result.lighter_service_ms(level) is not None
    return words if known else f"{words} If {terms.operations} then take longer, the server is the limit."


def _times(level: LevelFigures) -> str:
    if level.response is None:
        return ""
    median, tail = (level.response.percentiles_ms[place] for place in (QUANTILES.index(MEDIAN), QUANTILE))
    parts = [
        f"{name} {wording.significant(value)} ms" for name, value in (("p50", median), ("p99", tail)) if value
    ]
    return f": response time {', '.join(parts)}" if parts else ""


def _sure(results: Results) -> str:
    source = results.source
    levels = [f"{results.axis.load(level):,}" for level in source.head.levels]
    runs = max((len(source.repetitions_of(name)) for name in source.configuration_names), default=0)
    done = f"{len(results.used):,} of {source.planned_levels:,} load levels completed"
    offered = f"{wording.listing(levels)} {results.terms.rate_unit}"
    return f"Offered rates: {offered}; {wording.plural(runs, 'repetition')} of each; {done}."


def _findings(results: Results, pairs: Sequence[TimesCompared], tables: Labels) -> list[Finding]:
    """Return findings on the rates kept up with, on each pair, and on the precision of the sending times."""
    found = [
        Finding("Open load", _kept(result, results.terms), f"{tables['open']}.")
        for result in results.configurations
        if result.finished
    ]
    for pair in pairs:
        proven = [level for level in pair.found if level.proven]
        said = [
            f"at {results.at(pair.base, level.index).at}, {_gap(pair, level)[0]} is faster: p99 {_gap(pair, level)[2]}"
            for level in proven
        ]
        claim = (
            f"{pair.other} against {pair.base}: {'; '.join(said)}."
            if said
            else f"{pair.other} against {pair.base}: no difference in p99 at the same rate is proven."
            if pair.found
            else f"{pair.other} against {pair.base}: no rate has a p99 for both."
        )
        found.append(Finding("Equal rate", claim, f"{tables['equal']}."))
    return [*found, *_schedule(results, tables)]


def _schedule(results: Results, tables: Labels) -> list[Finding]:
    errors = [
        tail
        for level in results.levels
        if level.open
        and level.open.scheduling_error
        and (tail := level.open.scheduling_error.percentiles_ms[QUANTILE])
    ]
    if not errors:
        return []
    limited = sum(Mark.GENERATOR_LIMITED in level.marks for level in results.levels)
    sent = results.terms.operations.capitalize()
    claim = f"{sent} were sent at most {wording.significant(max(errors))} ms late (p99, at the worst rate)."
    if limited:
        claim += (
            f" At {limited:,} of {wording.plural(len(results.levels), 'load level')}, marked G, the generator "
            "may have caused more than 9 % of the response time."
        )
    return [Finding("Generator", claim, f"{tables['open']}.")]


def caveats(results: Results) -> list[str]:
    """Return a caveat on levels at which a server fell behind, where response times depend on the level's length."""
    crowded = [level for result in results.configurations for level in _crowded(result)]
    held = [level for result in results.configurations for level in _held_back(result)]
    marked = [level for level in results.levels if Mark.BEHIND in level.marks]
    connections = f"{results.terms.server_of_arrivals}s"
    causes = {
        "The server did not keep up": [level for level in marked if level not in (*crowded, *held)],
        f"The {connections} were too few for the rate": [level for level in marked if level in crowded],
    }
    return [
        f"{cause} at {wording.plural(len(levels), 'load level')}. Response times there grow with the length of the "
        f"load level, and are marked B: {named([f'{level.configuration} at {level.at}' for level in levels])}."
        for cause, levels in causes.items()
        if levels
    ] + [f"{level.configuration} at {level.at}: {HELD_BACK}" for level in held]
