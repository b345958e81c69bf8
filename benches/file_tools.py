"""The compared clients of file servers: their commands, and listeners that read their windows and results.

To add a client, write a function here, and a listener for its output. `file_runs.py` runs the clients.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from benches.file_server import SHARE, BenchServer, inside
from benches.files_generator import CLOSED, OPEN
from benches.rounds import BenchError
from benches.tools import Account

# smbtorture's own time limit. From 20 s on, it would warm up and restart its counts; we end it long before.
TORTURE_MOST_S = 19
RAMP_S = 0.2  # our ramp-up, which contains the first operations
SET_UP_MARGIN = 1.25  # smbtorture reports the mean of its clients, but the slowest must also have finished
TICK_S = 1.0  # interval of smbtorture's progress reports


class Mark(Enum):
    """The meaning of a line of a tool's output."""

    OPEN = "open"
    CLOSED = "closed"


class Listener(Protocol):
    """Reads a tool's output line by line, and returns the account of the time between its marks."""

    def hear(self, line: str, at_s: float) -> Mark | None:
        """Read a line that arrived at `at_s` of the monotonic clock, and return its mark, if any."""

    def account(self) -> Account:
        """Return the account after the last line. Raises BenchError if no window opened and closed."""


@dataclass(frozen=True, slots=True)
class FileTool:
    """A client with its options. `ends`: the client ends by itself after its window; otherwise we end it."""

    name: str
    program: str
    clients: int
    command: Callable[[BenchServer], list[str]]
    request: Callable[[BenchServer, float], str]  # standard input for a server and a window in s
    listener: Callable[[float], Listener]  # for a window in s
    ends: bool


def dyno(name: str, load_file: Path, cache: str, clients: int = 1, **options: Any) -> FileTool:
    """Return our client. `options` are options of the level, or `hold`: wait in the window until told to continue.

    The client compares the data of every read with the expected data, unless `verify_share` is below 1.
    """
    workload = {"workload": "loadfile", "cache": cache}
    return ours(name, workload, clients, load_file=str(load_file), **options)


def ours(
    name: str, workload: dict[str, Any], clients: int, load_file: str | None = None, **options: Any
) -> FileTool:
    """Return our client with a workload, the workload's options, and the level's options."""
    hold = options.pop("hold", False)

    def request(server: BenchServer, seconds: float) -> str:
        access = server.access()
        target: dict[str, Any] = {"url": access.url, "shares": list(access.shares)}
        target |= {"network_namespace": access.network_namespace}
        if access.user is not None:
            target |= {"user": access.user, "password": access.password}
        shape = {"clients": clients, "ramp_up_s": RAMP_S} | options
        shape["length_s"] = shape["ramp_up_s"] + seconds
        return json.dumps(
            {"target": target, "files": workload, "shape": shape, "load_file": load_file, "hold": hold}
        )

    command = [sys.executable, "-m", "benches.files_generator"]
    return FileTool(name, sys.executable, clients, lambda _: command, request, lambda _: DynoListener(), True)


