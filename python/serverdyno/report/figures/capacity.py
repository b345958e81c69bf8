"""Searches for capacity at an objective, from the records of their trials: what each trial found, and what follows.

The rules of the search are in `analysis.capacity`. The runner asks for the next rate here, too, so that what decided a
search can be read off its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log

import numpy as np

from serverdyno import units
from serverdyno._native import Histogram
from serverdyno.analysis import capacity, trust
from serverdyno.analysis.contrast import CONFIDENCE, Contrast, t_quantile
from serverdyno.analysis.improvement import Runs
from serverdyno.analysis.levels import AtLevel, at_levels
from serverdyno.analysis.pairs import Side, pairs
from serverdyno.analysis.trust import Mark
from serverdyno.plan.axis import RATE
from serverdyno.plan.expand import trial
from serverdyno.plan.model import Suite
from serverdyno.plan.objective import Objective, Tail
from serverdyno.report.figures import generator, open_load
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.source import Source
from serverdyno.store.records import MixRecord


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """One trial. `tails_ms`: of each bound of the objective, the percentile of all requests, where one that failed is
    slower than every answer; None: so many failed. `failed_share`: failed, dropped, or begun and not ended.
    `answered_s`: operations/s. `late_ms`: the 99th percentile of the scheduling error; None: not known.
    """

    configuration: str
    repetition: int
    number: int
    rate_per_s: int
    answered_s: float
    tails_ms: tuple[float | None, ...]
    failed_share: float
    kept_up: bool
    held: bool
    late_ms: float | None
    generator_cpu_share: float
    marks: frozenset[Mark]


@dataclass(frozen=True, slots=True)
class Searched:
    """The searches of one configuration, a run each. `rate_per_s`: its capacity over the runs, with the 95 % interval.

    None: no figure, since a search ended at the border of its range, or is not over; an end of the interval beyond that
    range is None too. `by_generator`: of the trials that failed next to the capacity, at least half may have failed by
    the load generator.
    """

    name: str
    trials: tuple[TrialFigures, ...]
    estimates: dict[int, capacity.Estimate]
    rate_per_s: float | None
    low_per_s: float | None
    high_per_s: float | None
    by_generator: bool

    @property
    def ends(self) -> set[capacity.End | None]:
        """Why its searches are over; None: one is not."""
        return {found.end for found in self.estimates.values()}


@dataclass(frozen=True, slots=True)
class Capacities:
    """All configurations, and each pair of which both have a figure: base, other, and the difference in capacity.

    `operations`: what is counted, as `requests`.
    """

    objective: Objective
    within: capacity.Range
    operations: str
    searched: tuple[Searched, ...]
    compared: tuple[tuple[str, str, AtLevel], ...] = ()


def next_rate(suite: Suite, records: Sequence[MixRecord]) -> int | None:
    """Return the rate of the next trial of a run after those of `records`; None: its search is over."""
    return capacity.next_rate(
        _range(suite), [_trial(record, _objective(suite)) for record in _usable(records)]
    )


def capacities(source: Source) -> Capacities:
    """Return what the trials of an experiment found. Pairs are compared by `compared`."""
    suite = source.head.suite
    found = tuple(_searched(source, name) for name in source.configuration_names)
    return Capacities(_objective(suite), _range(suite), suite.terms.operations, found)


def by_rate(source: Source) -> Source:
    """Return the same experiment with its rates as load levels, so that all other figures are of one rate each.

    Trials of one run at the same rate are one level then; `capacities` has them one by one.
    """
    rates = sorted({record.rate_per_s for record in source.records if record.rate_per_s is not None})
    places = {rate: place for place, rate in enumerate(rates, start=1)}
    planned = source.head.mixes[0]
    levels = [
        replace(trial(planned, rate), index=place, name=RATE.mix_name(rate)) for rate, place in places.items()
    ]
    records = [
        record if record.rate_per_s is None else replace(record, mix=places[record.rate_per_s])
        for record in source.records
    ]
    head = source.head.model_copy(update={"mixes": levels or source.head.mixes[:1]})
    return replace(source, head=head, records=records)


def compared(source: Source, results: Results, found: Capacities) -> Capacities:
    """Return the capacities with each pair compared. `source` and `results`: by rate.

    Searches try the same rates, so that their estimates scatter by less than their error: it is added.
    """
    by_name = {each.name: each for each in found.searched}
    known = [
        _as_side(side, by_name[side.name], results)
        for side in sides(results)
        if by_name[side.name].rate_per_s is not None
    ]
    of_pairs = pairs(known)
    levels = at_levels(
        of_pairs,
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
        between=_own_error([each for each in found.searched if each.rate_per_s is not None]),
    )
    named = [
        (base.name, other.name, level)
        for (base, other), of_pair in zip(of_pairs, levels, strict=True)
        for level in of_pair
    ]
    return replace(found, compared=tuple(named))


def _own_error(found: Sequence[Searched]) -> Contrast:
    """The error of the ratio of two capacities that their searches state, in the mean of all searches."""
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
    """A side whose figure is its capacity, under the conditions of the rate next to it."""
    result = next(each for each in results.configurations if each.name == side.name)
    wanted = searched.rate_per_s or 0.0
    finished = {place: mix.level for place, mix in enumerate(result.mixes) if mix is not None}
    near = min(finished, key=lambda place: abs(finished[place] - wanted))
    runs = Runs(
        tuple(searched.estimates),
        np.array([[estimate.rate_per_s] for estimate in searched.estimates.values()]),
    )
    return replace(side, runs=runs, conditions=lambda _: side.conditions((near,)))


def _objective(suite: Suite) -> Objective:
    assert suite.objective is not None  # the caller looked
    return suite.objective


def _range(suite: Suite) -> capacity.Range:
    assert suite.open is not None  # the caller looked
    lowest, highest = suite.open.rate_per_s
    return capacity.Range(lowest, highest, suite.open.precision_percent, suite.open.most_trials)


def _usable(records: Sequence[MixRecord]) -> list[MixRecord]:
    return sorted((record for record in records if record.void is None), key=lambda record: record.mix)


def _trial(record: MixRecord, objective: Objective) -> capacity.Trial:
    return capacity.Trial(record.rate_per_s or 0, holds(record, objective))


def _searched(source: Source, name: str) -> Searched:
    objective, within = _objective(source.head.suite), _range(source.head.suite)
    records = _usable(source.records_of(name))
    by_run: dict[int, list[capacity.Trial]] = {}
    for record in records:
        by_run.setdefault(record.repetition, []).append(_trial(record, objective))
    estimates = {
        repetition: capacity.estimate(within, trials) for repetition, trials in sorted(by_run.items())
    }
    cpus = next(found.cpus for found in source.head.configurations if found.name == name)
    known = [count for count in (len(cpus), len(source.head.plan.generator.cpus)) if count]
    ordered = sorted(records, key=lambda record: (record.repetition, record.mix))
    trials = tuple(_figures(record, objective, min(known, default=1)) for record in ordered)
    rate, low, high = capacity.together(list(estimates.values())) or (None, None, None)
    return Searched(name, trials, estimates, rate, low, high, _by_generator(trials, high))


def _by_generator(trials: Sequence[TrialFigures], high_per_s: float | None) -> bool:
    failed = [each for each in trials if not each.held]
    lowest = min((each.rate_per_s for each in failed), default=0)
    near = [each for each in failed if each.rate_per_s <= max(lowest, high_per_s or 0)]
    limited = [each for each in near if Mark.GENERATOR_LIMITED in each.marks]
    return bool(limited) and 2 * len(limited) >= len(near)


def _figures(record: MixRecord, objective: Objective, fewest_cpus: int) -> TrialFigures:
    marks = trust.generator_marks(generator.hidden_speed(record, None))
    marks |= generator.noise_marks(record, fewest_cpus)
    kept_up = open_load.kept_up(record)
    if not kept_up:
        marks |= {Mark.BEHIND}
    late = record.scheduling_error_hdr
    errors = Histogram.from_bytes(late) if late else None
    ended, failed = _ends(record, objective)
    return TrialFigures(
        configuration=record.configuration,
        repetition=record.repetition,
        number=record.mix,
        rate_per_s=record.rate_per_s or 0,
        answered_s=record.operations / record.window_s,
        tails_ms=tuple(_tail_ms(record, tail, ended) for tail in objective.tails),
        failed_share=failed / ended if ended else 0.0,
        kept_up=kept_up,
        held=holds(record, objective),
        late_ms=errors.value_at(0.99) / units.NS_PER_MS if errors and errors.count else None,
        generator_cpu_share=generator.generator_cpu_share(record),
        marks=marks,
    )


def holds(record: MixRecord, objective: Objective) -> bool:
    """Return whether a trial holds every bound. A server that does not keep up holds none: its times still grow."""
    ended, failed = _ends(record, objective)
    if not ended or not open_load.kept_up(record):
        return False
    if objective.failed_share is not None and failed > objective.failed_share * ended:
        return False
    found = [_tail_ms(record, tail, ended) for tail in objective.tails]
    return all(
        ms is not None and ms <= tail.limit_ms for ms, tail in zip(found, objective.tails, strict=True)
    )


def _ends(record: MixRecord, objective: Objective) -> tuple[int, int]:
    """Requests of the window, and those of them that were not answered.

    Where some request that was under way as the window closed took longer than a bound, those that came and did not end
    are counted as not answered: else a server that never answers some would be judged by the others.
    """
    failed = sum(row.in_window for row in record.errors) + (record.dropped_in_window or 0)
    longest_ms = (record.under_way_longest_s or 0.0) * 1000
    if longest_ms > min(tail.limit_ms for tail in objective.tails):
        failed += max(0, (record.arrivals_in_window or 0) - record.operations - failed)
    return record.operations + failed, failed


def _tail_ms(record: MixRecord, tail: Tail, ended: int) -> float | None:
    """None: fewer were answered than the percentile needs."""
    if not record.operations or tail.quantile * ended > record.operations:
        return None
    times = Histogram.from_bytes(record.response_time_hdr)
    return times.value_at(tail.quantile * ended / record.operations) / units.NS_PER_MS
