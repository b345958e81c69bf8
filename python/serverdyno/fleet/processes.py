"""Several generator processes on this machine that carry one mix: clients dealt out in turn, one start, one result.

Each process opens and proves the target itself and keeps its clients from mix to mix. One that ends fails the mix, and
the others end with it. Not for: what one of them does (`worker.py`).
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil

from serverdyno import _native
from serverdyno._native import SessionError
from serverdyno.errors import DynoError
from serverdyno.fleet.pipe import REFUSALS
from serverdyno.probes.noise import process_cpu_s

WORKSPACES_BITS = 32
READY_LOOK_S = 0.01  # between two looks whether every client is ready
NOTICE_NS = 50_000_000  # from "every client is ready" to the start, for the word to reach every process
SLOWEST_ANSWER_S = 60.0  # longer than any request takes: a process that is stopped does not answer
END_S = 5.0


class WorkerProcess:
    """One generator process, as its parent holds it."""

    def __init__(self, number: int, of: int) -> None:
        self.name = f"generator process {number + 1} of {of}"
        ours, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", "serverdyno.fleet.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        self._pipe: Connection = ours
        self.lost = False

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request; `answer` gives what it came to."""
        try:
            self._pipe.send_bytes(json.dumps({"do": do, "with": arguments}).encode())
        except OSError as error:
            raise self._ended() from error

    def answer(self) -> Any:
        """Wait for the answer. Raises what the worker refused with, or DynoError where it has ended."""
        if not wait([self._pipe], SLOWEST_ANSWER_S):
            raise DynoError(f"{self.name} gives no answer", hint="It may have been stopped (SIGSTOP).")
        try:
            answer = json.loads(self._pipe.recv_bytes())
            if answer.get("bytes"):
                return self._pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._ended() from error
        if "refused" in answer:
            raise REFUSALS[answer["refused"]](*answer["why"])
        return answer["told"]

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


class Processes:
    """The generator processes of one run."""

    def __init__(self, workers: Sequence[WorkerProcess], workspaces: int) -> None:
        """`workspaces`: the name that all of them give to those of their clients."""
        self.workers, self.workspaces = workers, workspaces
        self._most_clients = 0

    def start(self, document: dict[str, Any]) -> ProcessesLoad:
        """Start one mix on all of them. Raises as `_native.prepare` does."""
        parts = self._documents(document)
        self._most_clients = max(self._most_clients, document["clients"])
        ask_all(list(parts), "start", [{"document": part} for part in parts.values()])
        return ProcessesLoad(list(parts), sum(part["part"]["clients"] for part in parts.values()))

    def begun(self) -> bool:
        """Say whether any workspace was ever begun."""
        lost = any(worker.lost for worker in self.workers)
        return lost or any(ask_all(self.workers, "begun"))

    def lost_clients(self) -> list[int]:
        """Return the clients that may have left something, where a process has ended that knew; else none."""
        if not any(worker.lost for worker in self.workers):
            return []
        return list(range(self._most_clients))

    def remove_workspaces(self, document: dict[str, Any], most_s: float) -> ProcessesRemoval:
        """Begin to take away what the clients of all of them have left."""
        ask_all(self.workers, "remove", [{"document": document, "most_s": most_s}] * len(self.workers))
        return ProcessesRemoval(self.workers)

    def cpu_s(self) -> float:
        """CPU seconds of all of them so far."""
        return sum(worker.cpu_s() for worker in self.workers)

    def _documents(self, document: dict[str, Any]) -> dict[WorkerProcess, dict[str, Any]]:
        """The document of each worker that has clients: the same worker has the same clients in every mix."""
        count, engine = len(self.workers), document["engine"]
        parts = {}
        for number, worker in enumerate(self.workers):
            clients = len(range(number, document["clients"], count))
            if not clients:
                continue
            cpus = engine.get("cpus", [])
            cpus = cpus[number::count] or cpus
            parts[worker] = document | {
                "start": "on_command",
                "part": {"client_offset": number, "client_step": count, "clients": clients},
                "engine": engine | {"cpus": cpus},
            }
        return parts


