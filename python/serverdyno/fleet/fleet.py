"""Several nodes that carry one mix: clients dealt out by weight, one start in each node's own clock, one result.

Each node opens and proves the target itself and keeps its clients from mix to mix. One that is lost fails the mix, and
the others end theirs. Not for: how a node is reached (`processes.py`, `cluster.py`), what it does (`worker.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serverdyno import _native
from serverdyno.counted import Counted
from serverdyno.errors import DynoError
from serverdyno.fleet import clock
from serverdyno.fleet.clock import ClockOffset
from serverdyno.fleet.contract import Look, Node, ask_all
from serverdyno.units import NS_PER_S

TICK_S = 0.25  # the longest wait for one node before the others are looked at
NOTICE_NS = 50_000_000  # from "every client is ready" to the start, for the word to reach every process
FAR_NOTICE_NS = 250_000_000  # the same over a network
FAR_NOTICE_EACH_NS = (
    1_000_000  # and for each node: the word goes out to one after the other, 0.4 ms of CPU time each
)
UNSEEN: dict[str, Any] = {"others_cpu_s": None, "steal_cpu_s": None, "cpus": None}


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and which clients it has: `run` of every `step` from `offset` on. `cpus`: of its engine threads; none:
    not pinned.
    """

    node: Node
    offset: int
    step: int
    run: int
    cpus: tuple[int, ...] = ()

    def clients(self, of: int) -> int:
        """How many of so many clients it has."""
        whole, rest = divmod(of, self.step)
        return whole * self.run + min(max(rest - self.offset, 0), self.run)

    def part(self, of: int) -> dict[str, int]:
        """The section of a document that says so."""
        return {
            "client_offset": self.offset,
            "client_step": self.step,
            "client_run": self.run,
            "clients": self.clients(of),
        }


