"""Capacity at an objective: the highest rate that meets it, the trials of the search, and the comparison.

The rules of the search are in `analysis.capacity`. The runner also gets the next rate from this module, so that
the records show why a search went on or ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log

import numpy as np

from serverdyno import units, wording
from serverdyno.analysis import capacity
from serverdyno.analysis.capacity import End
from serverdyno.analysis.contrast import CONFIDENCE, Contrast, t_quantile
from serverdyno.analysis.improvement import Runs, percent_improvement
from serverdyno.analysis.levels import AtLevel, at_levels
from serverdyno.analysis.pairs import Side, pairs
from serverdyno.analysis.trust import Limit, Mark
from serverdyno.plan.axis import RATE
from serverdyno.plan.expand import trial
from serverdyno.plan.model import Suite
from serverdyno.plan.objective import Objective
from serverdyno.plan.open_load import Law
from serverdyno.report.basis import Over, basis, letters, mark_notes
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.figures.trials import (
    TrialFigures,
    by_generator,
    holds,
    missed,
    missed_by_errors,
    trial_figures,
)
from serverdyno.report.model import Answer, Cell, Column, Finding, Labels, Part, Section, Table
from serverdyno.report.parts import NAME
from serverdyno.report.source import Source
from serverdyno.report.subjects import open_load, response_times
from serverdyno.report.subjects.differences import reason
from serverdyno.report.subjects.limits import LIMITED_BY, named, no_limit_words
from serverdyno.store.records import LevelRecord

SEARCH = (
    "The search looks for the highest rate between {lowest} and {highest} {operations}/s that meets {objective}. It "
    "doubles the rate until a trial fails; then each trial is at the median of the current estimate (QUEST, Watson "
    "and Pelli 1983). A trial passes if the server kept up and each bound was met; failed requests count as slower "
    "than every answer. Capacity is the rate at which half of the trials pass. A search ends when half the width of "
    "its 95 % interval is at most {precision:g} % of the rate, or after {most} trials."
)
BUSY_SHARE = 0.9
"""Busy share at which the busiest generator thread is named as the limit."""
FAR = 2
"""Largest factor between the rate that the connections can carry and the lowest rate that failed.

Requests begin to wait before all connections are busy.
"""


@dataclass(frozen=True, slots=True)
class Searched:
    """The searches of one configuration, one per run. `rate_per_s`: its capacity with the 95 % interval.

    None: a search is not over, or ended at the border of its range. An end of the interval beyond that range is also
    None. `by_generator`: the generator may have caused at least half of the failed trials near the capacity. `too_few`:
    the sentence on the highest rate that the connections can carry, or on the rate limit, if one of them was the
    limit; else empty.
    """

    name: str
    trials: tuple[TrialFigures, ...]
    estimates: dict[int, capacity.Estimate]
    rate_per_s: float | None
    low_per_s: float | None
    high_per_s: float | None
    by_generator: bool
    too_few: str = ""

    @property
    def ends(self) -> set[capacity.End | None]:
        """Return why the searches ended; None stands for an unfinished search."""
        return {found.end for found in self.estimates.values()}


@dataclass(frozen=True, slots=True)
class Capacities:
    """The searches of all configurations, and each pair that has two capacities: base, other, and the difference.

    `operations`: the plural name of an operation: `requests`.
    """

    objective: Objective
    within: capacity.Range
    operations: str
    searched: tuple[Searched, ...]
    compared: tuple[tuple[str, str, AtLevel], ...]


def applies(results: Results) -> bool:
    return results.source.head.suite.objective is not None


def build(results: Results) -> Part:
    found = _capacities(results)
    figures = (*response_times.tail_against_throughput(results), *response_times.charts(results))
    return Part(
        sections=(Section("trials", "The trials of each search", tables=(_trials(found, results),)),),
        findings=partial(_findings, found),
        answer=Answer(
            verdict=_verdict(found),
            told=_told(found),
            sure=_sure(found),
            limit=_limit(found, results),
            gaps="",
            figures=(),
            caveats=(),
        ),
        summary=Section(
            "summary",
            f"Capacity at {found.objective.words}",
            figures=figures,
            tables=(_table(found, results),),
        ),
    )


def next_rate(suite: Suite, records: Sequence[LevelRecord]) -> int | None:
    """Return the rate of a run's next trial after `records`; None if its search is over."""
    return capacity.next_rate(
        _range(suite), [_trial(record, _objective(suite), suite.law) for record in _usable(records)]
    )


