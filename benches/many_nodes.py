"""Many idle nodes on one machine: what they cost, what a mix through all of them adds, and what follows on paper.

Nodes, scheduler and controller are in a network of their own where this user may make one, so that its loopback
carries nothing but the control of the fleet: clients of the workload `null` have no sockets. Not for load
(`fleet.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benches.amounts import Amount
from benches.fleet_generator import NO_SECRETS
from benches.mixes import document
from benches.promises import Waiting
from benches.ratios import Bound
from benches.rounds import BenchError
from serverdyno import _native
from serverdyno.fleet import cluster as backend
from serverdyno.fleet.folder import FleetFolder, create
from serverdyno.fleet.local import TICK_S
from serverdyno.fleet.membership import fleet_at
from serverdyno.fleet.up import end_all, scheduler_process, start_scheduler
from serverdyno.plan.model import GeneratorPlan
from serverdyno.probes.noise import process_cpu_s
from serverdyno.servers.proof import LOOPBACK, free_port
from serverdyno.testbed.hosts import CLOCK, Host
from serverdyno.testbed.standing import inside
from serverdyno.units import NS_PER_S

NODES, NODES_UP_S, MIX_S, IDLE_S = 64, 300.0, 2.0, 10.0
OPERATION_S = 0.5
LEVELS = 4
CLOCK_AHEAD_S = 3600.0
END_S = 10.0
ON_PAPER = (10, 100, 1_000)
MERGED_NODES = 1_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was used until now: seconds of CPU time, and bytes that passed over loopback."""

    at_s: float
    bytes: int
    nodes_cpu_s: float
    scheduler_cpu_s: float
    controller_cpu_s: float

    def per_s(self, later: Snapshot, of: str) -> float:
        """The rate of one of them until a later moment."""
        return float(getattr(later, of) - getattr(self, of)) / (later.at_s - self.at_s)


@dataclass(frozen=True, slots=True)
class Standing:
    """A fleet and its processes."""

    folder: FleetFolder
    nodes: Sequence[psutil.Process]
    scheduler: psutil.Process

    def snapshot(self) -> Snapshot:
        """What was used until now."""
        return Snapshot(
            time.monotonic(),
            loopback_bytes(),
            sum(process_cpu_s(node.pid) for node in self.nodes),
            process_cpu_s(self.scheduler.pid),
            process_cpu_s(os.getpid()),
        )


