"""One run: starts a server, verifies it, loads it level by level, and always stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from serverdyno import wording
from serverdyno.counted import Counted
from serverdyno.fleet import local
from serverdyno.fleet.group import BEGIN, END
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.preflight import Preflight, preflight
from serverdyno.plan.expand import trial
from serverdyno.plan.model import Configuration, Level, RunKey
from serverdyno.probes.window import WindowMeter
from serverdyno.run import steps
from serverdyno.run.ask import looked
from serverdyno.run.directories import directories_of_shares
from serverdyno.run.disclose import disclose_fleet, disclose_server
from serverdyno.run.durability import Durability, watched
from serverdyno.run.grace import grace_told
from serverdyno.run.negotiated import NegotiatedSessions
from serverdyno.run.outage import Outage, cut_of
from serverdyno.run.progress import Progress
from serverdyno.run.record import level_record, node_row
from serverdyno.run.site import HERE, Site
from serverdyno.run.steps import NOT_KNOWN, Listener, ServerUse
from serverdyno.run.time_left import TimeLeft
from serverdyno.run.under_test import opened, served
from serverdyno.run.workspaces import tell_left, tell_recycled, workspaces_taken_away
from serverdyno.servers import waiting
from serverdyno.servers.base import RunningServer
from serverdyno.store.experiment import Experiment
from serverdyno.store.note import RunNote
from serverdyno.store.records import LevelRecord

if TYPE_CHECKING:
    from serverdyno._native import Snapshot

NextRate = Callable[[RunKey], int | None]
"""Returns the rate of a search's next trial in requests/s; None if the search is over."""