def _capacities(results: Results) -> Capacities:
    source, suite = results.source, results.source.head.suite
    found = tuple(_with_connections(_searched(source, name), results) for name in source.configuration_names)
    return Capacities(
        _objective(suite), _range(suite), suite.terms.operations, found, _compared(results, found)
    )


def by_rate(source: Source) -> Source:
    """Return the same experiment with its rates as load levels, so that all other figures are per rate.

    Trials of one run at the same rate form one level; `trials` keeps them separate.
    """
    rates = sorted({record.rate_per_s for record in source.records if record.rate_per_s is not None})
    places = {rate: place for place, rate in enumerate(rates, start=1)}
    planned = source.head.levels[0]
    levels = [
        replace(trial(planned, rate), index=place, name=RATE.level_name(rate))
        for rate, place in places.items()
    ]
    records = [
        record if record.rate_per_s is None else replace(record, level=places[record.rate_per_s])
        for record in source.records
    ]
    head = source.head.model_copy(update={"levels": levels or source.head.levels[:1]})
    return replace(source, head=head, records=records, trials=source.records)


def _compared(results: Results, found: Sequence[Searched]) -> tuple[tuple[str, str, AtLevel], ...]:
    """Return each pair: base, other, and the difference in capacity.

    Searches try the same rates, so their estimates scatter less than their true error, which is therefore added.
    """
    by_name = {each.name: each for each in found}
    known = [
        _as_side(side, by_name[side.name], results)
        for side in sides(results)
        if by_name[side.name].rate_per_s is not None
    ]
    of_pairs = pairs(known)
    levels = at_levels(
        of_pairs,
        paired=results.source.paired,
        minimum_percent=results.source.head.plan.minimum_effect_percent,
        between=_own_error([each for each in found if each.rate_per_s is not None]),
    )
    return tuple(
        (base.name, other.name, level)
        for (base, other), of_pair in zip(of_pairs, levels, strict=True)
        for level in of_pair
    )


def _own_error(found: Sequence[Searched]) -> Contrast:
    """Return the error of the ratio of two capacities, from the mean variance of the searches' intervals."""
    fewest = min((len(searched.estimates) for searched in found), default=1)
    reach = 2 * t_quantile((1 + CONFIDENCE) / 2, inf)
    deviations = [
        log(estimate.high_per_s / estimate.low_per_s) / reach
        for searched in found
        for estimate in searched.estimates.values()
        if estimate.low_per_s is not None and estimate.high_per_s is not None
    ]
    variance = float(np.mean(np.square(deviations))) if deviations else 0.0
    return Contrast(0.0, 2 * variance / max(1, fewest), inf)


def _as_side(side: Side, searched: Searched, results: Results) -> Side:
    """Return a side with its capacity as the figure, and the conditions of the nearest rate."""
    result = results.of(side.name)
    wanted = searched.rate_per_s or 0.0
    finished = {place: level.load for place, level in enumerate(result.levels) if level is not None}
    near = min(finished, key=lambda place: abs(finished[place] - wanted))
    runs = Runs(
        tuple(searched.estimates),
        np.array([[estimate.rate_per_s] for estimate in searched.estimates.values()]),
    )
    return replace(side, runs=runs, conditions=lambda _: side.conditions((near,)))


def _objective(suite: Suite) -> Objective:
    assert suite.objective is not None
    return suite.objective


def _range(suite: Suite) -> capacity.Range:
    assert suite.open is not None
    lowest, highest = suite.open.rate_per_s
    return capacity.Range(lowest, highest, suite.open.precision_percent, suite.open.most_trials)


def _usable(records: Sequence[LevelRecord]) -> list[LevelRecord]:
    return sorted((record for record in records if record.void is None), key=lambda record: record.level)


def _trial(record: LevelRecord, objective: Objective, law: Law) -> capacity.Trial:
    return capacity.Trial(record.rate_per_s or 0, holds(record, objective, law))


def _searched(source: Source, name: str) -> Searched:
    objective, within = _objective(source.head.suite), _range(source.head.suite)
    law = source.head.suite.law
    records = _usable([record for record in source.trials if record.configuration == name])
    by_run: dict[int, list[capacity.Trial]] = {}
    for record in records:
        by_run.setdefault(record.repetition, []).append(_trial(record, objective, law))
    estimates = {
        repetition: capacity.estimate(within, trials) for repetition, trials in sorted(by_run.items())
    }
    cpus = next(found.cpus for found in source.head.configurations if found.name == name)
    known = [count for count in (len(cpus), len(source.head.plan.generator.cpus)) if count]
    ordered = sorted(records, key=lambda record: (record.repetition, record.level))
    trials = tuple(trial_figures(record, objective, min(known, default=1), law) for record in ordered)
    rate, low, high = capacity.together(list(estimates.values())) or (None, None, None)
    return Searched(name, trials, estimates, rate, low, high, by_generator(trials, high, objective))


