"""What a fleet costs: one node against none and against four, and merging what very many have told. Not for many idle
nodes: see `many_nodes.py`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from benches.many_nodes import MERGED_NODES, standing
from benches.mixes import document, http_target
from benches.promises import Waiting
from benches.ratios import Bound
from benches.rounds import US_PER_S, BenchError, Cpus, Effort, Run, Stand, rounds
from benches.speed import BODY_BYTES, DOCUMENT, FIGURES, Goal, ReadFigure
from benches.tools import CONNECTIONS, Tool, dyno, dyno_account
from serverdyno import _native
from serverdyno.fleet.folder import FleetFolder
from serverdyno.servers.proof import LOOPBACK
from serverdyno.servers.running import running

MERGED_CLIENTS = 10_000
CLIENT_WORDS = 7
TOOL, ONE, FOUR = "fleet", "one node", "four nodes"
OUTSIDE = "CPU outside the engine, % of a CPU"
OUTSIDE_LIMIT = Bound(1, at_least=False)


def outside_the_engine(run: Run) -> float | None:
    """The share of a CPU that the generator's process used besides its engine, from before the mix to after it."""
    engine_us: Any = run.details.get("cpu_in_window_us")
    return None if engine_us is None else 100 * (run.generator_cpu_s - engine_us / US_PER_S) / run.measured_s


@dataclass(frozen=True, slots=True)
class FleetCase:
    """The same load from this machine alone and from a fleet of one node on it, in turns."""

    name: str = "fleet-of-one"
    title: str = (
        f"Reference server, {BODY_BYTES} bytes, {CONNECTIONS} connections: a fleet of one node, and no fleet"
    )
    goals: tuple[Goal, ...] = (
        Goal(TOOL, ("dyno",), "requests/s", Bound(0.98)),
        Goal(TOOL, ("dyno",), "generator CPU, us/request", Bound(1.01, at_least=False)),
    )

    @property
    def figures(self) -> Mapping[str, ReadFigure]:
        """What is told of each."""
        return {**FIGURES, OUTSIDE: outside_the_engine}

    def carry_out(self, places: Cpus, effort: Effort) -> list[Run]:
        """Every round: A B, then B A. Raises DynoError."""
        with (
            standing(1, places.generator) as fleet,
            running("reference", {"body_bytes": BODY_BYTES}, cpus=[places.server]) as server,
        ):
            stand = Stand(self.name, server, "/", places, effort)
            return rounds(stand, [dyno(), from_fleet(fleet.folder)])


@dataclass(frozen=True, slots=True)
class NodesCase(FleetCase):
    """The same load from one node and from four on the same CPU, in turns. The server is the limit."""

    name: str = "four-nodes"
    title: str = f"nginx, one worker, 735 bytes, {CONNECTIONS} connections: a fleet of one node, and of four"
    goals: tuple[Goal, ...] = (
        Goal(FOUR, (ONE,), "requests/s", Bound(0.97)),
        Goal(FOUR, (ONE,), "requests/s", Bound(1.03, at_least=False)),
    )

    def carry_out(self, places: Cpus, effort: Effort) -> list[Run]:
        """Every round: A B, then B A. Raises DynoError."""
        with (
            standing(1, places.generator) as one,
            standing(4, places.generator) as four,
            running("nginx", {"workers": 1, "access_log": True}, cpus=[places.server]) as server,
        ):
            stand = Stand(self.name, server, DOCUMENT, places, effort)
            return rounds(stand, [from_fleet(one.folder, ONE), from_fleet(four.folder, FOUR)])


def from_fleet(folder: FleetFolder, name: str = TOOL) -> Tool:
    """The load of `tools.dyno`, made by a fleet."""

    def command(url: str, seconds: float) -> list[str]:
        mix = {
            "fleet": str(folder.path),
            "url": url,
            "clients": CONNECTIONS,
            "threads": 1,
            "length_s": seconds,
        }
        return [sys.executable, "-m", "benches.fleet_generator", json.dumps(mix)]

    return Tool(name, sys.executable, command, dyno_account)


def merging(nodes: int = MERGED_NODES, clients: int = MERGED_CLIENTS) -> Waiting:
    """Merge the tallies of so many nodes, each with so many clients, and read the figures of each, as after a mix.

    Raises BenchError where they don't add up.
    """
    tallies = simulated(nodes, clients)
    before = psutil.Process().memory_info().rss
    began_s = time.monotonic()
    # No Python can hold a row for each of so many clients; an experiment has 100,000 at most.
    merged = _native.merge(tallies, with_clients=False)
    apart = sum(_native.merge([tally], with_clients=False)["operations_total"] for tally in tallies)
    took_s = time.monotonic() - began_s
    grown_mib = (psutil.Process().memory_info().rss - before) >> 20
    if merged["clients_planned"] != nodes * clients:
        raise BenchError(f"{merged['clients_planned']} clients of {nodes} x {clients} were merged")
    if merged["operations_total"] != apart:
        raise BenchError(f"{merged['operations_total']} operations together, {apart} node by node")
    sizes = f"{len(tallies[0]) >> 10:,} KiB each, {grown_mib:,} MiB more memory"
    return Waiting(
        "merging", f"merge {nodes} x {clients} clients, {sizes}", (took_s,), Bound(2, at_least=False)
    )


def simulated(nodes: int, clients: int) -> list[bytes]:
    """Return tallies as of so many nodes in one mix: one real node's, told again under other clients' numbers.

    The rows of clients stand at the end, with the number of each first (`crates/engine/src/client_rows.rs`).
    """
    server = _native.ReferenceServer.start()
    try:
        target = http_target(f"http://{LOOPBACK}:{server.port}/")
        shape: dict[str, Any] = {"clients": clients, "length_s": 0.2, "think_time_s": 60.0}
        told = document(target, {"name": "webbench-static"}, {}, **shape, delay_s=0.1)
        load = _native.prepare(json.dumps(told), target).start()
        while not load.wait(1.0):
            pass
        tally = load.tally()
    finally:
        server.stop()
    document_bytes = len(tally) - clients * CLIENT_WORDS * 8
    rows = np.frombuffer(tally, dtype="<u8", offset=document_bytes).reshape(clients, CLIENT_WORDS).copy()
    found = []
    for node in range(nodes):
        rows[:, 0] = node + nodes * np.arange(clients, dtype=np.uint64)  # dealt out in turn
        found.append(tally[:document_bytes] + rows.tobytes())
    return found