def loopback_bytes() -> int:
    """Bytes that loopback of this thread's network has carried, with all heads; each packet once (proc_pid_net(5))."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == "lo":
            return int(counters.split()[0])
    raise BenchError("this network has no loopback")


@contextmanager
def own_network() -> Iterator[bool]:
    """This thread in a network that has a loopback and nothing else; false where only root could make one."""
    if os.geteuid() != 0:
        yield False
        return
    host = Host("bench")
    try:
        host.wait_until_ready()
        host.run("ip", "link", "set", "lo", "up")
        with inside(host.network):
            yield True
    finally:
        host.end()


@contextmanager
def standing(count: int, cpu: int | None = None, clock_ahead_s: float = 0.0) -> Iterator[Standing]:
    """A fleet of so many nodes of this machine, all of them there; `cpu`: where they all run. `clock_ahead_s`: of their
    monotonic clocks, which have to be measured then as those of other machines. Raises DynoError.
    """
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="serverdyno-bench-")))
        folder = create(
            path / "lab", f"{LOOPBACK}:{free_port()}", [f"n{number}" for number in range(count)], 1
        )
        start_scheduler(folder)
        stack.callback(lambda: list(end_all(folder)))
        nodes = []
        for name in folder.nodes:
            command = [sys.executable, "-m", "serverdyno", "node", str(folder.node(name))]
            where = [] if cpu is None else ["taskset", "--cpu-list", str(cpu)]
            if clock_ahead_s:
                where += [sys.executable, "-I", "-S", str(CLOCK), str(round(clock_ahead_s * NS_PER_S))]
            node = subprocess.Popen([*where, *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            stack.callback(_end, node)
            nodes.append(psutil.Process(node.pid))
        with backend.connected(folder) as cluster:
            if len(backend.wait_for(cluster, folder.nodes, NODES_UP_S)) < count:
                raise BenchError(f"not all of {count} nodes have joined after {NODES_UP_S:g} s")
        scheduler = scheduler_process(folder)
        if scheduler is None:
            raise BenchError("the scheduler has ended")
        yield Standing(folder, nodes, scheduler)


def _end(node: subprocess.Popen[bytes]) -> None:
    node.terminate()
    try:
        node.wait(END_S)
    except subprocess.TimeoutExpired:
        node.kill()
        node.wait()


def many_nodes(count: int = NODES, idle_s: float = IDLE_S) -> Iterator[Waiting | Amount]:
    """So many nodes with idle engines: until they are up, what they cost, and one mix through all. Raises DynoError."""
    with own_network() as alone:
        began_s = time.monotonic()
        with standing(count, clock_ahead_s=CLOCK_AHEAD_S if alone else 0.0) as fleet:
            took_s = time.monotonic() - began_s
            yield Waiting(
                f"{count}-nodes-up", f"dyno node, {count} times", (took_s,), Bound(60, at_least=False)
            )
            yield from _idle(fleet, idle_s, alone=alone)
            yield from _mix(fleet, alone=alone)


def _idle(fleet: Standing, idle_s: float, *, alone: bool) -> Iterator[Amount]:
    """While nobody uses the nodes."""
    count = len(fleet.nodes)
    time.sleep(min(idle_s, 2.0))  # for the last handshakes
    before = fleet.snapshot()
    time.sleep(idle_s)
    after = fleet.snapshot()
    if alone:
        sent = before.per_s(after, "bytes") / count
        yield Amount("idle", "control traffic, B a node a second", sent, Bound(1_000, at_least=False))
    yield Amount("idle", "CPU of a node, %", 100 * before.per_s(after, "nodes_cpu_s") / count)
    yield Amount(
        "idle", "CPU of the scheduler, % a node", 100 * before.per_s(after, "scheduler_cpu_s") / count
    )
    yield Amount("idle", "memory of a node, MiB", _mib(*fleet.nodes) / count)
    yield Amount("idle", "memory of the scheduler, MiB", _mib(fleet.scheduler))


def _mix(fleet: Standing, *, alone: bool) -> Iterator[Waiting | Amount]:
    """A run of some mixes through all of them, whose clients wait most of the time. The first one is timed."""
    count, own = len(fleet.nodes), psutil.Process()
    memory_mib, began_s = _mib(own), time.monotonic()
    target = _native.Target.open("null", '{"url": "null:"}')
    with fleet_at(fleet.folder.path, GeneratorPlan(), target, NO_SECRETS) as nodes:
        joined_s = time.monotonic() - began_s
        yield Amount("mix", "asking the nodes before a run, ms a node", 1e3 * joined_s / count)
        workload = {"name": "null", "delay_s": OPERATION_S}
        stands = [fleet.snapshot()]
        for level in range(LEVELS):
            shape = {"clients": count, "length_s": MIX_S, "seed": level}
            load = nodes.start(document(target, workload, {}, **shape))
            while not load.wait(TICK_S):
                pass
            result = load.result()
            stands.append(fleet.snapshot())
            if result["clients_participating"] != count:
                raise BenchError(f"{result['clients_participating']} clients of {count} took part")
        before, first, last = stands[0], stands[1], stands[-1]
        took_s = first.at_s - before.at_s
        name = f"a mix of {MIX_S:g} s, {count} nodes"
        yield Waiting(f"mix-through-{count}-nodes", name, (took_s,), Bound(MIX_S + 10, at_least=False))
        if alone:
            goal = Bound(1_000, at_least=False)
            for which, sent in (
                ("a first mix", before.per_s(first, "bytes")),
                ("mix", first.per_s(last, "bytes")),
            ):
                yield Amount(which, "control traffic, B a node a second", sent / count, goal)
        yield Amount("mix", "CPU of the controller, ms a node", 1e3 * _used(before, first) / count)
        yield Amount("mix", "memory of the controller, KiB a node", 1024 * (_mib(own) - memory_mib) / count)


def _used(before: Snapshot, after: Snapshot) -> float:
    return after.controller_cpu_s - before.controller_cpu_s


def _mib(*processes: psutil.Process) -> float:
    """Memory that would be free without them."""
    return float(sum(process.memory_full_info().uss for process in processes)) / 2**20


def on_paper(amounts: Sequence[Amount], waits: Sequence[Waiting]) -> list[tuple[str, ...]]:
    """What 10, 100 and 1,000 nodes would take, each node on a machine of its own: straight lines through what was
    measured. Empty where not all of it was.
    """
    found = {(amount.name, amount.figure.partition(",")[0]): amount.value for amount in amounts}
    seconds = {wait.name: wait.seconds[0] for wait in waits}
    try:
        rows = {
            "control traffic of the controller's link, kB/s": found["mix", "control traffic"] / 1e3,
            "CPU of the scheduler, %": found["idle", "CPU of the scheduler"],
            "memory of the controller, MiB": found["mix", "memory of the controller"] / 1024,
            "CPU of the controller for a mix, s": found["mix", "CPU of the controller"] / 1e3,
            "asking the nodes before a run, s": found["mix", "asking the nodes before a run"] / 1e3,
            "merging 10,000 clients of each, s": seconds["merging"] / MERGED_NODES,
        }
    except KeyError:
        return []
    return [(name, *(f"{each * nodes:.2g}" for nodes in ON_PAPER)) for name, each in rows.items()]
