"""Several nodes that run one level: clients distributed by weight, one start time in each node's clock, one result.

Each node opens the target and checks its consent itself, and has the same clients in every level. If a node is lost,
the level fails and the other nodes end it. `processes.py` and `cluster.py` connect to the nodes, and `worker.py` runs
on them.
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

TICK_S = 0.25  # longest wait for one node before the others are checked
NOTICE_NS = 50_000_000  # from "all clients are ready" to the start, so that the message reaches every process
FAR_NOTICE_NS = 250_000_000  # the same over a network
FAR_NOTICE_EACH_NS = (
    1_000_000  # and per node, because messages are sent one after the other and take 0.4 ms of CPU time each
)
UNSEEN: dict[str, Any] = {"others_cpu_s": None, "steal_cpu_s": None, "cpus": None}


@dataclass(frozen=True, slots=True)
class Place:
    """A node and its clients: of every `step` clients, `run` clients from `offset` on.

    `cpus` are the CPUs of the node's engine threads; if empty, the threads are not pinned.
    """

    node: Node
    offset: int
    step: int
    run: int
    cpus: tuple[int, ...] = ()

    def clients(self, of: int) -> int:
        """Return the number of the node's clients among the first `of` clients."""
        whole, rest = divmod(of, self.step)
        return whole * self.run + min(max(rest - self.offset, 0), self.run)

    def part(self, of: int) -> dict[str, int]:
        """Return the section of a level's document that describes the node's clients."""
        return {
            "client_offset": self.offset,
            "client_step": self.step,
            "client_run": self.run,
            "clients": self.clients(of),
        }


def placed(
    nodes: Sequence[Node], weights: Sequence[int], cpus: Sequence[Sequence[int]] | None = None
) -> list[Place]:
    """Distribute the clients among the nodes in turn, in the same way for every level.

    In each turn, a node gets as many consecutive clients as its weight, divided by the weights' common divisor.
    """
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
    """The counts of one node at a level, and its observations of its machine; see `store.records.NodeRow`."""

    node: str
    result: Counted
    clock: ClockOffset
    others_cpu_s: float | None
    steal_cpu_s: float | None
    cpus: int | None


class Fleet:
    """The nodes of one run. `figures` contains the figures of each node in the last level.

    `disclosed` contains the facts of the nodes that a report discloses; None if they are processes of this machine.
    """

    def __init__(
        self, places: Sequence[Place], workspaces: int, disclosed: Mapping[str, Any] | None = None
    ) -> None:
        """Create the fleet. `workspaces` is the number in the names of the clients' directories."""
        self.places, self.workspaces, self.disclosed = places, workspaces, disclosed
        self.figures: list[NodeFigures] = []
        self.in_grace = False
        """Whether a node's clients wait, or have waited, for the end of the server's grace period."""
        self.serving: list[tuple[Node, str]] = []
        """Nodes on which the server runs, each with its part of the server. Their loss also ends a level."""
        self._most_clients = 0
        self._told: dict[Node, dict[str, Any]] = {}
        """The last document that each node got."""

    def serve_from(self, places: Sequence[tuple[Node, str, Mapping[str, Any]]]) -> None:
        """Register each node on which the server runs: its part of the server, and the facts to disclose."""
        self.serving = [(node, what) for node, what, _ in places]
        each = {node.name: machine for node, _, machine in places}
        self.disclosed = {**(self.disclosed or {}), "serving": [*each.values()]}

    @property
    def nodes(self) -> list[Node]:
        return [place.node for place in self.places]

    def start(self, document: dict[str, Any]) -> FleetLoad:
        """Start one level on all nodes. Raises the errors of `_native.prepare`."""
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
        """Return whether any workspace was started, or may have been because a node is lost."""
        return self._lost() or any(ask_all(self.nodes, "begun"))

    def lost_clients(self) -> list[int]:
        """Return all clients if a node was lost, because its clients may have left files; otherwise none."""
        return list(range(self._most_clients)) if self._lost() else []

    def remove_workspaces(self, document: dict[str, Any], most_s: float) -> FleetRemoval:
        """Start to remove the files that the clients of all nodes have left."""
        ask_all(self.nodes, "remove", [{"document": document, "most_s": most_s}] * len(self.nodes))
        return FleetRemoval(self.nodes)

    def cpu_s(self) -> float:
        """Return the CPU seconds of this machine that all nodes have used so far."""
        return sum(node.cpu_s() for node in self.nodes)

    def _lost(self) -> bool:
        return any(node.lost for node in self.nodes)

    def _documents(self, document: dict[str, Any]) -> dict[Node, dict[str, Any]]:
        """Return the document of each node that has clients. A node has the same clients in every level."""
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
    """Return the part of a document to send to a node: all of it, or the changes from the `known` one."""
    if known is None or known.keys() != document.keys():
        return {"document": document, "anew": True}
    return {"document": {key: told for key, told in document.items() if known[key] != told}, "anew": False}


OF_THE_LAST = ("elapsed_s", "p99_ms")
"""Values of a snapshot that are combined as the maximum over all nodes; others are summed."""