def ask_all(
    workers: Sequence[WorkerProcess], do: str, arguments: Sequence[dict[str, Any]] | None = None
) -> list[Any]:
    """Ask all at the same time; their answers in order. Every answer is read before the first error is raised."""
    for worker, given in zip(workers, arguments or [{}] * len(workers), strict=True):
        worker.ask(do, **given)
    answers: list[Any] = []
    errors: list[Exception] = []
    for worker in workers:
        try:
            answers.append(worker.answer())
        except (DynoError, SessionError, OSError, ValueError, RuntimeError) as error:
            errors.append(error)
    if errors:
        # That a process is gone explains more than what the others say of it.
        raise next((error for error in errors if isinstance(error, DynoError)), errors[0])
    return answers


class ProcessesLoad:
    """A mix under way on several processes; used as a `_native.Load`."""

    def __init__(self, workers: Sequence[WorkerProcess], clients: int) -> None:
        self._workers, self._clients = workers, clients
        self._going = False
        self._looks: list[dict[str, Any]] = []
        self._look(0.0)

    def snapshot(self) -> _native.Snapshot:
        """Return where it stands, as of the last look."""
        parts = [look["snapshot"] for look in self._looks]
        snapshot = {name: sum(part[name] for part in parts) for name in parts[0]}
        snapshot["elapsed_s"] = max(part["elapsed_s"] for part in parts)
        return snapshot  # type: ignore[return-value]

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; true once it has come."""
        until = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, until - time.monotonic())
            if self._look(left_s if self._going else min(left_s, READY_LOOK_S)):
                return True
            if time.monotonic() >= until:
                return False

    def stop(self) -> None:
        """End it early on all processes that are left."""
        for worker in self._workers:
            try:
                ask_all([worker], "stop")
            except (DynoError, RuntimeError):
                continue

    def result(self) -> _native.MixResult:
        """Return what all of them counted. Raises as `_native.Load.result` does."""
        return _native.merge(ask_all(self._workers, "tally"))

    def _look(self, timeout_s: float) -> bool:
        self._looks = ask_all(self._workers, "look", [{"timeout_s": timeout_s}] * len(self._workers))
        ended = all(look["ended"] for look in self._looks)
        ready = sum(look["snapshot"]["clients_prepared"] for look in self._looks)
        # A process whose engine failed has ended, and is waited for no more.
        if not self._going and (ready >= self._clients or any(look["ended"] for look in self._looks)):
            self._going = True
            start_ns = time.monotonic_ns() + NOTICE_NS
            ask_all(self._workers, "go", [{"start_monotonic_ns": start_ns}] * len(self._workers))
        return ended


class ProcessesRemoval:
    """A removal of workspaces under way on several processes; used as a `_native.Removal`."""

    def __init__(self, workers: Sequence[WorkerProcess]) -> None:
        self._workers = workers
        self._left: list[_native.LeftOver] = []

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; true once it has come."""
        told = ask_all(self._workers, "removing", [{"timeout_s": timeout_s}] * len(self._workers))
        self._left = [one for part in told for one in part["left"]]
        return all(part["ended"] for part in told)

    def stop(self) -> None:
        """Give up within a moment."""
        ask_all(self._workers, "stop_removing")

    def left(self) -> list[_native.LeftOver]:
        """Return what stood at the last look."""
        return self._left


@contextmanager
def processes(
    count: int, target: _native.Target, secret: dict[str, str | None], load_file: str | None = None
) -> Iterator[Processes]:
    """So many generator processes, until the block ends; each has opened the target for itself. Raises DynoError."""
    workers: list[WorkerProcess] = []
    workspaces = secrets.randbits(WORKSPACES_BITS)
    try:
        for number in range(count):
            workers.append(WorkerProcess(number, count))
        wanted = {
            "protocol": target.protocol,
            "section": target.section,
            "secrets": secret,
            "workspaces": workspaces,
            "load_file": load_file,
        }
        try:
            ask_all(workers, "open", [wanted] * count)
        except (SessionError, OSError, ValueError) as error:
            raise DynoError(f"a generator process can't open {target.url}: {error}") from error
        yield Processes(workers, workspaces)
    finally:
        for worker in workers:
            worker.end()
