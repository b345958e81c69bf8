"""What a fleet costs: one node against none, many idle nodes on one machine, and merging what very many have told."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benches.fleet_generator import NO_SECRETS
from benches.mixes import document, http_target
from benches.promises import Waiting
from benches.ratios import Bound
from benches.rounds import BenchError, Cpus, Effort, Run, Stand, one_run
from benches.speed import BODY_BYTES, FIGURES, Goal, ReadFigure
from benches.tools import CONNECTIONS, Tool, dyno, dyno_account
from serverdyno import _native
from serverdyno.fleet import cluster as backend
from serverdyno.fleet.folder import FleetFolder, create
from serverdyno.fleet.membership import fleet_at
from serverdyno.fleet.up import end_all, start_scheduler
from serverdyno.plan.model import GeneratorPlan
from serverdyno.servers.proof import LOOPBACK, free_port
from serverdyno.servers.running import running

NODES, NODES_UP_S, MIX_S = 64, 300.0, 2.0
MERGED_NODES, MERGED_CLIENTS = 1_000, 10_000
CLIENT_WORDS = 7
END_S = 10.0


@dataclass(frozen=True, slots=True)
class FleetCase:
    """The same load from this machine alone and from a fleet of one node on it, in turns."""

    name: str = "fleet-of-one"
    title: str = (
        f"Reference server, {BODY_BYTES} bytes, {CONNECTIONS} connections: a fleet of one node, and no fleet"
    )
    goals: tuple[Goal, ...] = (
        Goal("fleet", ("dyno",), "requests/s", Bound(0.98)),
        Goal("fleet", ("dyno",), "generator CPU, us/request", Bound(1.01, at_least=False)),
    )

    @property
    def figures(self) -> Mapping[str, ReadFigure]:
        """What is told of each."""
        return FIGURES

    def carry_out(self, places: Cpus, effort: Effort) -> list[Run]:
        """Every round: A B, then B A. Raises DynoError."""
        runs = []
        with (
            standing(1, places.generator) as folder,
            running("reference", {"body_bytes": BODY_BYTES}, cpus=[places.server]) as server,
        ):
            stand = Stand(self.name, server, "/", places, effort)
            tools = [dyno(), from_fleet(folder)]
            for number in range(effort.rounds):
                for tool in tools[:: 1 if number % 2 == 0 else -1]:
                    runs.append(replace(one_run(stand, tool), round=number))
        return runs


def from_fleet(folder: FleetFolder) -> Tool:
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

    return Tool("fleet", sys.executable, command, dyno_account)


@contextmanager
def standing(count: int, cpu: int | None = None) -> Iterator[FleetFolder]:
    """A fleet of so many nodes of this machine, all of them there; `cpu`: where they all run. Raises DynoError."""
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="serverdyno-bench-")))
        folder = create(
            path / "lab", f"{LOOPBACK}:{free_port()}", [f"n{number}" for number in range(count)], 1
        )
        start_scheduler(folder)
        stack.callback(lambda: list(end_all(folder)))
        for name in folder.nodes:
            command = [sys.executable, "-m", "serverdyno", "node", str(folder.node(name))]
            pinned = [] if cpu is None else ["taskset", "--cpu-list", str(cpu)]
            node = subprocess.Popen([*pinned, *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            stack.callback(_end, node)
        with backend.connected(folder) as cluster:
            if len(backend.wait_for(cluster, folder.nodes, NODES_UP_S)) < count:
                raise BenchError(f"not all of {count} nodes have joined after {NODES_UP_S:g} s")
        yield folder


def _end(node: subprocess.Popen[bytes]) -> None:
    node.terminate()
    try:
        node.wait(END_S)
    except subprocess.TimeoutExpired:
        node.kill()
        node.wait()


def many_nodes(count: int = NODES) -> Iterator[Waiting]:
    """So many nodes with idle engines: until they are up, and one mix through all of them. Raises DynoError."""
    began_s = time.monotonic()
    with standing(count) as folder:
        took_s = time.monotonic() - began_s
        yield Waiting(f"{count}-nodes-up", f"dyno node, {count} times", (took_s,), Bound(60, at_least=False))
        server = _native.ReferenceServer.start()
        try:
            target = http_target(f"http://{LOOPBACK}:{server.port}/")
            with fleet_at(folder.path, GeneratorPlan(), target, NO_SECRETS) as fleet:
                shape = {"clients": count, "length_s": MIX_S, "think_time_s": MIX_S}
                began_s = time.monotonic()
                load = fleet.start(document(target, {"name": "webbench-static"}, {}, **shape))
                while not load.wait(1.0):
                    pass
                load.result()
                took_s = time.monotonic() - began_s
        finally:
            server.stop()
        name = f"a mix of {MIX_S:g} s, {count} nodes"
        yield Waiting(f"mix-through-{count}-nodes", name, (took_s,), Bound(MIX_S + 10, at_least=False))


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
