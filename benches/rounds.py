"""Interleaved rounds: every tool once per round, in alternating order, with a CPU for the tool and one for the server.

`speed.py` defines the benchmarks, and `ratios.py` evaluates them.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import IO, Protocol, TypeVar

from benches.quiet import foreign_share, time_wait_sockets, wait_until_quiet
from benches.tools import Account, Tool
from serverdyno.errors import DynoError
from serverdyno.probes.noise import machine_cpu
from serverdyno.servers.base import ServerDriver

GRACE_S = 60.0  # longest time that a tool may take to end after its run
FOREIGN_LIMIT = 0.10  # of one CPU; a run with more is repeated
US_PER_S = 1e6
Number = TypeVar("Number", int, float)
Output = TypeVar("Output")


class BenchError(DynoError):
    """A run failed."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The number and length of runs per figure. `patience_s`: longest wait for a quiet machine before each run."""

    rounds: int = 9
    seconds: float = 3.0
    patience_s: float = 20.0
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Cpus:
    """The CPU of the generator and the CPU of the server."""

    generator: int
    server: int


def cpus() -> Cpus:
    """Return the first and the last usable CPU, which share no core on machines with several cores.

    Raises BenchError if there is only one.
    """
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise BenchError("generator and server need a CPU each, and there is only one")
    return Cpus(usable[0], usable[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one tool. None means unknown. Times are in seconds."""

    case: str
    tool: str
    round: int = 0
    attempt: int = 0
    kept: bool = True  # one attempt per round is kept
    started_utc: str
    connections: int
    requests: int
    requests_s: float
    errors: int
    server_requests: int | None = None
    generator_cpu_s: float
    server_cpu_s: float | None = None
    measured_s: float  # the time from which the tool computes its rate
    foreign_cpu_share: float
    quiet_before: bool
    time_wait_before: int
    details: dict[str, object] = field(default_factory=dict)

    @property
    def noisy(self) -> bool:
        """Whether other programs used too much of the machine during the run or before it."""
        return self.foreign_cpu_share > FOREIGN_LIMIT or not self.quiet_before

    @property
    def generator_cpu_us(self) -> float:
        """CPU time of the generator's process per request, in us."""
        return self.generator_cpu_s / self.requests * US_PER_S

    @property
    def server_cpu_us(self) -> float | None:
        """CPU time of the server per request, in us."""
        return None if self.server_cpu_s is None else self.server_cpu_s / self.requests * US_PER_S


@dataclass(frozen=True, slots=True)
class Stand:
    """A running server, and the parameters of its measurement. `path` is the path of the requested URL."""

    case: str
    server: ServerDriver
    path: str
    places: Cpus
    effort: Effort


def rounds(stand: Stand, tools: Sequence[Tool]) -> list[Run]:
    """Return all runs of `tools` against one server: A B C, then C B A, and so on."""
    runs = []
    for number in range(stand.effort.rounds):
        for tool in tools if number % 2 == 0 else reversed(tools):
            attempts = _attempts(stand, tool)
            runs += [replace(run, round=number) for run in attempts]
    return runs


def _attempts(stand: Stand, tool: Tool) -> list[Run]:
    return best_of(stand.effort.attempts, lambda: one_run(stand, tool))


def best_of(attempts: int, once: Callable[[], Run]) -> list[Run]:
    """Return all attempts at a run, which end with an undisturbed one. It, or else the least disturbed one, is kept."""
    runs: list[Run] = []
    for attempt in range(attempts):
        run = once()
        runs.append(replace(run, attempt=attempt))
        if not run.noisy:
            break
    kept = min(runs, key=lambda run: (run.noisy, run.foreign_cpu_share))
    return [replace(run, kept=run is kept) for run in runs]


def one_run(stand: Stand, tool: Tool) -> Run:
    """Run a tool once, even if other programs disturb it. Raises BenchError if it fails or no request succeeds."""
    server, effort = stand.server, stand.effort
    tool = tool if tool.of_server is None else tool.of_server(server)
    url = server.url.removesuffix("/") + stand.path
    served_before = server.requests_served()
    run = measured(stand.case, tool, stand.places, effort, server, url)
    return replace(run, server_requests=_difference(served_before, server.requests_served()))


class HasCpu(Protocol):
    """A server whose CPU time can be read."""

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of all its processes so far; None if unknown."""


def measured(  # noqa: PLR0913, PLR0917 (what a run is given)
    case: str, tool: Tool, places: Cpus, effort: Effort, server: HasCpu | None = None, url: str = ""
) -> Run:
    """Wait for a quiet machine, and run a tool once, even if other programs disturb it.

    `server` is the server whose CPU time is recorded. The result has no server count. Raises the same errors as
    `run_tool`.
    """

    def server_s() -> float | None:
        return None if server is None else server.cpu_s()

    quiet, waiting = wait_until_quiet(effort.patience_s), time_wait_sockets()
    started = datetime.now(UTC)
    own_before, cpu_before, machine_before = time.process_time(), server_s(), machine_cpu()
    account, process_cpu_s = run_tool(tool, url, effort.seconds, places.generator)
    machine_after, cpu_after, own_after = machine_cpu(), server_s(), time.process_time()
    server_cpu_s = _difference(cpu_before, cpu_after)
    ours_s = process_cpu_s + (server_cpu_s or 0.0) + own_after - own_before
    return Run(
        case=case,
        tool=tool.name,
        started_utc=f"{started:%Y-%m-%dT%H:%M:%S}Z",
        connections=tool.connections,
        requests=account.requests,
        requests_s=account.requests_in_window / account.window_s,
        errors=account.errors,
        generator_cpu_s=process_cpu_s if account.cpu_s is None else account.cpu_s,
        server_cpu_s=server_cpu_s,
        measured_s=account.window_s,
        foreign_cpu_share=foreign_share(machine_before, machine_after, ours_s),
        quiet_before=quiet,
        time_wait_before=waiting,
        details=account.details,
    )


def _difference(before: Number | None, after: Number | None) -> Number | None:
    return None if before is None or after is None else after - before


def run_tool(tool: Tool, url: str, seconds: float, cpu: int) -> tuple[Account, float]:
    """Run a tool, and return its account and the CPU seconds of its process from start to end.

    Raises BenchError if the tool fails, does not end, or has no success.
    """
    command, most_s = tool.command(url, seconds), seconds + GRACE_S
    said, status, cpu_s = on_cpu(command, cpu, most_s, lambda stdout, _: stdout.read())
    output = said.decode(errors="replace")
    if status != 0:
        raise BenchError(f"{tool.name} ended with status {status}:\n{output}")
    account = tool.account(output)
    if not account.requests_in_window:
        raise BenchError(f"{tool.name} has no success:\n{output}")
    return account, cpu_s


def on_cpu(
    command: Sequence[str], cpu: int, most_s: float, read: Callable[[IO[bytes], int], Output]
) -> tuple[Output, int, float]:
    """Run a program on one CPU, for at most `most_s`. Return its output, exit status and CPU seconds.

    `read` gets the output as it arrives, and the process ID.
    """
    process = subprocess.Popen(
        ["taskset", "--cpu-list", str(cpu), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    watch = threading.Timer(most_s, process.kill)
    watch.start()
    try:
        output = read(process.stdout, process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        watch.cancel()
        process.stdout.close()
    return output, process.returncode, usage.ru_utime + usage.ru_stime