class FleetLoad:
    """A running level on several nodes, with the interface of `_native.Load`."""

    def __init__(
        self,
        fleet: Fleet,
        parts: Mapping[Node, Mapping[str, Any]],
        offsets: Sequence[ClockOffset],
        looks: Sequence[Look],
    ) -> None:
        """Create the load. `parts` contains the document of each node, and `looks` its first report."""
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
        """The largest elapsed time by this machine or any node's last report; 0 before the start."""
        if self._start_ns is None:
            return 0.0
        here_s = (time.monotonic_ns() - self._start_ns) / NS_PER_S
        said_s: list[float] = [look["snapshot"]["elapsed_s"] for look in self._looks.values()]
        return max(0.0, here_s, *said_s)

    def snapshot(self) -> _native.Snapshot:
        """Return the combined state of all nodes, as last reported."""
        parts = [look["snapshot"] for look in self._looks.values()]
        snapshot = {name: sum(part[name] for part in parts) for name in parts[0] if name not in OF_THE_LAST}
        for name in OF_THE_LAST:
            snapshot[name] = max((part[name] for part in parts if part[name] is not None), default=None)
        return snapshot  # type: ignore[return-value]

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end.

        Return true once the level has ended. Raises DynoError if a node or its link to the server is lost.
        """
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
        """End the level early on all remaining nodes, without waiting for lost ones."""
        self._is_going = True
        self._asked.clear()
        self._nodes = [node for node in self._nodes if _stopped(node)]
        self._looks = {node: self._looks[node] for node in self._nodes}

    def result(self) -> dict[str, Any]:
        """Return the merged counts of all nodes. Raises the errors of `_native.Load.result`."""
        missing = [node for node in self._nodes if node not in self._tallies]
        self._tallies |= dict(zip(missing, ask_all(missing, "tally"), strict=True))
        told = [self._tallies[node] for node in self._nodes]
        self._fleet.figures = [
            # For nodes on this machine, this process measures other programs' CPU use.
            NodeFigures(
                node.name,
                Counted.of(_native.merge([tally], with_clients=False)),
                offset,
                **(UNSEEN if node.on_this_machine else machine),
            )
            for node, (machine, tally), offset in zip(self._nodes, told, self._offsets, strict=True)
        ]
        result = _native.merge([tally for _, tally in told])
        # Use this machine's clock instead of the nodes' clocks.
        result["started_unix_s"] = self._started_unix_s or result["started_unix_s"]
        return result

    def _is_ready(self, node: Node) -> bool:
        """Return whether a node's clients are ready, or its level has ended early."""
        look = self._looks[node]
        return bool(
            look["ended"] or look["snapshot"]["clients_prepared"] >= self._parts[node]["part"]["clients"]
        )

    def _ask(self) -> None:
        """Request the next report from each node, unless a request is pending or no change is expected."""
        for node in self._nodes:
            news = not self._looks[node]["ended"] if self._is_going else not self._is_ready(node)
            if news and node not in self._asked:
                node.ask("look", timeout_s=node.look_s)
                self._asked.add(node)

    def _take(self, node: Node, look: Look) -> None:
        """Store the state of the level on a node, and its tally once the level has ended."""
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
    """Return the time from the message that announces a start until the start."""
    near = all(node.on_this_clock for node in nodes)
    return NOTICE_NS if near else FAR_NOTICE_NS + FAR_NOTICE_EACH_NS * len(nodes)


def check_ways(fleet: Fleet, looks: Mapping[Node, dict[str, Any]]) -> None:
    """Raise DynoError if a node's link to the server is down, or if a node on which the server runs is lost.

    Also notes in the fleet whether clients wait for the server.
    """
    for serving, what in fleet.serving:
        if serving.lost:
            _tell_loss(serving, what)
    for node, look in looks.items():
        fleet.in_grace |= look["in_grace"]
        if look["link_down"] is None:
            continue
        raise DynoError(
            f"the link {look['link_down']}, which connects {node.name} to the server, is down",
            hint="When the link is up again, dyno resume measures the missing levels.",
        )


def _tell_loss(serving: Node, what: str) -> None:
    """Raise a DynoError that says why a node was lost, and which part of the server was lost with it."""
    try:
        serving.ask("clock")
    except DynoError as error:
        raise DynoError(f"{error}; {what} ran on it and is lost, too", hint=error.hint) from error


def _stopped(node: Node) -> bool:
    """End a level on a node. Return false if the node is lost."""
    if node.lost:
        return False
    try:
        ask_all([node], "stop")
    except (DynoError, RuntimeError):
        return not node.lost
    return True


class FleetRemoval:
    """A running removal of workspaces on several nodes, with the interface of `_native.Removal`."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._left: list[_native.LeftOver] = []

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for the end. Return true once the removal has ended."""
        told = ask_all(self._nodes, "removing", [{"timeout_s": timeout_s}] * len(self._nodes))
        self._left = [one for part in told for one in part["left"]]
        return all(part["ended"] for part in told)

    def stop(self) -> None:
        ask_all(self._nodes, "stop_removing")

    def left(self) -> list[_native.LeftOver]:
        """Return the remaining files, as last reported."""
        return self._left
