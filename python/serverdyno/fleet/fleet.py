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
from serverdyno.errors import DynoError
from serverdyno.fleet import clock
from serverdyno.fleet.clock import ClockOffset
from serverdyno.fleet.contract import Node, ask_all

READY_LOOK_S = 0.01  # between two looks whether every client is ready
LOOK_S = 1.0  # the longest look at a mix under way: who is lost in the meantime is noticed at its end
NOTICE_NS = 50_000_000  # from "every client is ready" to the start, for the word to reach every process
FAR_NOTICE_NS = 250_000_000  # the same over a network
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
    result: _native.MixResult
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
        self.serving: Node | None = None
        """The node on which the server runs: its loss ends a mix, too."""
        self._most_clients = 0

    def serve_from(self, node: Node, disclosed: Mapping[str, Any]) -> None:
        """Take note of the node on which the server runs, and of what a reader must know of it."""
        self.serving = node
        self.disclosed = {**(self.disclosed or {}), "serving": [disclosed]}

    @property
    def nodes(self) -> list[Node]:
        """All of them."""
        return [place.node for place in self.places]

    def start(self, document: dict[str, Any]) -> FleetLoad:
        """Start one mix on all of them. Raises as `_native.prepare` does."""
        parts = self._documents(document)
        self._most_clients = max(self._most_clients, document["clients"])
        offsets = [clock.measured(node) for node in parts]
        ask_all(list(parts), "start", [{"document": part} for part in parts.values()])
        return FleetLoad(self, list(parts), offsets, document["clients"])

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


OF_THE_LAST = ("elapsed_s", "p99_ms")
"""Of a snapshot: the figure of the node that is farthest or slowest stands for all."""


class FleetLoad:
    """A mix under way on several nodes; used as a `_native.Load`."""

    def __init__(
        self, fleet: Fleet, nodes: Sequence[Node], offsets: Sequence[ClockOffset], clients: int
    ) -> None:
        self._fleet, self._nodes, self._offsets, self._clients = fleet, nodes, offsets, clients
        self._going = False
        self._started_unix_s: float | None = None
        self._looks: list[dict[str, Any]] = []
        self._look(0.0)

    def snapshot(self) -> _native.Snapshot:
        """Return where it stands, as of the last look."""
        parts = [look["snapshot"] for look in self._looks]
        snapshot = {name: sum(part[name] for part in parts) for name in parts[0] if name not in OF_THE_LAST}
        for name in OF_THE_LAST:
            snapshot[name] = max((part[name] for part in parts if part[name] is not None), default=None)
        return snapshot  # type: ignore[return-value]

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; true once it has come."""
        until = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, until - time.monotonic())
            if self._look(min(left_s, LOOK_S if self._going else READY_LOOK_S)):
                return True
            if time.monotonic() >= until:
                return False

    def stop(self) -> None:
        """End it early on all nodes that are left, and wait for none that is lost any more."""
        self._nodes = [node for node in self._nodes if _stopped(node)]

    def result(self) -> _native.MixResult:
        """Return what all of them counted. Raises as `_native.Load.result` does."""
        tallies = ask_all(self._nodes, "tally")
        seen = ask_all(self._nodes, "machine")
        self._fleet.figures = [
            # What others used of this machine is measured here, for all that run on it.
            NodeFigures(
                node.name,
                _native.merge([tally], with_clients=False),
                offset,
                **(UNSEEN if node.on_this_machine else machine),
            )
            for node, tally, offset, machine in zip(self._nodes, tallies, self._offsets, seen, strict=True)
        ]
        result = _native.merge(tallies)
        # By the clock of this machine, whatever those of the nodes say.
        result["started_unix_s"] = self._started_unix_s or result["started_unix_s"]
        return result

    def _look(self, timeout_s: float) -> bool:
        self._looks = ask_all(self._nodes, "look", [{"timeout_s": timeout_s}] * len(self._nodes))
        if (serving := self._fleet.serving) is not None and serving.lost:
            serving.ask("clock")  # raises, with what is known of the loss
        for node, look in zip(self._nodes, self._looks, strict=True):
            if look["link_down"] is not None:
                raise DynoError(
                    f"the link {look['link_down']} of {node.name} is down, over which it reaches the server",
                    hint="Once it is up again, dyno resume does what is missing.",
                )
        ended = all(look["ended"] for look in self._looks)
        ready = sum(look["snapshot"]["clients_prepared"] for look in self._looks)
        # A node whose engine failed has ended, and is waited for no more.
        if not self._going and (ready >= self._clients or any(look["ended"] for look in self._looks)):
            self._going = True
            self._go()
        return ended

    def _go(self) -> None:
        near = all(node.on_this_clock for node in self._nodes)
        notice_ns = NOTICE_NS if near else FAR_NOTICE_NS
        start_ns = time.monotonic_ns() + notice_ns
        self._started_unix_s = time.time() + notice_ns / 1e9
        moments = [{"start_monotonic_ns": start_ns + offset.offset_ns} for offset in self._offsets]
        ask_all(self._nodes, "go", moments)


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