def _with_connections(searched: Searched, results: Results) -> Searched:
    """Return a search with what limited its trials near the capacity: the rate limit, or the connections."""
    failed = _lowest_failed(searched)
    for each in results.of(searched.name).finished:
        if failed and each.load == failed.rate_per_s and each.marks >= open_load.HELD_BACK_MARKS:
            return replace(searched, too_few=f" {searched.name} at {each.at}: {open_load.HELD_BACK}")
    level = _crowded(searched, results.of(searched.name))
    if level is None or searched.by_generator:
        return searched
    return replace(searched, too_few=f" {open_load.too_few(results.of(searched.name), level, results.terms)}")


def _crowded(searched: Searched, result: ConfigurationResult) -> LevelFigures | None:
    """Return the lowest rate for which the connections were too few; None if other trials failed far below."""
    failed = _lowest_failed(searched)
    level = next((each for each in result.finished if result.connections_needed(each) is not None), None)
    if failed is None or level is None or level.open is None or not level.open.service_ms:
        return None
    most_per_s = level.open.connections / level.open.service_ms * units.MS_PER_S
    return level if most_per_s <= FAR * failed.rate_per_s else None


def _table(found: Capacities, results: Results) -> Table:
    rows = tuple(_row(each) for each in found.searched)
    columns = (
        NAME,
        Column("Capacity", f"{found.operations}/s"),
        Column("95 % interval", f"{found.operations}/s"),
        Column("All trials passed up to", f"{found.operations}/s"),
        Column("End of the search", numeric=False),
        Column("Trials"),
        Column("n", "runs"),
    )
    notes = (
        f"Capacity: the rate at which half of the trials meet {found.objective.words}, as the geometric mean of the "
        "runs. The interval is a t interval over the runs; for a single run it is the interval of its "
        "search.",
        "All trials passed up to: the highest rate up to which every trial of a run passed; the lowest of "
        "the runs.",
    )
    title = f"Capacity at {found.objective.words}"
    return Table("capacity", 0, title, basis(results, Over.TOGETHER), columns, rows, notes)


def _row(searched: Searched) -> tuple[Cell, ...]:
    held = [found.held_per_s for found in searched.estimates.values()]
    known = [rate for rate in held if rate is not None]
    ends = sorted({"unfinished" if end is None else f"{end}" for end in searched.ends})
    limited = searched.by_generator or searched.too_few
    least = "at least" if limited and searched.rate_per_s is not None else ""
    return (
        Cell(searched.name),
        Cell(wording.rate(searched.rate_per_s), least, strong=True),
        Cell(_span(searched)),
        Cell(wording.rate(min(known)) if len(known) == len(held) and known else wording.NOTHING),
        Cell(wording.listing(ends)),
        Cell(wording.whole(len(searched.trials))),
        Cell(wording.whole(len(searched.estimates))),
    )


def _span(searched: Searched) -> str:
    low, high = wording.rate(searched.low_per_s), wording.rate(searched.high_per_s)
    return f"{low} to {high}" if searched.rate_per_s is not None else wording.NOTHING


def _trials(found: Capacities, results: Results) -> Table:
    rows = tuple(_trial_row(trial) for each in found.searched for trial in each.trials)
    columns = (
        NAME,
        Column("Run"),
        Column("Trial"),
        Column("Offered rate", f"{found.operations}/s"),
        Column("Answered", f"{found.operations}/s"),
        *(Column(tail.name, "of all, ms") for tail in found.objective.tails),
        Column("Failed", f"share of {found.operations}"),
        Column("Sent late", "p99, ms"),
        Column("Passed", numeric=False),
    )
    marks = frozenset().union(*(trial.marks for each in found.searched for trial in each.trials))
    notes = (
        f"Percentiles cover all {found.operations}; failed ones count as slower than every answer. "
        f"{wording.NOTHING} too many {found.operations} failed. Failed: errors, and {found.operations} that "
        "were dropped or not answered. Sent late: the delay that the generator caused.",
        *mark_notes(marks),
    )
    under = basis(results, Over.EACH)
    return Table("trials", 0, "Trials in the order they ran", under, columns, rows, notes, key_columns=3)


