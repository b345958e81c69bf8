"""Check that our figures are right: counts against the server's own, response times against packets on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from benches.generator import QUANTILES
from benches.quiet import foreign_share, wait_until_quiet
from benches.ratios import Bound
from benches.rounds import FOREIGN_LIMIT, Cpus, Effort, Run, Stand, rounds, run_tool
from benches.speed import BODY_BYTES, DOCUMENT
from benches.tools import dyno
from benches.wire import Wire, exchanges
from serverdyno.probes.noise import machine_cpu
from serverdyno.servers.proof import LOOPBACK
from serverdyno.servers.registry import driver_type
from serverdyno.servers.running import running

COUNT_ROUNDS, TIME_ROUNDS = 2, 3
LIMIT = Bound(0.02, at_least=False)
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CountCase:
    """A server that counts its requests itself."""

    name: str
    server: str
    settings: dict[str, Any]
    path: str
    options: dict[str, Any]


COUNTS = tuple(
    CountCase(f"count-{server}-{words}", server, settings, path, options)
    for server, settings, path in (
        ("nginx", {"workers": 1, "access_log": True}, DOCUMENT),
        ("reference", {"body_bytes": BODY_BYTES}, "/"),
    )
    for words, options in (
        ("keep-alive", {}),
        ("close", {"keep_alive": False}),
        ("http-1.0", {"keep_alive": False, "http_version": "1.0"}),
    )
)


def count(places: Cpus, effort: Effort) -> list[Run]:
    """Return runs whose `requests` and `server_requests` must be equal. Raises DynoError."""
    few = Effort(min(COUNT_ROUNDS, effort.rounds), effort.seconds, patience_s=0, attempts=1)
    runs = []
    for case in COUNTS:
        if driver_type(case.server).installed() is None:
            continue
        tool = dyno(**case.options)
        with running(case.server, case.settings, cpus=[places.server]) as server:
            runs += rounds(Stand(case.name, server, case.path, places, few), [tool])
    return runs


@dataclass(frozen=True, slots=True)
class TimeCase:
    """A server that delays its responses, and clients that measure the delay.

    `command` starts the server, which prints its port. `connect_quantiles` are the quantiles at which connecting takes
    long enough to be judged; otherwise it takes 20 us, mostly in the client's own system calls, which the wire does not
    show.
    """

    name: str
    title: str
    command: tuple[str, ...]
    options: dict[str, Any]
    connect_quantiles: tuple[str, ...] = ()
    lengths: int = 1  # multiple of the usual length


def _reference(delay_ms: int) -> tuple[str, ...]:
    server = ("-m", "serverdyno", "reference", "http", "--body-bytes", str(BODY_BYTES))
    return (*server, "--fault", f"delay={delay_ms}ms")


VARIED, SLOW_ACCEPT = ("-m", "benches.delays", "varied"), ("-m", "benches.delays", "slow-accept")
TIMES = (
    TimeCase(
        "delay-5ms", "5 ms before each answer, 16 connections, keep-alive", _reference(5), {"clients": 16}
    ),
    TimeCase(
        "delay-20ms", "20 ms before each answer, 64 connections, keep-alive", _reference(20), {"clients": 64}
    ),
    TimeCase("varied", "4 ms and more, exponential, 16 connections, keep-alive", VARIED, {"clients": 16}),
    TimeCase(
        "varied-close",
        "4 ms and more, exponential, 16 connections at a time, a new one for each request",
        VARIED,
        {"clients": 16, "keep_alive": False},
    ),
    TimeCase(
        "slow-accept",
        "a server that accepts 20 connections per second and queues 3: SYNs are dropped and sent again after a second",
        SLOW_ACCEPT,
        {"clients": 24, "keep_alive": False, "think_time_s": 0.7, "delay_s": 0.7},
        connect_quantiles=("p90", "p99"),
        lengths=3,
    ),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One percentile of one kind of time (`response` or `connect`), in s."""

    case: str
    round: int
    kind: str
    quantile: str
    ours_s: float
    wire_s: float
    ours_count: int
    wire_count: int
    foreign_cpu_share: float

    @property
    def error(self) -> float:
        """The error relative to the time on the wire."""
        return self.ours_s / self.wire_s - 1


def times(places: Cpus, effort: Effort, cases: Sequence[TimeCase] = TIMES) -> list[Comparison]:
    """Return our percentiles next to the percentiles on the wire. Raises PermissionError, WireError or DynoError.

    As in `rounds`, a run that other programs disturbed is repeated, and the least disturbed run is kept.
    """
    found: list[Comparison] = []
    for number in range(min(TIME_ROUNDS, effort.rounds)):
        for case in cases:
            attempts: list[list[Comparison]] = []
            for _ in range(effort.attempts):
                attempts.append(list(_times(case, number, places, effort)))
                if attempts[-1][0].foreign_cpu_share <= FOREIGN_LIMIT:
                    break
            kept = min(attempts, key=lambda comparisons: comparisons[0].foreign_cpu_share)
            found += kept
    return found


def _times(case: TimeCase, number: int, places: Cpus, effort: Effort) -> Iterator[Comparison]:
    seconds = case.lengths * effort.seconds
    with _started(case.command, places.server) as (port, server), Wire(port) as wire:
        wait_until_quiet(effort.patience_s)
        machine_before, own_before = machine_cpu(), _cpu_s(psutil.Process(), server)
        account, process_cpu_s = run_tool(
            dyno(**case.options), f"http://{LOOPBACK}:{port}/", seconds, places.generator
        )
        own_s = _cpu_s(psutil.Process(), server) - own_before + process_cpu_s
        foreign = foreign_share(machine_before, machine_cpu(), own_s)
        told = account.details
        end_ns = int((told["started_unix_s"] + seconds) * NS_PER_S)
        # Like our own count, this includes only exchanges that began and ended within the window.
        seen = [exchange for exchange in exchanges(wire.segments()) if exchange.end_ns <= end_ns]
    responses = [exchange.response_ns for exchange in seen]
    connects = [exchange.connect_ns for exchange in seen if exchange.connect_ns is not None]
    for kind, truth_ns, quantiles in (
        ("response", responses, tuple(QUANTILES)),
        ("connect", connects, case.connect_quantiles),
    ):
        for name in quantiles:
            # A quantile as our histogram defines it: the smallest value with at least that share at or below it.
            wire_s = float(np.quantile(truth_ns, QUANTILES[name], method="inverted_cdf")) / NS_PER_S
            ours_s = told[f"{kind}_ns"][name] / NS_PER_S
            counts = told[f"{kind}_samples"], len(truth_ns)
            yield Comparison(case.name, number, kind, name, ours_s, wire_s, *counts, foreign)


def _cpu_s(*processes: psutil.Process) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@contextmanager
def _started(arguments: Sequence[str], cpu: int) -> Iterator[tuple[int, psutil.Process]]:
    """Start one of our servers on `cpu`, and yield the port that it prints, and its process."""
    process = subprocess.Popen(
        ["taskset", "--cpu-list", str(cpu), sys.executable, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        port = int("".join(filter(str.isdigit, process.stdout.readline())))
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
