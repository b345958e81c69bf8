"""The backend of processes on this machine. Each process answers over a pipe, and ends with this process.

`worker.py` does the work of one process, and `fleet.py` combines the processes.
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
from serverdyno.fleet.contract import Exchange, ask_all, openings
from serverdyno.fleet.fleet import Fleet, placed
from serverdyno.fleet.pipe import MessagePipe, told_or_raised
from serverdyno.probes.noise import process_cpu_s

WORKSPACES_BITS = 32
STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
SLOWEST_ANSWER_S = 60.0
"""A process that sleeps without an answer for this time counts as lost. Every request takes less."""
STOPPED_S = 2.5
"""A process that is stopped for this time counts as lost.

So a debugger may stop a process for a moment without ending the level.
"""
LOOK_S = 0.5
"""Time between two checks of a process that does not answer."""
END_S = 5.0


class Standstill:
    """Measures how long a process has been in one state without an answer, by checks of the state.

    A runnable process never counts as lost, even without CPU time. Time in which this process itself was stopped counts
    as one check.
    """

    def __init__(self) -> None:
        self._state, self._looked_s, self._seen_s = "", 0.0, 0.0

    def is_over(self, state: str, now_s: float) -> bool:
        """Record a check. Return whether the process has been in `state` (of psutil) for too long."""
        self._seen_s += min(now_s - self._looked_s, LOOK_S)
        if state != self._state:
            self._state, self._seen_s = state, 0.0
        self._looked_s = now_s
        if state == psutil.STATUS_RUNNING:
            return False
        return self._seen_s >= (STOPPED_S if state in STOPPED else SLOWEST_ANSWER_S)


class WorkerProcess:
    """The parent's view of a generator process."""

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
        """Send a request. `answer` returns its result. Raises DynoError if the process has ended or is stuck."""
        self._number += 1
        self._standstill = Standstill()
        try:
            self._pipe.send(json.dumps({"number": self._number, "do": do, "with": arguments}).encode())
        except OSError as error:
            raise self._ended() from error

    def answered(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for the answer.

        Return true if the answer has begun to arrive or the process is lost.
        """
        return self._pipe.wait(timeout_s) or self._stands_still()

    def answer(self) -> Any:
        """Wait for the answer.

        Raises the error that the worker reports, or DynoError if the process has ended or is stuck.
        """
        if self.lost and not self._pipe.wait(0.0):
            raise self._lost_still()
        while True:
            try:
                head, _, blob = self._pipe.receive().partition(b"\n")
            except (EOFError, OSError) as error:
                raise self._ended() from error
            answer = json.loads(head)
            # If an interrupt ended an earlier wait, the answer to the earlier request arrives first: skip it.
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
        """End the process and its work."""
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
        """Check a process that does not answer. Return whether it is lost."""
        try:
            state = psutil.Process(self._process.pid).status()
        except psutil.NoSuchProcess:
            return False  # the pipe reports the end
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

    `load_file` is packed. `cpus` are distributed to the processes in turn; if empty, they are not pinned.
    """
    workers: list[WorkerProcess] = []
    workspaces = secrets.randbits(WORKSPACES_BITS)
    try:
        for number in range(count):
            workers.append(WorkerProcess(number, count))
        try:
            ask_all(workers, "open", openings(count, target, secret, workspaces, load_file))
        except (SessionError, OSError, ValueError) as error:
            raise DynoError(f"a generator process can't open {target.url}: {error}") from error
        own = [cpus[number::count] or cpus for number in range(count)]
        yield Fleet(placed(workers, [1] * count, own), workspaces)
    finally:
        for worker in workers:
            worker.end()
