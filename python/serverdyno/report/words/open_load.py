"""What is said of open load: which rates each server kept up with, how long answers took there, and who was quicker."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.levels import AtLevel
from serverdyno.analysis.trust import HIDDEN_SPEED, Mark, hidden_speed, waiting_share
from serverdyno.protocols.work import Terms
from serverdyno.report.figures.histograms import MEDIAN, QUANTILES
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Finding
from serverdyno.report.source import Source
from serverdyno.report.subjects.open_load import QUANTILE
from serverdyno.report.subjects.times_compared import TimesCompared, change_percent, undecided
from serverdyno.store.head import PeakNote

LOAD = (
    "{Operations} come at a rate of their own, {law}, whatever becomes of those before them. {connections} serve them. "
    "{One} that finds no {connection} free waits for one, and response time counts from when it came (Tene, How NOT to "
    "measure latency). At most {queue} may wait; what comes then is dropped, and counts as slower than every answer."
)
PEAKS = (
    "Rates are {percents} % of the lowest peak, {lowest} {unit} of {name}. Every configuration is offered the same "
    "ones, since response times compare at equal rate alone. Peaks, by a closed load of {connections} "
    "before the runs, in a window of {window}: {listed} {unit}."
)
MOST_NAMED = 4
"""Points in one sentence."""
LAWS = {"poisson": "at random (Poisson)", "uniform": "at even intervals"}


def load(source: Source) -> str:
    """The line of the methodology on how load is made."""
    suite = source.head.suite
    assert suite.open is not None  # the caller looked
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
    """The line of the methodology on where the rates come from; nothing where the suite gives them."""
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
    """That the generator may have held a peak back."""
    clients_s = peak.connections * peak.window_s
    hidden = hidden_speed(waiting_share(peak.ready_work_s, clients_s, peak.run_delay_share), None)
    return (
        f" (at most {wording.share(hidden)} more without the generator's part)"
        if hidden is not None and hidden > HIDDEN_SPEED
        else ""
    )


def verdict(results: Results, pairs: Sequence[TimesCompared]) -> str:
    """Who answers sooner at equal rate; of one configuration, what it kept up with."""
    counted = [result for result in results.configurations if any(mix.response for mix in result.finished)]
    if not results.mixes:
        return "There is no result: no test finished."
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
        said.insert(0, f"{faster} answers sooner than {slower}: p99 {gap} at {_at(results, pair, level)}.")
    elif not any(pair.found for pair in pairs):
        said.insert(0, "No winner: there is no rate that two of them kept up with in every repetition.")
    elif undecided(pairs):
        said.insert(0, "No winner: a difference at equal rate takes two repetitions.")
    else:
        said.insert(0, "No winner: no difference in p99 at equal rate is proven.")
    return " ".join(said)


def _gap(pair: TimesCompared, level: AtLevel) -> tuple[str, str, str]:
    """Who is faster, who is slower, and by how much the p99 of the faster is shorter."""
    percents = [level.percent, level.low_percent, level.high_percent]
    faster, slower = pair.other, pair.base
    if level.verdict is Verdict.SLOWER:
        faster, slower = slower, faster
        percents = [None if each is None else (1 / (1 + each / 100) - 1) * 100 for each in percents]
        percents[1:] = reversed(percents[1:])
    change, first, second = (change_percent(each) for each in percents)
    return faster, slower, f"{wording.change(change)} (95 % interval {wording.change_span(second, first)})"


def _at(results: Results, pair: TimesCompared, level: AtLevel) -> str:
    mix = next(result for result in results.configurations if result.name == pair.base).mixes[level.mix]
    assert mix is not None  # levels are of finished mixes
    return mix.at


def _kept(result: ConfigurationResult, terms: Terms) -> str:
    """`target kept up with 1,000 requests/s: p50 0.1 ms, p99 0.4 ms.`"""
    kept = [mix for mix in result.finished if mix.open and mix.open.kept_up]
    if not kept:
        return (
            f"{result.name} kept up with no rate that was offered. Its response times say nothing but that."
        )
    best = kept[-1]
    words = f"{result.name} kept up with {best.level:,} {terms.rate_unit}{_times(best)}."
    return f"{words} {_behind(result, terms)}".rstrip()


def _behind(result: ConfigurationResult, terms: Terms) -> str:
    behind = [f"{mix.level:,}" for mix in result.finished if mix.open and not mix.open.kept_up]
    rates = f"{wording.listing(behind)} {terms.rate_unit}"
    return f"{result.name} did not keep up with {rates}." if behind else ""


def _times(mix: MixFigures) -> str:
    if mix.response is None:
        return ""
    median, tail = (mix.response.percentiles_ms[place] for place in (QUANTILES.index(MEDIAN), QUANTILE))
    parts = [
        f"{name} {wording.significant(value)} ms" for name, value in (("p50", median), ("p99", tail)) if value
    ]
    return f": response time {', '.join(parts)}" if parts else ""


def sure(source: Source, results: Results) -> str:
    """Return what the verdict rests on."""
    levels = [f"{results.axis.level(mix):,}" for mix in source.head.mixes]
    runs = max((len(source.repetitions_of(name)) for name in source.configuration_names), default=0)
    done = f"{len(results.used):,} of {source.planned_mixes:,} tests completed"
    offered = f"{wording.listing(levels)} {results.terms.rate_unit}"
    return f"Offered: {offered}; {wording.plural(runs, 'repetition')} of each; {done}."


def findings(results: Results, pairs: Sequence[TimesCompared], tables: dict[str, str]) -> tuple[Finding, ...]:
    """Each configuration, each pair, and how exactly the load was made."""
    found = [
        Finding("Open load", _kept(result, results.terms), f"{tables['open']}.")
        for result in results.configurations
        if result.finished
    ]
    for pair in pairs:
        proven = [level for level in pair.found if level.proven]
        said = [
            f"at {_at(results, pair, level)}, {_gap(pair, level)[0]}, p99 {_gap(pair, level)[2]}"
            for level in proven
        ]
        claim = (
            f"{pair.other} against {pair.base}: {'; '.join(said)}."
            if said
            else f"{pair.other} against {pair.base}: no difference in p99 at equal rate is proven."
        )
        found.append(Finding("Equal rate", claim, f"{tables['equal']}."))
    return (*found, *_schedule(results, tables))


def _schedule(results: Results, tables: dict[str, str]) -> list[Finding]:
    errors = [
        tail
        for mix in results.mixes
        if mix.open
        and mix.open.scheduling_error
        and (tail := mix.open.scheduling_error.percentiles_ms[QUANTILE])
    ]
    if not errors:
        return []
    limited = sum(Mark.GENERATOR_LIMITED in mix.marks for mix in results.mixes)
    sent = results.terms.operations.capitalize()
    claim = f"{sent} were sent at most {wording.significant(max(errors))} ms late (p99, at the worst rate)."
    if limited:
        claim += (
            f" In {limited:,} of {wording.plural(len(results.mixes), 'point')}, marked G, more than 9 % of "
            "the response time may be the generator's own."
        )
    return [Finding("Generator", claim, f"{tables['open']}.")]


def caveats(results: Results) -> list[str]:
    """That some response times are no property of the server."""
    behind = [
        f"{result.name} at {mix.at}"
        for result in results.configurations
        for mix in result.finished
        if Mark.BEHIND in mix.marks
    ]
    if not behind:
        return []
    named = f"{wording.listing(behind[:MOST_NAMED])}{' and others' if len(behind) > MOST_NAMED else ''}"
    return [
        f"The server did not keep up in {wording.plural(len(behind), 'point')}. Its response times there grow with "
        f"the length of the test, and are marked B: {named}."
    ]
