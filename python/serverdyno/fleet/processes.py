"""The backend of processes of this machine: a worker each, at the end of a pipe, which ends with this process.

Not for: what one of them does (`worker.py`), nor what they come to together (`fleet.py`).
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
"""Longer than any request takes: a process that waits for something else for so long does not answer any more."""
STOPPED_S = 2.5
"""A process that is stopped for so long is lost. Whoever stops it for a moment, to look at it, loses no load level."""
LOOK_S = 0.5
"""From one look at a process that does not answer to the next."""
END_S = 5.0


class Standstill:
    """For how long a process has been in one state, without an answer: by the looks at it.

    A process that has CPU time to wait for is waited for. Time in which nobody looked, because this process itself
    was stopped, counts as one look.
    """

    def __init__(self) -> None:
        self._state, self._looked_s, self._seen_s = "", 0.0, 0.0

    def is_over(self, state: str, now_s: float) -> bool:
        """Take note of a look; say whether it has stood still for too long. `state`: as psutil names it."""
        self._seen_s += min(now_s - self._looked_s, LOOK_S)
        if state != self._state:
            self._state, self._seen_s = state, 0.0
        self._looked_s = now_s
        if state == psutil.STATUS_RUNNING:
            return False
        return self._seen_s >= (STOPPED_S if state in STOPPED else SLOWEST_ANSWER_S)


class WorkerProcess:
    """One generator process, as its parent holds it."""

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
        """One of no length."""
        now_ns = time.monotonic_ns()
        return Exchange(now_ns, now_ns, now_ns, now_ns)

    @property
    def on_this_machine(self) -> bool:
        return True

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request; `answer` gives what it came to. Raises DynoError if the process ended or stands still."""
        self._number += 1
        self._standstill = Standstill()
        try:
            self._pipe.send(json.dumps({"number": self._number, "do": do, "with": arguments}).encode())
        except OSError as error:
            raise self._ended() from error

    def answered(self, timeout_s: float) -> bool:
        """Wait for the answer. Return whether it has begun, or the process stands still for too long."""
        return self._pipe.wait(timeout_s) or self._stands_still()

    def answer(self) -> Any:
        """Wait for the answer. Raises what the worker refused with, or DynoError where it has ended or stands still."""
        if self.lost and not self._pipe.wait(0.0):
            raise self._lost_still()
        while True:
            try:
                head, _, blob = self._pipe.receive().partition(b"\n")
            except (EOFError, OSError) as error:
                raise self._ended() from error
            answer = json.loads(head)
            # An interrupt may have come between an earlier request and its answer.
            if answer["number"] == self._number:
                return told_or_raised(answer, blob if answer["bytes"] else None)

    def cpu_s(self) -> float:
        """CPU seconds so far; 0 of a process that has ended."""
        try:
            return process_cpu_s(self._process.pid)
        except psutil.NoSuchProcess:
            return 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """End the process. What it had under way ends with it."""
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
        """Look at the process, which gives no answer: whether it is lost."""
        try:
            state = psutil.Process(self._process.pid).status()
        except psutil.NoSuchProcess:
            return False  # the pipe says so
        self.lost = self.lost or self._standstill.is_over(state, time.monotonic())
        return self.lost

    def _lost_still(self) -> DynoError:
        state = psutil.Process(self._process.pid).status()
        why = "it was stopped (SIGSTOP)" if state in STOPPED else f"no answer for {SLOWEST_ANSWER_S:g} s"
        return DynoError(f"{self.name} is lost: {why}", hint="dyno resume does what is missing.")

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
