"""Run a client of a file server once, and measure its process between the two marks that it prints.

For every tool, the CPU times of the client, the server and other programs are read at these two marks. So no figure
includes the start of a process or the creation of files. `files.py` defines the benchmarks.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benches.file_server import BenchServer
from benches.file_tools import FileTool, Mark
from benches.quiet import foreign_share, time_wait_sockets, wait_until_quiet
from benches.rounds import BenchError, Cpus, Effort, Run, best_of
from benches.tools import Account
from serverdyno.probes.noise import CpuTime, machine_cpu

MOST_S = 300.0  # time limit of a tool
END_S = 10.0
NS_PER_S = 1e9
PIECE_BYTES = 65536


@dataclass(frozen=True, slots=True)
class FileStand:
    """A running server, and the parameters of its measurement."""

    case: str
    server: BenchServer
    places: Cpus
    effort: Effort


@dataclass(frozen=True, slots=True)
class Moment:
    """The CPU times used so far, in s, when a tool printed a mark."""

    tool_s: float
    server_s: float | None
    own_s: float
    machine: CpuTime


def measure(stand: FileStand, tool: FileTool) -> list[Run]:
    """Run a tool, again if other programs disturb it. Return all attempts, with the one to keep marked."""
    return best_of(stand.effort.attempts, lambda: one_run(stand, tool))


def one_run(
    stand: FileStand, tool: FileTool, when_open: Callable[[], dict[str, object]] | None = None
) -> Run:
    """Run a tool once, even if other programs disturb it. `when_open` returns further details during the window.

    Raises BenchError if the tool fails or nothing succeeds.
    """
    quiet = wait_until_quiet(stand.effort.patience_s)
    waiting, started = time_wait_sockets(), datetime.now(UTC)
    more: dict[str, object] = {}
    moments: dict[Mark, Moment] = {}
    with _started(stand, tool) as process:
        listener = tool.listener(stand.effort.seconds)
        said = []
        for line in _lines(process):
            said.append(line)
            mark = listener.hear(line, time.monotonic())
            if mark is not None:
                moments[mark] = _moment(stand.server, process.pid)
            if mark is Mark.OPEN and when_open is not None:
                more = when_open()
                _tell(process)
            if mark is Mark.CLOSED and not tool.ends:
                break
        else:
            if process.wait(END_S) != 0:
                raise BenchError(
                    f"{tool.name} ended with status {process.returncode}:\n" + "\n".join(said[-20:])
                )
    stand.server.empty()
    account = listener.account()
    if Mark.OPEN not in moments:
        raise BenchError(f"{tool.name} has no window:\n" + "\n".join(said[-20:]))
    first, last = moments[Mark.OPEN], moments.get(Mark.CLOSED, moments[Mark.OPEN])
    if first is last:  # the tool was held in its window, so there is no time span
        account = replace(account, requests_in_window=account.requests)
    if not account.requests_in_window:
        raise BenchError(f"{tool.name} has no success:\n" + "\n".join(said[-20:]))
    run = _run(stand, tool, account, first, last)
    return replace(
        run,
        started_utc=f"{started:%Y-%m-%dT%H:%M:%S}Z",
        quiet_before=quiet,
        time_wait_before=waiting,
        details=run.details | more,
    )


def _run(stand: FileStand, tool: FileTool, account: Account, first: Moment, last: Moment) -> Run:
    tool_s = last.tool_s - first.tool_s if account.cpu_s is None else account.cpu_s
    server_s = None
    if first.server_s is not None and last.server_s is not None:
        server_s = last.server_s - first.server_s
    ours_s = tool_s + (server_s or 0.0) + last.own_s - first.own_s
    same = first is last
    return Run(
        case=stand.case,
        tool=tool.name,
        started_utc="",
        connections=tool.clients,
        requests=account.requests_in_window,
        requests_s=account.requests_in_window / account.window_s,
        errors=account.errors,
        generator_cpu_s=tool_s,
        server_cpu_s=None if same else server_s,
        measured_s=account.window_s,
        foreign_cpu_share=0.0 if same else foreign_share(first.machine, last.machine, ours_s),
        quiet_before=True,
        time_wait_before=0,
        details=account.details,
    )


@contextmanager
def _started(stand: FileStand, tool: FileTool) -> Iterator[subprocess.Popen[bytes]]:
    """Start the tool on its CPU and write its input. At the end, kill it and its children."""
    process = subprocess.Popen(
        ["taskset", "--cpu-list", str(stand.places.generator), *tool.command(stand.server)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=Path(__file__).parent.parent,
        process_group=0,  # smbtorture sends SIGCONT to its group
    )
    try:
        _tell(process, tool.request(stand.server, stand.effort.seconds))
        yield process
    finally:
        _end(process)


def _tell(process: subprocess.Popen[bytes], line: str = "") -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # the tool has ended, and its output says why
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a tool and its children, which must be listed before it ends."""
    family = _family(process.pid)
    for member in reversed(family):
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()
    psutil.wait_procs(family, timeout=END_S)
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield lines as they arrive, until the tool closes its output.

    Raises BenchError if that takes more than `MOST_S`.
    """
    assert process.stdout is not None
    deadline, rest = time.monotonic() + MOST_S, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise BenchError(f"the tool does not end within {MOST_S:g} s")
            piece = os.read(process.stdout.fileno(), PIECE_BYTES)
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
            if not piece:
                if rest:
                    yield rest.decode(errors="replace")
                return


def _moment(server: BenchServer, pid: int) -> Moment:
    return Moment(sum(map(_cpu_s, _family(pid))), server.cpu_s(), time.process_time(), machine_cpu())


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of a process with one thread: in nanoseconds if the kernel has schedstat, else in ticks."""
    try:
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / NS_PER_S
    except OSError:
        with contextlib.suppress(psutil.NoSuchProcess):
            return float(sum(process.cpu_times()[:2]))
        return 0.0