def used_since(
    before: Mapping[str, float | None], after: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Return the CPU seconds that each member of a team used; None if a value is missing."""

    def used(start: float | None, end: float | None) -> float | None:
        return None if start is None or end is None else end - start

    return {name: used(before.get(name), end) for name, end in after.items()}


@dataclass(slots=True)
class Requests:
    """Requests sent, to compare with the server's count.

    `failed`: None for file servers, whose requests are answered even if operations fail. `are_known`: false after
    steps, because requests before and after the steps are not counted.
    """

    answered: int = 0
    failed: int | None = 0
    are_known: bool = True

    def add(self, result: Counted) -> None:
        """Add the counts of one level, ramps included. A request repeated on a new connection counts once.

        For file servers, these are requests of the protocol, including those that created the workspaces.
        """
        if result.protocol_requests is not None:
            self.answered += result.protocol_requests
            self.failed = None
            return
        self.answered += result.operations_total
        self.failed = (self.failed or 0) + sum(error.count for error in result.errors)


@dataclass(slots=True)
class Run:
    """The run of one configuration, or the rest of the run after a resume.

    `left`: time left of the whole experiment. `next_rate`: chooses the rates of a search, which has at most one trial
    per entry of `levels`. `done`: number of recorded levels of `levels`. `served`: requests by the server's own count;
    None if unknown. `members_before`: CPU seconds of each member of a team before the first level.
    """

    experiment: Experiment
    key: RunKey
    levels: Sequence[Level]
    progress: Progress
    left: TimeLeft
    next_rate: NextRate | None = None
    site: Site = HERE
    done: int = 0
    served: int | None = 0
    members_before: Mapping[str, float | None] = field(default_factory=dict)
    durability: Durability = field(default_factory=Durability)
    requests: Requests = field(default_factory=Requests)
    agreed: NegotiatedSessions = field(default_factory=NegotiatedSessions)
    remedies: dict[str, str] = field(default_factory=dict)

    def carry_out(self) -> None:
        """Start the server, run the levels and record each. Raises DynoError after stopping the server."""
        self.progress.stage(f"starting {self.key.configuration}")
        head, configuration = self.experiment.head, self._configuration()
        with served(head, configuration, self.site) as server, ExitStack() as watching:
            for _, levels in groupby(self.levels, key=lambda level: level.suite):
                self._suite(list(levels), server, watching)
            self._note(server)

    def _suite(self, levels: Sequence[Level], server: RunningServer, watching: ExitStack) -> None:
        """Run the missing levels of one suite.

        The processes of a user's server are known only after the first check, so `watching` begins with the first
        suite.
        """
        head, configuration = self.experiment.head, self._configuration()
        suite = head.suite_of(levels[0])
        with (
            opened(head, configuration, server, levels, self.site) as setup,
            workspaces_taken_away(configuration, server.access(), levels[0], setup, self.progress),
            waiting.ended_by(grace_told(configuration, setup, self.progress)),
        ):
            if setup.fleet is not None and setup.fleet.disclosed:
                disclose_fleet(self.experiment, setup.fleet.disclosed, self.site.network)
            before = looked(setup, levels)
            if not self.done:
                directories = directories_of_shares(configuration, server, setup, self.progress)
                self.durability = watching.enter_context(watched(server, head.suites, directories))
            served_before = server.requests_served()
            seen = None if suite.ends_when_done else self._preflight(setup, levels[0])
            disclose_server(self.experiment, self.key.configuration, server, seen)
            if not self.done:
                self.experiment.write_run_note(
                    self.key, RunNote(state="begun", **self.durability.note_before())
                )
                self.members_before = server.cpu_by_member_s()
            if suite.ends_when_done:
                self._run_group(levels, setup, server)
            else:
                for level in self._due(levels):
                    self._run_level(level, setup, server)
            if self.key.repetition == 1:
                tell_recycled(configuration, before, setup, self.progress)
            served = used_since({"": served_before}, {"": server.requests_served()})[""]
            self.served = None if served is None or self.served is None else self.served + int(served)

    def _run_group(self, levels: Sequence[Level], setup: LoadSetup, server: RunningServer) -> None:
        """Run a suite's levels that end when their work is done, and record all of them after the last."""
        head = self.experiment.head
        self.requests.are_known = False

        def at_gate(kind: str, level: Level) -> ServerUse:
            if kind == BEGIN:
                self.progress.stage(f"{self.key.configuration}: {level.name}")
            elif kind != END:
                return NOT_KNOWN
            return ServerUse(server.cpu_s(), self.durability.syncs(), server.rss_bytes())

        def on_left(left: Sequence[str]) -> None:
            tell_left(self._configuration(), server.access(), setup, left, self.progress)

        # All configurations get the same contents and positions, which differ between repetitions.
        seed = local.stream_seed(head.seed, self.key.repetition, 0)
        found = steps.carry_out(
            levels, setup, seed, Listener(at_gate, on_left), drop_caches=head.plan.drop_caches
        )
        server.check()
        records = list[LevelRecord]()
        for level, counted in zip(levels, found, strict=True):
            self.agreed.add(counted.result)
            records.append(
                level_record(
                    self.key,
                    level,
                    counted.result,
                    counted.use.syncs,
                    server_cpu_s=counted.use.cpu_s,
                    server_rss_bytes=counted.use.rss_bytes,
                    nodes=[node_row(figures) for figures in counted.nodes],
                )
            )
            self.progress.level_finished(records[-1])
        self.experiment.write_level(*records)
        self.done += len(records)

    def _preflight(self, setup: LoadSetup, level: Level, *, again: bool = False) -> Preflight:
        found = preflight(setup, level, again=again)
        for result in found.results:
            self.requests.add(result)
        if found.warning is not None:
            self.progress.notice(f"{self.key.configuration}: {found.warning[0]}", hint=found.warning[1])
        return found

    def _due(self, levels: Sequence[Level]) -> Iterator[Level]:
        """Yield the levels in order; in a search, the results of earlier trials determine each trial."""
        for level in levels:
            if self.next_rate is None:
                yield level
            elif (rate_per_s := self.next_rate(self.key)) is not None:
                yield trial(level, rate_per_s)
            else:
                return

    def _configuration(self) -> Configuration:
        head = self.experiment.head
        return next(found for found in head.configurations if found.name == self.key.configuration)

    def _run_level(self, level: Level, setup: LoadSetup, server: RunningServer) -> None:
        self.progress.level_started(self.key, level, self.left.total_s())
        outage = Outage(cut_of(setup.suite), server, level)
        meter = WindowMeter(
            server.cpu_s,
            self.durability.syncs,
            setup.generator_cpu_s,
            self._cpus(setup),
            server_is_here=server.is_here,
        )

        def on_tick(elapsed_s: float, snapshot: Snapshot) -> None:
            meter.look(elapsed_s, level)
            outage.look(elapsed_s)
            self.progress.level_tick(snapshot)

        stream = level.index if setup.suite.work.drawn_anew else 0
        seed = local.stream_seed(self.experiment.head.seed, self.key.repetition, stream)
        result = local.run_level(level, setup, seed, on_tick)
        if level.operations is not None:
            meter.end()
        nodes = setup.fleet.figures if setup.fleet else ()  # read before a preflight replaces the figures
        # If a server has ended, its figures are not a measurement.
        server.check()
        if result.clients_participating == 0 or result.operations == 0:
            # The figures of an overloaded server are a measurement, but those of a server that has ended are not. A
            # user's server can only be queried.
            self.progress.stage(
                f"{self.key.configuration}: {'all clients gave up' if result.operations else 'no operation succeeded'} "
                f"with {wording.plural(level.clients, 'client')}; checking whether the server still answers"
            )
            self._preflight(setup, level, again=True)
        self.requests.add(result)
        self.agreed.add(result)
        self.remedies |= {row.fault: row.advice for row in result.errors if row.advice is not None}
        record = level_record(
            self.key,
            level,
            result,
            meter.syncs(),
            **asdict(meter.use(result.window_s)),
            server_rss_bytes=server.rss_bytes(),
            nodes=[node_row(figures) for figures in nodes],
            cut_at_s=outage.at_s(),
        )
        self.experiment.write_level(record)
        if record.void is not None:
            self.progress.notice(
                f"{self.key.configuration}, {level.name} is void: {record.void}",
                hint=f"dyno resume {self.experiment.folder} measures this level again.",
            )
        self.done += 1
        self.left.level_ends(level.length_s)
        self.progress.level_finished(record)

    def _cpus(self, setup: LoadSetup) -> frozenset[int]:
        """Return the CPUs of load and server; empty if unrestricted."""
        server = self._configuration().cpus
        return frozenset((*setup.cpus, *server)) if setup.cpus and server else frozenset()

    def _note(self, server: RunningServer) -> None:
        """Record the counts since the server's start; after a resume, only those of levels from `from_level` on."""
        counted = self.served
        suites = self.experiment.head.suites
        if any(cut_of(suite) is not None for suite in suites) or not self.requests.are_known:
            # A restarted server counts from zero, and its earlier counts are unknown.
            counted = None
        self.experiment.write_run_note(
            self.key,
            RunNote(
                state="done",
                from_level=self.levels[0].index,
                requests_answered=self.requests.answered if self.requests.are_known else None,
                requests_failed=self.requests.failed if self.requests.are_known else None,
                requests_by_server_count=counted,
                crashes=list(server.crashes()),
                cpu_by_member_s=used_since(self.members_before, server.cpu_by_member_s()) or None,
                remedies=self.remedies or None,
                **self.agreed.note(),
                **self.durability.note(),
            ),
        )
