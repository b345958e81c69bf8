"""The backend of processes on this machine: each is a worker at the end of a pipe, and ends with this process.

`worker.py` has the work of one process, and `fleet.py` combines them.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from serverdyno import _native
from serverdyno._native import SessionError
from serverdyno.errors import DynoError
from serverdyno.fleet.contract import Exchange, ask_all, opening
from serverdyno.fleet.fleet import Fleet, placed
from serverdyno.fleet.pipe import MessagePipe, told_or_raised
from serverdyno.probes.noise import process_cpu_s

WORKSPACES_BITS = 32
STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
SLOWEST_ANSWER_S = 60.0
"""Longer than any request takes. A process that waits for something else for this long no longer answers."""
STOPPED_S = 2.5
"""A process that is stopped for this long is lost.

Stopping it for a moment to look at it does not end a load level.
"""
LOOK_S = 0.5
"""Time between two looks at a process that does not answer."""
END_S = 5.0


class Standstill:
    """How long a process has been in one state without an answer, as far as looks at it show.

    A process that waits for CPU time is waited for. Time in which nobody looked, because this process itself was
    stopped, counts as one look.
    """

    def __init__(self) -> None:
        self._state, self._looked_s, self._seen_s = "", 0.0, 0.0

    def is_over(self, state: str, now_s: float) -> bool:
        """Record a look. Return whether the process has stood still for too long. `state` is as in psutil."""
        self._seen_s += min(now_s - self._looked_s, LOOK_S)
        if state != self._state:
            self._state, self._seen_s = state, 0.0
        self._looked_s = now_s
        if state == psutil.STATUS_RUNNING:
            return False
        return self._seen_s >= (STOPPED_S if state in STOPPED else SLOWEST_ANSWER_S)


class WorkerProcess:
    """A generator process, as seen by its parent."""

    look_s = 0.25

    def __init__(self, number: int, of: int) -> None:
        self.name = f"generator process {number + 1} of {of}"
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "serverdyno.fleet.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        self._pipe = MessagePipe(ours, LOOK_S, self._look)
        self._number = 0
        self._standstill = Standstill()
        self.lost = False

    @property
    def on_this_clock(self) -> bool:
        return True

    @property
    def exchange(self) -> Exchange:
        """An instantaneous exchange."""
        now_ns = time.monotonic_ns()
        return Exchange(now_ns, now_ns, now_ns, now_ns)

    @property
    def on_this_machine(self) -> bool:
        return True

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request. `answer` returns its result. Raises DynoError if the process has ended or stands still."""
        self._number += 1
        self._standstill = Standstill()
        try:
            self._pipe.send(json.dumps({"number": self._number, "do": do, "with": arguments}).encode())
        except OSError as error:
            raise self._ended() from error

    def answered(self, timeout_s: float) -> bool:
        """Wait for the answer. Return whether it has begun, or the process has stood still for too long."""
        return self._pipe.wait(timeout_s) or self._stands_still()

    def answer(self) -> Any:
        """Wait for the answer.

        Raises the error with which the worker refused, or DynoError if it ended or stands still.
        """
        if self.lost and not self._pipe.wait(0.0):
            raise self._lost_still()
        while True:
            try:
                head, _, blob = self._pipe.receive().partition(b"\n")
            except (EOFError, OSError) as error:
                raise self._ended() from error
            answer = json.loads(head)
            # An interrupt may have separated an earlier request from its answer.
            if answer["number"] == self._number:
                return told_or_raised(answer, blob if answer["bytes"] else None)

    def cpu_s(self) -> float:
        """Return the CPU seconds so far; 0 if the process has ended."""
        try:
            return process_cpu_s(self._process.pid)
        except psutil.NoSuchProcess:
            return 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """End the process and whatever it has under way."""
        self._pipe.close()
        try:
            self._process.wait(0.0 if self.lost else END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _look(self) -> None:
        if self._stands_still():
            raise self._lost_still()

    def _stands_still(self) -> bool:
        """Look at a process that gives no answer. Return whether it is lost."""
        try:
            state = psutil.Process(self._process.pid).status()
        except psutil.NoSuchProcess:
            return False  # the pipe reports it
        self.lost = self.lost or self._standstill.is_over(state, time.monotonic())
        return self.lost

    def _lost_still(self) -> DynoError:
        state = psutil.Process(self._process.pid).status()
        why = "it was stopped (SIGSTOP)" if state in STOPPED else f"no answer for {SLOWEST_ANSWER_S:g} s"
        return DynoError(f"{self.name} is lost: {why}", hint="dyno resume measures the missing levels.")

    def _ended(self) -> DynoError:
        self.lost = True
        status = self._process.wait()
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return DynoError(
            f"{self.name} ended: {how}",
            hint="The kernel's log (dmesg) shows whether the process ran out of memory.",
        )


@contextmanager
def processes(
    count: int,
    target: _native.Target,
    secret: dict[str, str | None],
    load_file: str | None = None,
    cpus: tuple[int, ...] = (),
) -> Iterator[Fleet]:
    """Yield a fleet of `count` processes, each of which has opened the target. Raises DynoError.

    `load_file` is packed. `cpus` are distributed to the processes in turn; empty: not pinned.
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
