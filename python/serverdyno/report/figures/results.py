"""The figures of an experiment: records grouped by configuration and load level.

Wording and drawing are elsewhere. A void level is left out of every figure and listed in `left_out`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from serverdyno import units
from serverdyno.analysis import curve, trust
from serverdyno.analysis.durability import Outcome
from serverdyno.analysis.improvement import Runs
from serverdyno.analysis.open_load import connections_needed, too_few_connections
from serverdyno.analysis.pairs import Comparison
from serverdyno.plan.axis import Axis, axis_of
from serverdyno.plan.model import Configuration, Suite
from serverdyno.plan.protocols.work import Terms, Work
from serverdyno.report.figures import histograms, open_load
from serverdyno.report.figures.connections import Connections, connections
from serverdyno.report.figures.cost import Cost, cost, most
from serverdyno.report.figures.fates import (
    drifting,
    failed_share,
    fairness,
    fate_marks,
    faults,
    first_error,
    is_failing,
    left,
    passes_a_client,
    refused,
    stalled,
    starved,
)
from serverdyno.report.figures.generator import (
    hidden_speed,
    is_held_by_thinking,
    noise_marks,
    others_cpus,
    thinking_share,
    waiting_share,
)
from serverdyno.report.figures.invariants import contradictions
from serverdyno.report.figures.links import link_share
from serverdyno.report.figures.open_load import OpenFigures
from serverdyno.report.figures.operations import OperationFigures, by_content, of_records
from serverdyno.report.figures.shape import CurveShape, shape_of
from serverdyno.report.figures.steps import Step
from serverdyno.report.source import Source
from serverdyno.store.records import LevelRecord

if TYPE_CHECKING:
    from serverdyno.report.subjects.durability import Promise

SIDES = ("server", "network", "client", "check")
RecordFigure = Callable[[LevelRecord], float]


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """One load level of one configuration over its repetitions.

    `load` is its value on the suite's axis. `throughput` and `second` are in the units of the experiment's
    `Terms`. `network_share`: bytes on the network / bytes that applications read and wrote. `below_cache_mbit_s`: the
    bytes on the network in Mbit/s, both ways, of all clients. `passes_a_client`: passes of the workload per client in
    the window, in the repetition with the fewest. All three are None for web servers.

    `clients_took_part`: clients still present at the end, in the repetition with the fewest. `clients_left`, the
    `clients_never_began` among them (which could not be prepared), `errors` (by side, from start to end), `faults` (the
    same by kind) and `connections` are summed over the repetitions. `failed_share`: failed share of the windows'
    operations. `first_error`: the first error of the most frequent kind, in words. `refused`: seconds with failures, in
    repetitions with refused connections and served requests. `is_failing`: failures or refused connections determine
    the figures, whatever else limits them.

    `clients_starved`: clients that stayed and completed nothing in the window, in the repetition with the most.
    `stalls`: seconds of the window without a success, by repetition. `drifts`: second half of the window / first half
    - 1 of each repetition that was not steady (`analysis.steady`). `fairness`: Jain's index of the throughput of the
    clients that stayed. `response`: merged repetitions; `response_of_runs`: each repetition with a success.
    `operations`: successes by class, summed. `others_cpus`: mean CPUs used by other programs and the hypervisor.
    `under_way_*`: operations in flight when the window closed, summed, and the time that the slowest of them took.
    `unanswered`: operations among them that had no answer in time; they are not errors.

    `waiting_share`: largest share of the clients' time spent waiting in or for the generator. `thinking_share`:
    share without an operation in flight. `hidden_speed`: upper bound on how much faster the server may be than
    shown (`analysis.trust`); at a link-bound level, over these links. These are means over the repetitions; None:
    unknown. `hidden_speed_is_loose`: the bound may be far above the truth. `overdue_at_end`: operations that were
    due and never begun, summed. `needs_disk`: something was written or synced, or the clients' files exceed the
    memory; otherwise a disk wait is not the server's. `at`: the level in words. `open`: figures of open load.
    """

    configuration: str
    index: int
    load: int
    clients: int
    threads: int
    repetitions: int
    window_s: float
    throughput: curve.Spread
    second: curve.Spread
    operations_s: curve.Spread
    network_share: float | None
    below_cache_mbit_s: curve.Spread | None
    passes_a_client: float | None
    clients_took_part: int
    clients_left: int
    clients_never_began: int
    clients_starved: int
    stalls: dict[int, tuple[int, ...]]
    drifts: dict[int, float]
    fairness: curve.Spread | None
    errors: dict[str, int]
    faults: dict[str, int]
    errors_in_window: int
    failed_share: float
    first_error: str
    refused: dict[int, tuple[int, ...]]
    is_failing: bool
    response: histograms.Times | None
    response_of_runs: tuple[histograms.Times, ...]
    under_way_at_close: int
    under_way_longest_ms: float | None
    unanswered: int
    connections: Connections
    cost: Cost
    server_cpus: int | None
    operations: dict[str, int]
    others_cpus: float | None
    waiting_share: float | None
    thinking_share: float
    is_held_by_thinking: bool
    hidden_speed: float | None
    hidden_speed_is_loose: bool
    overdue_at_end: int
    needs_disk: bool
    at: str
    open: OpenFigures | None
    marks: frozenset[trust.Mark]

    @property
    def all_clients_left(self) -> bool:
        """Return whether every client left before the end, in every repetition."""
        return self.clients_left == self.clients * self.repetitions

    @property
    def server_share(self) -> float | None:
        """Return the busy share of the CPUs that the server may use; None if unknown."""
        busy = self.cost.server_cpus_busy
        return None if busy is None or self.server_cpus is None else busy / self.server_cpus

    @property
    def stated_hidden_speed(self) -> float | None:
        """Return the hidden speed to show to readers; None if it is unknown or too loose to help."""
        unknown = self.hidden_speed_is_loose or self.is_failing or trust.Mark.LINK_BOUND in self.marks
        return None if unknown else self.hidden_speed

    @property
    def own_queue_ms(self) -> float | None:
        """Return the response time, in ms, that the generator alone causes if every connection waits its turn.

        Even with an infinitely fast server, a saturated generator in a closed loop has a response time of at least
        connections x CPU time per request / threads (Little's law).
        """
        if self.cost.generator_cpu_us is None:
            return None
        per_turn_us = self.cost.generator_cpu_us.mean / self.cost.generator_threads
        return self.clients * self.threads * per_turn_us / 1000


@dataclass(frozen=True, slots=True)
class ConfigurationResult:
    """The figures of one configuration. `levels[i]` is None if no repetition finished level i.

    `throughput` and `second` are None if no level was finished. `runs`: throughput. `cpu`: microseconds of server CPU
    time per operation, NaN if unknown. `operations_by_level`: operations of the peak's level and of the last finished
    one, by index; one entry if they are the same.
    """

    name: str
    runs: Runs
    cpu: Runs
    shape: CurveShape
    throughput: curve.Summary | None
    second: curve.Summary | None
    levels: tuple[LevelFigures | None, ...]
    operations_by_level: dict[int, tuple[OperationFigures, ...]]
    contents_by_level: dict[int, tuple[OperationFigures, ...]]

    @property
    def operations_at_peak(self) -> tuple[OperationFigures, ...]:
        return () if self.peak is None else self.operations_by_level[self.peak.index]

    @property
    def marks(self) -> frozenset[trust.Mark]:
        return frozenset().union(*(level.marks for level in self.finished))

    @property
    def finished(self) -> list[LevelFigures]:
        return [level for level in self.levels if level is not None]

    @property
    def peak_height(self) -> float:
        """Return the highest mean throughput, as in the table of peaks; 0 if no level was finished."""
        return self.throughput.peak.mean if self.throughput else 0.0

    def limits_of(self, level: LevelFigures) -> tuple[trust.Limit, ...]:
        """Return the resource that limited a level, as far as known. The next level shows whether more clients help."""
        if level.is_failing:
            return (trust.Limit.FAILURES,)
        if level.open is not None and level.open.kept_up:
            return (trust.Limit.OFFERED,)
        if self.connections_needed(level) is not None:
            return (trust.Limit.CONNECTIONS,)
        later = next((each for each in self.finished if each.index > level.index), None)
        rises = (
            None if later is None else later.throughput.mean > level.throughput.mean * (1 + trust.RISES_SHARE)
        )
        io_wait_share = level.cost.io_wait_share if level.needs_disk else None
        marked = trust.marked_limits(level.marks, level.cost.generator_cpu_share, level.cost.run_delay_share)
        found = trust.seen_limits(marked, level.waiting_share, level.server_share, io_wait_share, rises=rises)
        own = {trust.Limit.GENERATOR, trust.Limit.CPU_WAIT}
        if level.is_held_by_thinking and not own.isdisjoint(found[:1]):
            return (trust.Limit.THINKING,)
        saturated = {trust.Limit.RATE, trust.Limit.LINK, *own, trust.Limit.SERVER}
        if level.thinking_share >= trust.THINKING_SHARE and saturated.isdisjoint(found):
            return (trust.Limit.THINKING,)
        return found

    def connections_needed(self, level: LevelFigures) -> int | None:
        """Return the number of connections that the offered rate needs; None if the connections were not the limit."""
        found = level.open
        if found is None or found.kept_up or level.is_failing or found.service_ms is None:
            return None
        bound = {trust.Mark.RATE_BOUND, trust.Mark.LINK_BOUND} & level.marks
        if bound or (level.server_share or 0.0) >= trust.BUSY_SHARE:
            return None
        if (level.waiting_share or 0.0) > trust.MOSTLY_WAITING:
            return None
        lighter_ms = self.lighter_service_ms(level)
        if not too_few_connections(found.busy_share, found.waited_share, found.service_ms, lighter_ms):
            return None
        return connections_needed(level.load, found.service_ms)

    def lighter_service_ms(self, level: LevelFigures) -> float | None:
        """Return the shortest mean time of a request on its connection at rates that the server kept up with."""
        lighter = [each.open for each in self.finished if each.load < level.load and each.open is not None]
        return min((each.service_ms for each in lighter if each.kept_up and each.service_ms), default=None)

    @property
    def last(self) -> LevelFigures | None:
        return next(reversed(self.finished), None)

    @property
    def peak(self) -> LevelFigures | None:
        return None if self.throughput is None else self.levels[self.throughput.peak_level]


@dataclass(frozen=True, slots=True)
class Results:
    """All configurations in plan order, the records used, and the records left out with the reason.

    `source`: the experiment from which the figures were computed. `promises`: flushes and syncs of file servers, per
    run; `outcomes`: the effect of a flush, per configuration. `comparisons`: the throughput of each pair compared;
    empty for open load and outages. `steps`: the levels of the whole experiment that end when their work is done.
    """

    source: Source
    work: Work[Any]
    terms: Terms
    axis: Axis
    configurations: tuple[ConfigurationResult, ...]
    used: tuple[LevelRecord, ...]
    left_out: tuple[tuple[LevelRecord, str], ...]
    contradictions: tuple[str, ...]
    promises: tuple[Promise, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    steps: tuple[Step, ...] = ()
    whole_source: Source | None = None

    @property
    def whole(self) -> Source:
        """Return the whole experiment, if `source` is only the part of one timed suite."""
        return self.whole_source or self.source

    @property
    def levels(self) -> list[LevelFigures]:
        return [level for result in self.configurations for level in result.finished]

    def of(self, configuration: str) -> ConfigurationResult:
        return next(result for result in self.configurations if result.name == configuration)

    def at(self, configuration: str, place: int) -> LevelFigures:
        """Return a finished level by its index."""
        level = self.of(configuration).levels[place]
        assert level is not None
        return level

    @property
    def marks(self) -> frozenset[trust.Mark]:
        return frozenset().union(*(result.marks for result in self.configurations))

    def records(self, configuration: str, level: int | None = None) -> list[LevelRecord]:
        """Return the used records of a configuration, in order of runs. `level`: index of a level; None: all levels."""
        return [
            record
            for record in self.used
            if record.configuration == configuration and (level is None or record.level == level)
        ]


def compute(source: Source) -> Results:
    used, left_out = [], []
    for record in sorted(source.records, key=lambda record: (record.run, record.level)):
        reason = _unusable(record)
        if reason is None:
            used.append(record)
        else:
            left_out.append((record, reason))
    cpus = {found.name: len(found.cpus) or None for found in source.head.configurations}
    return Results(
        source=source,
        work=source.head.suite.work,
        terms=source.head.suite.terms,
        axis=axis_of(source.head.suite.axis, source.head.suite.terms.operation),
        configurations=tuple(_configuration(source, found, used) for found in source.head.configurations)
        if source.head.levels
        else (),
        used=tuple(used),
        left_out=tuple(left_out),
        contradictions=tuple(
            problem
            for record in used
            for problem in contradictions(record, cpus[record.configuration], closed=source.closed)
        ),
    )


def _server_cpu_us(record: LevelRecord) -> float:
    """Return the server's CPU time per operation; NaN if there was no operation or the time is unknown."""
    if record.server_cpu_s is None or not record.operations:
        return math.nan
    return record.server_cpu_s * 1e6 / record.operations


def _unusable(record: LevelRecord) -> str | None:
    if record.window_s <= 0:
        return "the measurement window is empty"
    return record.void


def _configuration(
    source: Source, configuration: Configuration, used: Sequence[LevelRecord]
) -> ConfigurationResult:
    by_level: dict[int, list[LevelRecord]] = defaultdict(list)
    for record in used:
        if record.configuration == configuration.name:
            by_level[record.level].append(record)
    repetitions = source.repetitions_of(configuration.name)
    indices = [level.index for level in source.head.levels]
    suite, terms = source.head.suite, source.head.suite.terms
    # Each run of a search tries its own rates, so one repetition of a rate is enough.
    enough = len(repetitions) if suite.objective is None else 1
    levels = tuple(
        _level(source, configuration, by_level[index], enough) if by_level[index] else None
        for index in indices
    )
    throughput = _matrix(by_level, repetitions, indices, terms.throughput)
    summary = curve.summarise(throughput)
    return ConfigurationResult(
        name=configuration.name,
        runs=Runs(tuple(repetitions), throughput),
        cpu=Runs(tuple(repetitions), _matrix(by_level, repetitions, indices, _server_cpu_us)),
        shape=shape_of(source.head.levels, throughput),
        throughput=summary,
        second=curve.summarise(_matrix(by_level, repetitions, indices, terms.second)),
        levels=levels,
        operations_by_level={
            index: of_records(by_level[index]) for index in _peak_and_last(summary, by_level, indices)
        },
        contents_by_level={
            index: by_content(by_level[index], partial(suite.work.content_of, suite.workload))
            for index in _peak_and_last(summary, by_level, indices)
        },
    )


def _peak_and_last(
    summary: curve.Summary | None, by_level: dict[int, list[LevelRecord]], indices: Sequence[int]
) -> list[int]:
    if summary is None:
        return []
    last = [index for index in indices if by_level[index]][-1]
    return list(dict.fromkeys((indices[summary.peak_level], last)))


def _matrix(
    by_level: dict[int, list[LevelRecord]],
    repetitions: Sequence[int],
    indices: Sequence[int],
    figure: RecordFigure,
) -> curve.Throughput:
    matrix = np.full((len(repetitions), len(indices)), np.nan)
    for column, index in enumerate(indices):
        for record in by_level[index]:
            row = repetitions.index(record.repetition)
            matrix[row, column] = figure(record)
    return matrix


def _below_cache_mbit_s(records: Sequence[LevelRecord]) -> curve.Spread:
    """Return the Mbit/s between clients and a file server in both directions, for operations of the window."""
    return _spread(
        [units.mbit_per_s(record.bytes_in + record.bytes_out, record.window_s) for record in records]
    )


def _spread(values: Sequence[float]) -> curve.Spread:
    found = curve.spread(values)
    assert found is not None  # a level has at least one record, and no record is NaN
    return found


def _level(
    source: Source, configuration: Configuration, records: list[LevelRecord], enough: int
) -> LevelFigures:
    """Return the figures of one level. `enough`: its number of repetitions, if none is missing."""
    first, suite, generator = records[0], source.head.suite, source.head.plan.generator
    terms, timeout_ms = suite.terms, suite.timeout_s * 1000
    axis = axis_of(suite.axis, terms.operation)
    cpus = len(configuration.cpus) or None  # unknown for a user's server
    fewest_cpus = min(filter(None, (cpus, len(generator.cpus))), default=1)
    hidden, linked = _hidden_speed(source, records, cpus)
    least = _of_all(records, lambda record: hidden_speed(record, cpus, run_delay=False))
    passes = passes_a_client(records)
    drifts, failing = drifting(records, passes), is_failing(records)
    opened = open_load.of_level(records, suite.law)
    return LevelFigures(
        configuration=first.configuration,
        index=first.level,
        load=axis.load(first),
        clients=first.clients,
        threads=first.threads,
        repetitions=len(records),
        window_s=first.window_s,
        throughput=_spread([terms.throughput(record) for record in records]),
        second=_spread([terms.second(record) for record in records]),
        operations_s=_spread([record.operations_s for record in records]),
        network_share=_network_share(records) if terms.below_cache else None,
        below_cache_mbit_s=_below_cache_mbit_s(records) if terms.below_cache else None,
        passes_a_client=passes,
        clients_took_part=min(record.clients - left(record) for record in records),
        clients_left=sum(left(record) for record in records),
        clients_never_began=sum(record.never_began for record in records),
        clients_starved=max(starved(record) for record in records),
        stalls={record.repetition: found for record in records if (found := stalled(record))},
        drifts=drifts,
        fairness=fairness(records, of_operations=terms.throughput_counts_operations),
        errors=_by_side(records),
        faults=faults(records),
        errors_in_window=sum(row.in_window for record in records for row in record.errors),
        failed_share=failed_share(records),
        first_error=first_error(records),
        refused={record.repetition: found for record in records if (found := refused(record))},
        is_failing=failing,
        response=_response(records, timeout_ms),
        response_of_runs=tuple(
            times for record in records if (times := _response([record], timeout_ms)) is not None
        ),
        under_way_at_close=sum(record.under_way_at_close or 0 for record in records),
        under_way_longest_ms=most(_milliseconds(record.under_way_longest_s) for record in records),
        unanswered=sum(record.unanswered for record in records),
        connections=connections(records),
        cost=cost(records, fewest_cpus),
        server_cpus=cpus,
        operations=_by_class(records),
        others_cpus=others_cpus(records),
        waiting_share=_of_all(records, waiting_share),
        thinking_share=fmean(map(thinking_share, records)),
        is_held_by_thinking=all(is_held_by_thinking(record, suite.think_time_s) for record in records),
        hidden_speed=hidden,
        hidden_speed_is_loose=trust.is_loose(hidden, least),
        overdue_at_end=sum(record.overdue_at_end or 0 for record in records),
        needs_disk=_needs_disk(source, records),
        at=axis.words(axis.load(first)),
        open=opened,
        marks=_marks(records, configuration, fewest_cpus, opened, suite)
        | ({trust.Mark.MISSING} if len(records) < enough else set())
        | ({trust.Mark.PART_OF_A_PASS} if passes is not None and passes < 1 else set())
        | trust.generator_marks(None if failing else hidden)
        | linked
        | trust.drift_marks(drifts),
    )


def _hidden_speed(
    source: Source, records: Sequence[LevelRecord], cpus: int | None
) -> tuple[float | None, frozenset[trust.Mark]]:
    """Return the hidden speed, and the mark of a level whose links were full: they had no more left."""
    link = _of_all(records, lambda record: link_share(record, source.head.plan.testbed))
    if link and (linked := trust.link_marks(link)):
        return max(0.0, 1 / link - 1), linked
    return _of_all(records, lambda record: hidden_speed(record, cpus)), frozenset()


def _response(records: Sequence[LevelRecord], timeout_ms: float) -> histograms.Times | None:
    blobs = [record.response_time_hdr for record in records]
    return histograms.times(blobs, *open_load.unanswered(records, timeout_ms))


def _by_side(records: Sequence[LevelRecord]) -> dict[str, int]:
    counts = Counter(dict.fromkeys(SIDES, 0))
    for record in records:
        for row in record.failed:
            counts[row.side] += row.count
    return dict(counts)


def _needs_disk(source: Source, records: Sequence[LevelRecord]) -> bool:
    """Return whether the server may have to wait for a disk. It need not if files are only read and fit in memory."""
    suite, memory_bytes = source.head.suite, source.memory_bytes
    files_bytes = suite.work.workspace_bytes(suite.settings(suite.work)) * records[0].clients
    if memory_bytes is not None and files_bytes > memory_bytes:
        return True
    return any(record.bytes_written or any(row.count for row in record.syncs) for record in records)


def _of_all(records: Sequence[LevelRecord], figure: Callable[[LevelRecord], float | None]) -> float | None:
    """Return the mean over the repetitions, weighted by their operations; None if unknown."""
    known = [(found, record.operations) for record in records if (found := figure(record)) is not None]
    operations = sum(weight for _, weight in known)
    if len(known) < len(records):
        return None
    if not operations:
        return max((found for found, _ in known), default=None)
    return sum(found * weight for found, weight in known) / operations


def _by_class(records: Sequence[LevelRecord]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for record in records:
        counts.update({row.operation: row.count for row in record.by_operation})
    return dict(counts)


def _network_share(records: list[LevelRecord]) -> float | None:
    moved = sum(record.bytes_read + record.bytes_written for record in records)
    return sum(record.bytes_in + record.bytes_out for record in records) / moved if moved else None


def _marks(
    records: list[LevelRecord],
    configuration: Configuration,
    fewest_cpus: int,
    opened: OpenFigures | None,
    suite: Suite,
) -> frozenset[trust.Mark]:
    thinks = suite.think_time_s or suite.work.start_spread_s(suite.settings(suite.work), 0.0)
    most_per_s = configuration.bounds.max_rate_per_s if configuration.bounds else None
    found = {trust.Mark.BEHIND} if opened is not None and not opened.kept_up else set[trust.Mark]()
    for record in records:
        waits = not thinks and thinking_share(record) >= trust.THINKING_SHARE
        idle_window_s = record.window_s if waits else None
        requests_s = record.bounded_s(configuration.url)
        found |= trust.rate_marks(requests_s, most_per_s, idle_window_s=idle_window_s)
        found |= noise_marks(record, fewest_cpus)
        found |= fate_marks(record)
    return frozenset(found)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
