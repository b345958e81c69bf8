"""The backend of processes of this machine: a worker each, at the end of a pipe, which ends with this process.

Not for: what one of them does (`worker.py`), nor what they come to together (`fleet.py`).
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil

from serverdyno import _native
from serverdyno._native import SessionError
from serverdyno.errors import DynoError
from serverdyno.fleet.contract import Exchange, ask_all, opening
from serverdyno.fleet.fleet import Fleet, placed
from serverdyno.fleet.pipe import told_or_raised
from serverdyno.probes.noise import process_cpu_s

WORKSPACES_BITS = 32
SLOWEST_ANSWER_S = 60.0  # longer than any request takes: a process that is stopped does not answer
END_S = 5.0


class WorkerProcess:
    """One generator process, as its parent holds it."""

    look_s = 0.25

    def __init__(self, number: int, of: int) -> None:
        self.name = f"generator process {number + 1} of {of}"
        ours, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", "serverdyno.fleet.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        self._pipe: Connection = ours
        self._number = 0
        self.lost = False

    @property
    def on_this_clock(self) -> bool:
        """It is."""
        return True

    @property
    def exchange(self) -> Exchange:
        """One of no length."""
        now_ns = time.monotonic_ns()
        return Exchange(now_ns, now_ns, now_ns, now_ns)

    @property
    def on_this_machine(self) -> bool:
        """It is."""
        return True

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request; `answer` gives what it came to."""
        self._number += 1
        try:
            self._pipe.send_bytes(json.dumps({"number": self._number, "do": do, "with": arguments}).encode())
        except OSError as error:
            raise self._ended() from error

    def answered(self, timeout_s: float) -> bool:
        """Wait so long for the answer."""
        return bool(wait([self._pipe], timeout_s))

    def answer(self) -> Any:
        """Wait for the answer. Raises what the worker refused with, or DynoError where it has ended."""
        while True:
            if not wait([self._pipe], SLOWEST_ANSWER_S):
                raise DynoError(f"{self.name} gives no answer", hint="It may have been stopped (SIGSTOP).")
            try:
                answer = json.loads(self._pipe.recv_bytes())
                blob = self._pipe.recv_bytes() if answer["bytes"] else None
            except (EOFError, OSError) as error:
                raise self._ended() from error
            # An interrupt may have come between an earlier request and its answer.
            if answer["number"] == self._number:
                return told_or_raised(answer, blob)

    def cpu_s(self) -> float:
        """CPU seconds so far; 0 of a process that has ended."""
        try:
            return process_cpu_s(self._process.pid)
        except psutil.NoSuchProcess:
            return 0.0

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def end(self) -> None:
        """End the process. What it had under way ends with it."""
        self._pipe.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ended(self) -> DynoError:
        self.lost = True
        status = self._process.wait()
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return DynoError(
            f"{self.name} ended: {how}",
            hint="Who ended it? The kernel's log says whether it was out of memory (dmesg).",
        )


@contextmanager
def processes(
    count: int,
    target: _native.Target,
    secret: dict[str, str | None],
    load_file: str | None = None,
    cpus: tuple[int, ...] = (),
) -> Iterator[Fleet]:
    """A fleet of so many processes, until the block ends; each has opened the target for itself. Raises DynoError.

    `load_file`: what clients replay, packed. `cpus`: dealt out to them in turn; none: not pinned.
    """
    workers: list[WorkerProcess] = []
    workspaces = secrets.randbits(WORKSPACES_BITS)
    try:
        for number in range(count):
            workers.append(WorkerProcess(number, count))
        try:
            ask_all(workers, "open", [opening(target, secret, workspaces, load_file)] * count)
        except (SessionError, OSError, ValueError) as error:
            raise DynoError(f"a generator process can't open {target.url}: {error}") from error
        own = [cpus[number::count] or cpus for number in range(count)]
        yield Fleet(placed(workers, [1] * count, own), workspaces)
    finally:
        for worker in workers:
            worker.end()