def placed(
    nodes: Sequence[Node], weights: Sequence[int], cpus: Sequence[Sequence[int]] | None = None
) -> list[Place]:
    """Deal the clients out in turn, to each node as many in a row as its weight says: the same in every mix."""
    least = math.gcd(*weights)
    runs = [weight // least for weight in weights]
    places, offset = [], 0
    for number, (node, run) in enumerate(zip(nodes, runs, strict=True)):
        own = tuple(cpus[number]) if cpus else ()
        places.append(Place(node, offset, sum(runs), run, own))
        offset += run
    return places


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """What one node did in a mix, by its own tally, and what it saw of its machine; see `store.records.NodeRow`."""

    node: str
    result: Counted
    clock: ClockOffset
    others_cpu_s: float | None
    steal_cpu_s: float | None
    cpus: int | None


class Fleet:
    """The nodes of one run. `figures`: of each node, of the last mix. `disclosed`: what a reader must know of the
    nodes, where they are more than processes of this machine.
    """

    def __init__(
        self, places: Sequence[Place], workspaces: int, disclosed: Mapping[str, Any] | None = None
    ) -> None:
        """`workspaces`: the name that all of them give to those of their clients."""
        self.places, self.workspaces, self.disclosed = places, workspaces, disclosed
        self.figures: list[NodeFigures] = []
        self.serving: list[tuple[Node, str]] = []
        """Nodes on which the server runs, and what of it: their loss ends a mix, too."""
        self._most_clients = 0
        self._told: dict[Node, dict[str, Any]] = {}
        """The document that each node knows."""

    def serve_from(self, places: Sequence[tuple[Node, str, Mapping[str, Any]]]) -> None:
        """Take note of each node on which the server runs, what of it, and what a reader must know of the node."""
        self.serving = [(node, what) for node, what, _ in places]
        each = {node.name: machine for node, _, machine in places}
        self.disclosed = {**(self.disclosed or {}), "serving": [*each.values()]}

    @property
    def nodes(self) -> list[Node]:
        return [place.node for place in self.places]

    def start(self, document: dict[str, Any]) -> FleetLoad:
        """Start one mix on all of them. Raises as `_native.prepare` does."""
        parts = self._documents(document)
        self._most_clients = max(self._most_clients, document["clients"])
        told, self._told = self._told, {}
        changes = [
            _changes(told.get(node), part) | {"timeout_s": node.look_s} for node, part in parts.items()
        ]
        looks = ask_all([*parts], "start", changes)
        self._told = told | parts
        offsets = [clock.measured(node) for node in parts]
        return FleetLoad(self, parts, offsets, looks)

    def begun(self) -> bool:
        """Say whether any workspace was ever begun."""
        return self._lost() or any(ask_all(self.nodes, "begun"))

    def lost_clients(self) -> list[int]:
        """Return the clients that may have left something, where a node is lost that knew; else none."""
        return list(range(self._most_clients)) if self._lost() else []

    def remove_workspaces(self, document: dict[str, Any], most_s: float) -> FleetRemoval:
        """Begin to take away what the clients of all of them have left."""
        ask_all(self.nodes, "remove", [{"document": document, "most_s": most_s}] * len(self.nodes))
        return FleetRemoval(self.nodes)

    def cpu_s(self) -> float:
        """CPU seconds of this machine that all of them have used so far."""
        return sum(node.cpu_s() for node in self.nodes)

    def _lost(self) -> bool:
        return any(node.lost for node in self.nodes)

    def _documents(self, document: dict[str, Any]) -> dict[Node, dict[str, Any]]:
        """The document of each node that has clients: the same node has the same clients in every mix."""
        parts = {}
        for place in self.places:
            part = place.part(document["clients"])
            if part["clients"]:
                parts[place.node] = document | {
                    "start": "on_command",
                    "part": part,
                    "engine": document["engine"] | {"cpus": list(place.cpus)},
                }
        return parts


def _changes(known: dict[str, Any] | None, document: dict[str, Any]) -> dict[str, Any]:
    """What a node must be told of a document: all of it, or what differs from the one that it knows."""
    if known is None or known.keys() != document.keys():
        return {"document": document, "anew": True}
    return {"document": {key: told for key, told in document.items() if known[key] != told}, "anew": False}


OF_THE_LAST = ("elapsed_s", "p99_ms")
"""Of a snapshot: the figure of the node that is farthest or slowest stands for all."""


class FleetLoad:
    """A mix under way on several nodes; used as a `_native.Load`."""

    def __init__(
        self,
        fleet: Fleet,
        parts: Mapping[Node, Mapping[str, Any]],
        offsets: Sequence[ClockOffset],
        looks: Sequence[Look],
    ) -> None:
        """`parts`: the document of each node. `looks`: of each, when its clients were ready or a moment was over."""
        self._fleet, self._parts, self._nodes, self._offsets = fleet, parts, list(parts), offsets
        self._is_going = False
        self._start_ns: int | None = None
        self._started_unix_s: float | None = None
        self._asked: set[Node] = set()
        self._looks: dict[Node, dict[str, Any]] = {}
        self._tallies: dict[Node, tuple[dict[str, Any], bytes]] = {}
        for node, look in zip(parts, looks, strict=True):
            self._take(node, look)

    @property
    def elapsed_s(self) -> float:
        """Since the start, by the clock of this machine, and not less than a node has said; 0 before it."""
        if self._start_ns is None:
            return 0.0
        here_s = (time.monotonic_ns() - self._start_ns) / NS_PER_S
        said_s: list[float] = [look["snapshot"]["elapsed_s"] for look in self._looks.values()]
        return max(0.0, here_s, *said_s)

    def snapshot(self) -> _native.Snapshot:
        """Return where it stands, as of the last look."""
        parts = [look["snapshot"] for look in self._looks.values()]
        snapshot = {name: sum(part[name] for part in parts) for name in parts[0] if name not in OF_THE_LAST}
        for name in OF_THE_LAST:
            snapshot[name] = max((part[name] for part in parts if part[name] is not None), default=None)
        return snapshot  # type: ignore[return-value]

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; true once it has come. Raises DynoError where a node is lost, or its way to the server."""
        until_s = time.monotonic() + timeout_s
        while True:
            if not self._is_going and all(self._is_ready(node) for node in self._nodes):
                self._go()
            self._ask()
            tick_s = min(until_s, time.monotonic() + TICK_S)
            for node in [node for node in self._nodes if node in self._asked]:
                if node.answered(max(0.0, tick_s - time.monotonic())):
                    self._asked.discard(node)
                    self._take(node, node.answer())
            check_ways(self._fleet, self._looks)
            ended = all(look["ended"] for look in self._looks.values())
            if ended or time.monotonic() >= until_s:
                return ended

    def stop(self) -> None:
        """End it early on all nodes that are left, and wait for none that is lost any more."""
        self._is_going = True
        self._asked.clear()
        self._nodes = [node for node in self._nodes if _stopped(node)]
        self._looks = {node: self._looks[node] for node in self._nodes}

    def result(self) -> dict[str, Any]:
        """Return what all of them counted. Raises as `_native.Load.result` does."""
        missing = [node for node in self._nodes if node not in self._tallies]
        self._tallies |= dict(zip(missing, ask_all(missing, "tally"), strict=True))
        told = [self._tallies[node] for node in self._nodes]
        self._fleet.figures = [
            # What others used of this machine is measured here, for all that run on it.
            NodeFigures(
                node.name,
                Counted.of(_native.merge([tally], with_clients=False)),
                offset,
                **(UNSEEN if node.on_this_machine else machine),
            )
            for node, (machine, tally), offset in zip(self._nodes, told, self._offsets, strict=True)
        ]
        result = _native.merge([tally for _, tally in told])
        # By the clock of this machine, whatever those of the nodes say.
        result["started_unix_s"] = self._started_unix_s or result["started_unix_s"]
        return result

    def _is_ready(self, node: Node) -> bool:
        """Whether its clients are, or never will be."""
        look = self._looks[node]
        return bool(
            look["ended"] or look["snapshot"]["clients_prepared"] >= self._parts[node]["part"]["clients"]
        )

    def _ask(self) -> None:
        """Ask each node for its next look that has none under way, and news to come."""
        for node in self._nodes:
            news = not self._looks[node]["ended"] if self._is_going else not self._is_ready(node)
            if news and node not in self._asked:
                node.ask("look", timeout_s=node.look_s)
                self._asked.add(node)

    def _take(self, node: Node, look: Look) -> None:
        """Take note of how it stands on a node, and of what was counted there once it has ended."""
        if isinstance(look, tuple):
            look, tally = look
            self._tallies[node] = (look.pop("window"), tally)
        self._looks[node] = look

    def _go(self) -> None:
        self._is_going = True
        notice = notice_ns(self._nodes)
        self._start_ns = time.monotonic_ns() + notice
        self._started_unix_s = time.time() + notice / NS_PER_S
        for node, offset in zip(self._nodes, self._offsets, strict=True):
            if not self._looks[node]["ended"]:
                moment_ns = self._start_ns + offset.offset_ns
                node.ask("go", start_monotonic_ns=moment_ns, timeout_s=node.look_s)
                self._asked.add(node)


def notice_ns(nodes: Sequence[Node]) -> int:
    """Return the time from the word that something starts to the start."""
    near = all(node.on_this_clock for node in nodes)
    return NOTICE_NS if near else FAR_NOTICE_NS + FAR_NOTICE_EACH_NS * len(nodes)


def check_ways(fleet: Fleet, looks: Mapping[Node, dict[str, Any]]) -> None:
    """Raises DynoError where the way of a node to the server is down, or a node is lost on which it runs."""
    for serving, what in fleet.serving:
        if serving.lost:
            _tell_loss(serving, what)
    for node, look in looks.items():
        if look["link_down"] is None:
            continue
        raise DynoError(
            f"the link {look['link_down']} of {node.name} is down, over which it reaches the server",
            hint="Once it is up again, dyno resume does what is missing.",
        )


def _tell_loss(serving: Node, what: str) -> None:
    """Raises DynoError with what is known of the loss of a node, and what of the server went with it."""
    try:
        serving.ask("clock")
    except DynoError as error:
        raise DynoError(f"{error}; {what} went with it", hint=error.hint) from error


def _stopped(node: Node) -> bool:
    """End a mix on a node; false where the node is gone."""
    if node.lost:
        return False
    try:
        ask_all([node], "stop")
    except (DynoError, RuntimeError):
        return not node.lost
    return True


class FleetRemoval:
    """A removal of workspaces under way on several nodes; used as a `_native.Removal`."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._left: list[_native.LeftOver] = []

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; true once it has come."""
        told = ask_all(self._nodes, "removing", [{"timeout_s": timeout_s}] * len(self._nodes))
        self._left = [one for part in told for one in part["left"]]
        return all(part["ended"] for part in told)

    def stop(self) -> None:
        """Give up within a moment."""
        ask_all(self._nodes, "stop_removing")

    def left(self) -> list[_native.LeftOver]:
        """Return what stood at the last look."""
        return self._left
