"""A group of levels that end when their work is done, on the nodes of a fleet or in this process alone.

All clients wait for each other at gates: before each step, and at the begin and the end of each level. A gate is opened
once all nodes have reached it. Levels begin at a moment that each node has in its own clock, and nodes tell durations
since that moment. Not for: what is done between two gates (the data plane), nor what is sampled there (`run/steps.py`).
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
"""The same as `fleet.NOTICE_NS` in one process: its threads look at the gate every 0.2 ms."""
END_S = 10.0
"""The longest wait for the end of a group that was stopped, the removal of its files included."""
BEGIN, END = "begin", "end"
"""Kinds of gates. The third kind, between levels, needs no name here."""
AtGate = Callable[[str], None]
"""Called with the kind of a gate while all clients wait there."""


class ThisProcess:
    """This process as a node of its own: a request is carried out while its answer is waited for."""

    name, lost, look_s = "this process", False, TICK_S
    on_this_clock = on_this_machine = True

    def __init__(self, target: _native.Target) -> None:
        self._worker = Worker(target)
        self._request: tuple[str, dict[str, object]] = ("clock", {})

    @property
    def exchange(self) -> Exchange:
        """Return an exchange that takes no time."""
        now_ns = time.monotonic_ns()
        return Exchange(now_ns, now_ns, now_ns, now_ns)

    def ask(self, do: str, **arguments: object) -> None:
        """Take note of a request."""
        self._request = do, arguments

    def answered(self, _timeout_s: float) -> bool:
        """Return true: whoever reads the answer waits for it."""
        return True

    def answer(self) -> Any:
        """Carry the request out. Raises what it is refused with."""
        do, arguments = self._request
        return getattr(self._worker, do)(**arguments)

    def cpu_s(self) -> float:
        """Return 0: the CPU time of this process is counted elsewhere."""
        return 0.0

    def end(self) -> None:
        """End what is under way."""
        self._worker.abandon()


def in_this_process(target: _native.Target, cpus: Sequence[int]) -> Fleet:
    """Return a fleet of this process alone."""
    return Fleet([Place(ThisProcess(target), 0, 1, 1, tuple(cpus))], workspaces=0)


@dataclass(frozen=True, slots=True)
class Level:
    """What was counted of a level, by all nodes together and by each that took part."""

    result: Counted
    nodes: Sequence[NodeFigures]


@dataclass(frozen=True, slots=True)
class Group:
    """What each node is asked to do.

    `job`: the document of the data plane (`crates/engine/src/job.rs`) without the part of a node; `clients`: the most
    of a level; `names`: of its steps, for errors; `local`: bytes of local files by name.
    """

    job: Mapping[str, Any]
    clients: int
    names: Sequence[str]
    local: Mapping[str, int]


class GroupLoad:
    """A group under way. `begun_unix_s`: when the levels of each phase began, by the clock of this machine."""

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

    def carry_out(self, at_gate: AtGate) -> list[Level | None]:
        """Return what was counted of each level. Raises DynoError; whatever ends it, the load ends, and each node has
        removed what Bonnies made there. After a ServerEndedError nothing is removed.
        """
        try:
            try:
                self._begin()
                while not all(look["ended"] for look in self._looks.values()):
                    self._pass_gate(at_gate)
                    self._look()
            except ServerError:
                waiting.look()  # what a client met may be the end of the server
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
        """Ask each node that waits at no gate how it stands, and wait briefly for the answers."""
        for node in self._nodes:
            look = self._looks[node]
            # Of a node that is lost while it waits at a gate, asking tells why.
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
        """Open the next gate once no node is on the way to it. Nodes beyond it are left alone."""
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

    def _levels(self) -> list[Level | None]:
        own = {node: _counted([self._tallies[node]]) for node in self._nodes}
        together = _counted([self._tallies[node] for node in self._nodes])
        return [
            None
            if result is None
            else Level(
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
        """Stop all nodes that are left, and wait until they have removed what they remove."""
        until_s = time.monotonic() + END_S
        for node in self._nodes:
            with contextlib.suppress(DynoError, RuntimeError, OSError, ValueError):
                while not node.lost:
                    node.ask("stop_group", at_once=at_once, timeout_s=node.look_s)
                    if node.answer()["ended"] or time.monotonic() > until_s:
                        break


def _counted(tallies: Sequence[bytes]) -> list[Counted | None]:
    return [None if told is None else Counted.of(told) for told in _native.merge_levels(list(tallies))]