class DynoListener:
    """Reads the output of `benches.files_generator`."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = {}
        self.result: dict[str, Any] | None = None
        self.other: list[str] = []

    def hear(self, line: str, at_s: float) -> Mark | None:
        """Read a line of JSON, and return its mark, if any. Other text is kept as an error message."""
        try:
            told = json.loads(line)
        except ValueError:
            self.other.append(line)
            return None
        if "result" in told:
            self.result = told["result"]
            return None
        self.cpu_s[told["moment"]] = told["cpu_s"]
        return Mark(told["moment"])

    def account(self) -> Account:
        """Return the account with the CPU time of the whole process between both marks."""
        if self.result is None:
            raise BenchError("dyno printed no result:\n" + "\n".join(self.other))
        told = self.result
        marked = {OPEN, CLOSED} <= self.cpu_s.keys()
        cpu_s = self.cpu_s[CLOSED] - self.cpu_s[OPEN] if marked else told["cpu_in_window_s"]
        return Account(
            told["operations"], told["operations_in_window"], told["window_s"], told["errors"], cpu_s, told
        )


def smbtorture(name: str, load_file: Path, clients: int) -> FileTool:
    """Return smbtorture's replay, over SMB1 without signing, with a process per client."""

    def command(server: BenchServer) -> list[str]:
        way = inside(server)
        options = ("clientmaxprotocol=NT1", "clientminprotocol=NT1", "clientsigning=off")
        return [
            *(*way.before, "smbtorture", *way.after, *(f"--option={option}" for option in options)),
            *(f"//127.0.0.1/{SHARE}", "bench.nbench", f"--loadfile={load_file}"),
            *(f"--num-progs={clients}", "-t", str(TORTURE_MOST_S)),
            f"--basedir={server.directory}",  # its remaining files are removed with the server
        ]

    lines = round(SET_UP_MARGIN * set_up_lines(load_file))

    def listener(seconds: float) -> TortureListener:
        return TortureListener(clients, lines, seconds)

    return FileTool(name, "smbtorture", clients, command, lambda _server, _s: "", listener, False)


def set_up_lines(load_file: Path) -> int:
    """Return the number of lines before a load file's first read, which our client carries out before its window."""
    with load_file.open(encoding="utf-8") as file:
        return next((number for number, line in enumerate(file) if line.startswith("ReadX")), 0)


PROGRESS = re.compile(r"^\s*\d+\s+(\d+)\s+([\d.]+) MB/sec\s+(execute|cleanup)\b")
STARTED = "Running for "
WRONG = re.compile(r"^\[\d+\] (Error|ERROR|Warning|Reconnect|Unknown|client \d+ exiting)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress in one of smbtorture's lines. `lines`: lines of the load file done, as the mean of the clients."""

    at_s: float
    lines: int
    bytes_moved: float


class TortureListener:
    """Reads smbtorture's progress, one line per second. The window opens once the clients have finished their set-up.

    Each line of progress has the mean number of the clients' finished lines, and the throughput since the start in
    MB/s.
    """

    def __init__(self, clients: int, set_up_lines: int, seconds: float) -> None:
        self.clients = clients
        self.set_up_lines = set_up_lines
        self.seconds = seconds
        self.started_s: float | None = None
        self.opened: Progress | None = None
        self.closed: Progress | None = None
        self.errors: list[str] = []
        self.said: list[str] = []

    def hear(self, line: str, at_s: float) -> Mark | None:
        """Read a line, whose counts are those at `at_s`, and return its mark, if any."""
        self.said.append(line)
        if line.startswith(STARTED):
            self.started_s = at_s
        if WRONG.match(line):
            self.errors.append(line)
        found = PROGRESS.match(line)
        if found is None or self.started_s is None or self.closed is not None:
            return None
        now = Progress(at_s, int(found[1]), float(found[2]) * 1e6 * (at_s - self.started_s))
        if self.opened is None:
            if found[3] == "cleanup" or now.lines < self.set_up_lines:
                return None
            self.opened = now
            return Mark.OPEN
        if at_s - self.opened.at_s < self.seconds - TICK_S / 2:
            return None
        self.closed = now
        return Mark.CLOSED

    def account(self) -> Account:
        """Return the account. One line of the load file is one operation."""
        if self.opened is None or self.closed is None:
            raise BenchError(
                f"smbtorture did not finish its set-up and {self.seconds:g} s of load within {TORTURE_MOST_S} s:\n"
                + "\n".join(self.said)
            )
        operations = (self.closed.lines - self.opened.lines) * self.clients
        return Account(
            self.closed.lines * self.clients,
            operations,
            self.closed.at_s - self.opened.at_s,
            len(self.errors),
            details={
                "operations": self.closed.lines * self.clients,
                "bytes_in_window": self.closed.bytes_moved - self.opened.bytes_moved,
                "first_error": self.errors[0] if self.errors else "",
            },
        )
