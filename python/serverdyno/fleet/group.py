"""Run a group of levels that end when their work is done, on the nodes of a fleet or in this process.

All clients wait for each other at gates: before each step, and at the beginning and end of each level. A gate is
opened once all nodes have reached it. Each node gets the start time of a level in its own clock, and reports
durations since the start. The data plane does the work between two gates, and `run/steps.py` takes samples there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serverdyno import _native
from serverdyno.counted import Counted
from serverdyno.errors import DynoError, ServerEndedError, ServerError
from serverdyno.fleet import clock
from serverdyno.fleet.clock import ClockOffset
from serverdyno.fleet.contract import Exchange, Look, Node, ask_all
from serverdyno.fleet.fleet import TICK_S, UNSEEN, Fleet, NodeFigures, Place, check_ways, notice_ns
from serverdyno.fleet.worker import Worker
from serverdyno.servers import waiting
from serverdyno.units import NS_PER_S

NOTICE_HERE_NS = 2_000_000
"""Time from the opening of a gate to the start within one process, whose threads check the gate every 0.2 ms."""
END_S = 10.0
"""Time limit for the end of a stopped group, including the removal of its files."""
BEGIN, END = "begin", "end"
"""Kinds of gates at which this module acts. The third kind is between levels."""
AtGate = Callable[[str], None]
"""Function that is called with the kind of a gate while all clients wait there."""


class ThisProcess:
    """This process as a node, which performs a request when its answer is read."""

    name, lost, look_s = "this process", False, TICK_S
    on_this_clock = on_this_machine = True

    def __init__(self, target: _native.Target) -> None:
        self._worker = Worker(target)
        self._request: tuple[str, dict[str, object]] = ("clock", {})

    @property
    def exchange(self) -> Exchange:
        """An instantaneous exchange."""
        now_ns = time.monotonic_ns()
        return Exchange(now_ns, now_ns, now_ns, now_ns)

    def ask(self, do: str, **arguments: object) -> None:
        """Store a request."""
        self._request = do, arguments

    def answered(self, _timeout_s: float) -> bool:
        """Return true, because `answer` performs the request."""
        return True

    def answer(self) -> Any:
        """Perform the request. Raises its error."""
        do, arguments = self._request
        return getattr(self._worker, do)(**arguments)

    def cpu_s(self) -> float:
        """Return 0, because `LoadSetup.generator_cpu_s` adds the CPU time of this process."""
        return 0.0

    def end(self) -> None:
        self._worker.abandon()


def in_this_process(target: _native.Target, cpus: Sequence[int]) -> Fleet:
    """Return a fleet that consists of this process."""
    return Fleet([Place(ThisProcess(target), 0, 1, 1, tuple(cpus))], workspaces=0)


@dataclass(frozen=True, slots=True)
class GroupLevel:
    """The counts of a level, in total and per participating node."""

    result: Counted
    nodes: Sequence[NodeFigures]


@dataclass(frozen=True, slots=True)
class Group:
    """The levels of a group, for the requests to nodes.

    `job` is the document for the data plane (`crates/engine/src/job.rs`) without a node's part. `clients` is the
    largest number of clients of a level. `names` are the names of the steps for error messages, and `local` the sizes
    of local files in bytes, by name.
    """

    job: Mapping[str, Any]
    clients: int
    names: Sequence[str]
    local: Mapping[str, int]


class GroupLoad:
    """A running group. `begun_unix_s` contains the start times of the levels by this machine's clock."""

    def __init__(self, fleet: Fleet, group: Group) -> None:
        self.begun_unix_s: list[float] = []
        self._fleet = fleet
        self._places = [place for place in fleet.places if place.clients(group.clients)]
        self._nodes = [place.node for place in self._places]
        self._group = group
        self._offsets: list[ClockOffset] = []
        self._looks: dict[Node, dict[str, Any]] = {}
        self._tallies: dict[Node, bytes] = {}
        self._asked: set[Node] = set()

    def carry_out(self, at_gate: AtGate) -> list[GroupLevel | None]:
        """Run the group and return the counts of each level. Raises DynoError.

        Even after an error, the load is ended and each node removes the files that it created. After a
        ServerEndedError, no files are removed.
        """
        try:
            try:
                self._begin()
                while not all(look["ended"] for look in self._looks.values()):
                    self._pass_gate(at_gate)
                    self._look()
            except ServerError:
                waiting.look()  # if the server has ended, raise this instead of the client's error
                raise
            return self._levels()
        except BaseException as error:
            self._stop(at_once=isinstance(error, ServerEndedError))
            raise

    def _begin(self) -> None:
        group = self._group
        asked = [
            {
                "job": {**group.job, "part": place.part(group.clients)},
                "names": list(group.names),
                "local": dict(group.local) if place.offset == 0 else {},
                "cpus": list(place.cpus),
                "timeout_s": place.node.look_s,
            }
            for place in self._places
        ]
        looks = ask_all(self._nodes, "begin_group", asked)
        self._offsets = [clock.measured(node) for node in self._nodes]
        for node, look in zip(self._nodes, looks, strict=True):
            self._take(node, look)

    def _look(self) -> None:
        """Request the state of each node that is not at a gate, and wait briefly for the answers."""
        for node in self._nodes:
            look = self._looks[node]
            # If a node is lost while it waits at a gate, a request raises the reason.
            is_due = not look["ended"] and (look["gate"] is None or node.lost)
            if node not in self._asked and is_due:
                node.ask("look_at_group", timeout_s=node.look_s)
                self._asked.add(node)
        until_s = time.monotonic() + TICK_S
        for node in [node for node in self._nodes if node in self._asked]:
            if node.answered(max(0.0, until_s - time.monotonic())):
                self._asked.discard(node)
                self._take(node, node.answer())
        waiting.look()
        check_ways(self._fleet, self._looks)

    def _take(self, node: Node, look: Look) -> None:
        if isinstance(look, tuple):
            look, self._tallies[node] = look
        self._looks[node] = look

    def _pass_gate(self, at_gate: AtGate) -> None:
        """Open the next gate once all nodes have reached a gate. Nodes at a later gate keep waiting."""
        at = [look["gate"] for look in self._looks.values() if not look["ended"]]
        if not at or None in at:
            return
        gate = min(at)
        kind = next(look["kind"] for look in self._looks.values() if look["gate"] == gate)
        at_gate(kind)
        begins_ns = time.monotonic_ns()
        if kind == BEGIN:
            notice = NOTICE_HERE_NS if self._is_here else notice_ns(self._nodes)
            begins_ns += notice
            self.begun_unix_s.append(time.time() + notice / NS_PER_S)
        for node, offset in zip(self._nodes, self._offsets, strict=True):
            if self._looks[node]["gate"] == gate:
                self._looks[node]["gate"] = None
                moment_ns = begins_ns + offset.offset_ns
                node.ask("open_gate", gate=gate, begins_monotonic_ns=moment_ns, timeout_s=node.look_s)
                self._asked.add(node)

    @property
    def _is_here(self) -> bool:
        return isinstance(self._nodes[0], ThisProcess)

    def _levels(self) -> list[GroupLevel | None]:
        own = {node: _counted([self._tallies[node]]) for node in self._nodes}
        together = _counted([self._tallies[node] for node in self._nodes])
        return [
            None
            if result is None
            else GroupLevel(
                result,
                []
                if self._is_here
                else [
                    NodeFigures(node.name, part, offset, **UNSEEN)
                    for node, offset in zip(self._nodes, self._offsets, strict=True)
                    if (part := own[node][place]) is not None
                ],
            )
            for place, result in enumerate(together)
        ]

    def _stop(self, *, at_once: bool) -> None:
        """Stop the group on all remaining nodes, and wait until they have removed their files."""
        until_s = time.monotonic() + END_S
        for node in self._nodes:
            with contextlib.suppress(DynoError, RuntimeError, OSError, ValueError):
                while not node.lost:
                    node.ask("stop_group", at_once=at_once, timeout_s=node.look_s)
                    if node.answer()["ended"] or time.monotonic() > until_s:
                        break


def _counted(tallies: Sequence[bytes]) -> list[Counted | None]:
    return [None if told is None else Counted.of(told) for told in _native.merge_levels(list(tallies))]