def _trial_row(trial: TrialFigures) -> tuple[Cell, ...]:
    return (
        Cell(trial.configuration),
        Cell(wording.whole(trial.repetition)),
        Cell(wording.whole(trial.number)),
        Cell(wording.whole(trial.rate_per_s), marks=letters(trial.marks)),
        Cell(wording.rate(trial.answered_s)),
        *(Cell(wording.significant(ms)) for ms in trial.tails_ms),
        Cell(wording.share(trial.failed_share)),
        Cell(wording.significant(trial.late_ms)),
        Cell("yes" if trial.held else "no", "" if trial.kept_up else "the server did not keep up"),
    )


def search(suite: Suite) -> str:
    """Return the methodology's description of the search; empty if the suite is not a search."""
    if suite.open is None or suite.objective is None:
        return ""
    lowest, highest = suite.open.rate_per_s
    return SEARCH.format(
        objective=suite.objective.words,
        lowest=f"{lowest:,}",
        highest=f"{highest:,}",
        operations=suite.terms.operations,
        precision=suite.open.precision_percent,
        most=suite.open.most_trials,
    )


def _verdict(found: Capacities) -> str:
    """Return the largest proven difference in capacity; for a single configuration, its capacity."""
    if len(found.searched) == 1:
        return _claim(found.searched[0], found)
    proven = [each for each in found.compared if each[2].proven]
    if not proven:
        return "No winner: no difference in capacity is proven."
    return _gap(*max(proven, key=lambda each: abs(each[2].percent)), found)


def _told(found: Capacities) -> tuple[tuple[str, str], ...]:
    """Return the capacity of each of several configurations, and the other proven differences."""
    if len(found.searched) == 1:
        return ()
    proven = sorted(
        (each for each in found.compared if each[2].proven), key=lambda each: -abs(each[2].percent)
    )
    others = " ".join(_gap(*each, found) for each in proven[1:])
    claims = " ".join(_claim(each, found) for each in found.searched)
    return (("Capacity", claims), *([("Also proven", others)] if others else []))


def _claim(searched: Searched, found: Capacities) -> str:
    """Return `target meets p99 ≤ 50 ms up to 12,300 requests/s (95 % interval 11,900 to 12,800)`."""
    name, holds, within = searched.name, f"meets {found.objective.words}", found.within
    if not searched.trials:
        return f"{name}: no trial finished."
    if searched.ends == {End.LOWEST_FAILS}:
        words = (
            f"{name} does not meet {found.objective.words} at the lowest rate allowed, "
            f"{within.lowest_per_s:,}"
        )
        return f"{words} {found.operations}/s{_why(searched, found)}.{searched.too_few}"
    if searched.ends == {End.HIGHEST_HOLDS}:
        return (
            f"{name} still {holds} at the highest rate allowed, {within.highest_per_s:,} {found.operations}/s; its "
            "capacity is at least that."
        )
    if searched.rate_per_s is None:
        return f"{name}: {_disagreement(searched)}, so its capacity is not known."
    least = "at least " if searched.by_generator or searched.too_few else ""
    rate = f"{least}{wording.rate(searched.rate_per_s)} {found.operations}/s"
    words = f"{name} {holds} up to {rate} ({_interval(searched)})"
    return f"{words}{_why(searched, found)}.{searched.too_few}{_budget(searched, found)}"


def _interval(searched: Searched) -> str:
    """Return `95 % interval 11,900 to 12,800`, with words for an unknown end."""
    low, high = searched.low_per_s, searched.high_per_s
    if low is None or high is None:
        known = f"above {wording.rate(low)}" if low is not None else f"below {wording.rate(high)}"
        return "95 % interval not known" if low is None and high is None else f"95 % interval {known}"
    return f"95 % interval {wording.rate(low)} to {wording.rate(high)}"


def _sure(found: Capacities) -> str:
    trials = sum(len(each.trials) for each in found.searched)
    searches = sum(len(each.estimates) for each in found.searched)
    said = f"{wording.plural(searches, 'search', 'searches')}, {wording.plural(trials, 'trial')} in all"
    undone = [each.name for each in found.searched if None in each.ends]
    return said + (f"; unfinished: {wording.listing(undone)}." if undone else ".")


def _limit(found: Capacities, results: Results) -> str:
    """Return the limit of each configuration at the lowest rate that failed."""
    pairs = zip(found.searched, results.configurations, strict=True)
    limits = [(searched.name, _limit_of(searched, result, found.objective)) for searched, result in pairs]
    return named([each for each in limits if each[1]], results)


def _limit_of(searched: Searched, result: ConfigurationResult, objective: Objective) -> str:
    if searched.by_generator:
        return LIMITED_BY[Limit.GENERATOR]
    first_failed = _lowest_failed(searched)
    if first_failed is not None and missed_by_errors(first_failed, objective):
        return LIMITED_BY[Limit.FAILURES]
    failed = {trial.rate_per_s for trial in searched.trials if not trial.held}
    first = next((level for level in result.finished if level.load in failed), None)
    seen = () if first is None else result.limits_of(first)
    if searched.too_few:
        return LIMITED_BY[
            next((each for each in (Limit.RATE, Limit.LINK) if each in seen), Limit.CONNECTIONS)
        ]
    known = [LIMITED_BY[each] for each in seen if each is not Limit.OFFERED]
    return known[0] if known else ("" if first is None else no_limit_words([first]))


def _findings(found: Capacities, tables: Labels) -> list[Finding]:
    said = [Finding("Capacity", _claim(each, found), f"{tables['capacity']}.") for each in found.searched]
    for each in found.searched:
        held = [of_run.held_per_s for of_run in each.estimates.values()]
        known = [rate for rate in held if rate is not None]
        if known and len(known) == len(held) and each.rate_per_s is not None:
            rate = f"{min(known):,} {found.operations}/s"
            words = f"{each.name} met the objective in every trial up to {rate}: plan with this rate."
            said.append(Finding("Rate for planning", words, f"{tables['trials']}."))
    for base, other, level in found.compared:
        words = _gap(base, other, level, found) if level.proven else _no_gap(base, other, level)
        said.append(Finding("Difference", words, f"{tables['capacity']}."))
    return said


def _gap(base: str, other: str, level: AtLevel, found: Capacities) -> str:
    percents = (level.percent, level.low_percent, level.high_percent)
    more, less = other, base
    if level.percent < 0:
        more, less = base, other
        turned = [None if each is None else percent_improvement(1 + each / 100, 1) for each in percents]
        percents = (turned[0] or 0.0, turned[2], turned[1])
    change, span = wording.change(percents[0]), wording.change_span(percents[1], percents[2])
    return (
        f"{more} meets {found.objective.words} at a {change} higher rate than {less} (95 % interval {span})."
    )


def _no_gap(base: str, other: str, level: AtLevel) -> str:
    if level.obstacles:
        reasons = "; ".join(reason(each) for each in level.obstacles)
        return f"{other} and {base} can't be compared: {reasons}."
    if level.low_percent is None:
        return f"{other} against {base}: {wording.change(level.percent)}; a verdict needs two repetitions."
    span = wording.change_span(level.low_percent, level.high_percent)
    return f"{other} against {base}: {wording.change(level.percent)} (95 % interval {span}), no difference is proven."


def _why(searched: Searched, found: Capacities) -> str:
    """Return whether the load generator may be the limit, or else which bound was exceeded."""
    if searched.by_generator:
        return _generator_words(searched, found)
    trial = _lowest_failed(searched)
    if trial is None:
        return ""
    if searched.ends == {End.LOWEST_FAILS}:
        words = missed(trial, found.objective, found.operations)
    else:
        words = missed_by_errors(trial, found.objective)
    return words and f". At {trial.rate_per_s:,} {found.operations}/s, {words}"


def _lowest_failed(searched: Searched) -> TrialFigures | None:
    failed = [trial for trial in searched.trials if not trial.held]
    return min(failed, key=lambda trial: trial.rate_per_s, default=None)


def _generator_words(searched: Searched, found: Capacities) -> str:
    """Return the evidence that the load generator, not the server, failed the trials."""
    failed = [trial for trial in searched.trials if not trial.held and Mark.GENERATOR_LIMITED in trial.marks]
    lowest = min(failed, key=lambda trial: trial.rate_per_s)
    return f". The load generator, not the server, may have been the limit: {_seen(lowest, found.operations)}"


def _seen(trial: TrialFigures, operations: str) -> str:
    parts = []
    if trial.late_ms is not None:
        parts.append(f"it sent {operations} {wording.significant(trial.late_ms)} ms late (p99)")
    if trial.generator_cpu_share >= BUSY_SHARE:
        parts.append(f"its busiest thread used {wording.share(trial.generator_cpu_share)} of a CPU")
    said = wording.listing(parts) or "it may have caused a large part of the response times"
    return f"at {trial.rate_per_s:,} {operations}/s {said}"


def _budget(searched: Searched, found: Capacities) -> str:
    if End.BUDGET not in searched.ends:
        return ""
    return f" The search ended at its limit of {found.within.most_trials} trials, before the requested precision."


def _disagreement(searched: Searched) -> str:
    if None in searched.ends:
        return "a search is unfinished"
    said = sorted(f"{end}" for end in searched.ends if end is not None)
    return f"its searches ended differently ({wording.listing(said)})"
