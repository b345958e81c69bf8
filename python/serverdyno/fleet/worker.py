"""The work of a node, for every backend, and the generator process of this machine.

`fleet/processes.py` starts `python -m serverdyno.fleet.worker FD`, which ends with its parent. A node opens the target
and checks its consent itself. It keeps the clients' workspaces as long as it runs, gets level documents, and answers
with tallies. The controller makes all decisions.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from serverdyno import _native
from serverdyno.errors import ServerError
from serverdyno.fleet.contract import Look
from serverdyno.fleet.local_files import local_files
from serverdyno.fleet.node_window import NodeWindow
from serverdyno.fleet.pipe import REFUSALS, MessagePipe, refusal
from serverdyno.fleet.target_link import TargetLink

if TYPE_CHECKING:
    from serverdyno.fleet.serving import ServerPlace

PR_SET_PDEATHSIG = 1  # linux/prctl.h
TICK_S = 0.25
"""Longest pause while a request `look` waits.

A link that is down or a missing controller is noticed after this pause.
"""
READY_LOOK_S, READY_LOOK_SHARE = 0.01, 0.05
"""First pause while clients get ready, and later pauses as a share of the time waited so far."""
REQUESTS = frozenset(
    {
        "begin_group",
        "begun",
        "clock",
        "end_server",
        "go",
        "look",
        "look_at_group",
        "open",
        "open_gate",
        "remove",
        "removing",
        "serve",
        "server",
        "start",
        "stop",
        "stop_group",
        "stop_removing",
        "tally",
    }
)
"""The methods of `Worker` that may be requested."""
ROOM_HINT = "Check that the directory is writable and has enough free space for the files."


class Worker:
    """The state of one process: a target, workspaces, the running level, job or removal, and servers."""

    def __init__(self, target: _native.Target | None = None) -> None:
        """Create the worker, with a target if one is open already."""
        self._target = target
        self._workspaces = _native.Workspaces()
        self._load_file: _native.LoadFile | None = None
        self._load: _native.Load | None = None
        self._removal: _native.Removal | None = None
        self._group: _native.Job | None = None
        self._names: list[str] = []
        self._local = contextlib.ExitStack()
        self._document: dict[str, Any] = {}
        self._window = NodeWindow({"length_s": 0.0}, ())
        self._is_going = False
        self._hurry = threading.Event()
        self._link: TargetLink | None = None
        self._serving: ServerPlace | None = None

    def perform(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes | None]:
        """Perform a request. Return its answer and the bytes that follow it."""
        if request["do"] not in REQUESTS:
            return refusal(ValueError(f"no such request: {request['do']!r}")), None
        try:
            told = getattr(self, request["do"])(**request["with"])
        except tuple(REFUSALS.values()) as error:
            return refusal(error), None
        words, blob = told if isinstance(told, tuple) else (told, None)
        return {"told": words}, blob

    def abandon(self) -> None:
        """End all running work and close the target, because the controller has ended."""
        self._hurry.clear()
        if self._load is not None:
            self._load.stop()
        if self._removal is not None:
            self._removal.stop()
        if self._group is not None:
            self._group.stop()
        self._local.close()
        self._group = self._load = self._removal = self._target = None
        self.end_server()

    def clock(self) -> int:
        """Return the time of this node's monotonic clock, in ns."""
        return time.monotonic_ns()

    def open(
        self,
        protocol: str,
        section: dict[str, Any],
        secrets: dict[str, Any],
        workspaces: int,
        load_file: str | None,
    ) -> None:
        """Open the target and check its consent to load.

        `secrets` contains the other arguments of `Target.open`; `load_file` is packed.
        """
        pairs = {name: tuple(secrets.get(name) or ()) or None for name in ("identity", "access_key")}
        self._target = _native.Target.open(protocol, json.dumps(section), **{**secrets, **pairs})
        self._link = TargetLink(self._target.address)
        self._workspaces = _native.Workspaces(workspaces)
        self._load_file = None
        if load_file is not None:
            from serverdyno.plan.protocols.load_file import unpacked  # noqa: PLC0415 (hardly any load has one)

            self._load_file = unpacked(load_file)

    def start(self, document: dict[str, Any], anew: bool, timeout_s: float) -> Look:
        """Prepare a level, and wait up to `timeout_s` until its clients are ready. `go` starts the level.

        Unless `anew` is set, `document` contains only the parts that changed since the last level.
        """
        self._document = document if anew else self._document | document
        self._window = NodeWindow(self._document["window"], self._document["engine"]["cpus"])
        self._load, self._is_going = None, False
        self._load = self._prepared(self._document).start()
        return self.look(timeout_s)

    def go(self, start_monotonic_ns: int, timeout_s: float) -> Look:
        """Set the start of the level, and return the result of `look`."""
        self._running().go(start_monotonic_ns)
        self._is_going = True
        return self.look(timeout_s)

    def look(self, timeout_s: float) -> Look:
        """Wait up to `timeout_s` until the level ends or its clients are ready, and return its state.

        Once the level has ended, the state includes its tally, and other programs' use of this node's CPUs in the
        window. The wait also ends if the link to the target is down, or when `hurry` is called.
        """
        load, began_s, pause_s = self._running(), time.monotonic(), 0.0
        while True:
            ended, snapshot = load.wait(pause_s), load.snapshot()
            self._window.look(snapshot["elapsed_s"])
            down = self._link.name if self._link is not None and self._link.is_down() else None
            waited_s = time.monotonic() - began_s
            is_news = ended or down is not None or (self._is_ready(snapshot) and not self._is_going)
            if is_news or waited_s >= timeout_s or self._hurry.is_set():
                return self._told(
                    {
                        "ended": ended,
                        "snapshot": snapshot,
                        "link_down": down,
                        "in_grace": self._meets_grace(),
                    }
                )
            pause_s = min(timeout_s - waited_s, self._pause_s(waited_s, snapshot["elapsed_s"]))

    def hurry(self) -> None:
        """End the current wait soon, because `stop` follows. Another thread calls this."""
        self._hurry.set()

    def serve(
        self,
        server: str,
        settings: dict[str, Any],
        cpus: list[int],
        address: str,
        team: dict[str, Any],
    ) -> dict[str, Any]:
        """Start a server on this node; see `serving.ServerPlace`."""
        from serverdyno.fleet.serving import ServerPlace  # noqa: PLC0415 (nodes that only generate load don't need it)

        self._serving = self._serving or ServerPlace()
        return self._serving.start(server, settings, cpus, address, team)

    def server(self, number: int, what: str) -> Any:
        """Return a figure of a server that runs on this node."""
        assert self._serving is not None, "no server was started"
        return self._serving.ask(number, what)

    def end_server(self, number: int | None = None) -> None:
        """End a server that runs on this node; without a number, all servers."""
        if self._serving is not None:
            self._serving.stop(number)

    def stop(self) -> None:
        self._hurry.clear()
        if self._load is not None:
            self._load.stop()

    def tally(self) -> tuple[dict[str, Any], bytes]:
        """Return other programs' use of this node's CPUs in the window, and the level's tally.

        Raises the level's error.
        """
        return self._window.told(), self._running().tally()

    def begin_group(
        self,
        job: dict[str, Any],
        names: list[str],
        local: dict[str, int],
        cpus: list[int],
        timeout_s: float,
    ) -> Look:
        """Begin a group of levels that end when done (`group.Group`). Return the result of `look_at_group`.

        If `cpus` is empty, any CPUs are used.
        """
        assert self._target is not None, "no target was opened"
        self._names, self._group = names, None
        self._local.close()
        if local:
            steps = job["task"]["steps"]
            made = local_files(local, steps["steps"][0]["seed"])
            steps["local"] = str(self._local.enter_context(made))
        with _on(cpus):
            self._group = _native.Job.start(self._target, json.dumps(job))
        return self.look_at_group(timeout_s)

    def open_gate(self, gate: int, begins_monotonic_ns: int, timeout_s: float) -> Look:
        """Open a gate at which the group's clients wait. Return the result of `look_at_group`."""
        assert self._group is not None, "no group was started"
        self._group.open_gate(gate, begins_monotonic_ns)
        return self.look_at_group(timeout_s)

    def look_at_group(self, timeout_s: float) -> Look:
        """Wait up to `timeout_s` until the group's clients are at a gate or have ended, and return the group's state.

        Once the group has ended, the state includes its counts. Raises ServerError with the group's error.
        """
        assert self._group is not None, "no group was started"
        until_s = time.monotonic() + timeout_s
        while True:
            stage = self._group.wait(max(0.0, min(TICK_S, until_s - time.monotonic())))
            down = self._link.name if self._link is not None and self._link.is_down() else None
            is_news = stage["ended"] or stage["gate"] is not None or down is not None
            if is_news or time.monotonic() >= until_s or self._hurry.is_set():
                break
        look = {**stage, "link_down": down, "in_grace": self._meets_grace()}
        if not stage["ended"]:
            return look
        self._local.close()
        try:
            return look, self._group.tallies()
        except _native.AnswerError as error:
            _, side, words, advice, step = error.args
            hint = advice or (ROOM_HINT if side == "client" else None)
            raise ServerError(f"{self._names[step]}: {words}", hint=hint) from error

    def stop_group(self, at_once: bool, timeout_s: float) -> dict[str, Any]:
        """Stop the group, and wait up to `timeout_s` for its end.

        `at_once`: the server has ended, so no files are removed.
        """
        if self._group is None:
            return {"ended": True}
        self._group.stop(at_once=at_once)
        ended = self._group.wait_for_end(timeout_s)
        if ended:
            self._local.close()
        return {"ended": ended}

    def begun(self) -> bool:
        """Return whether any workspace was started."""
        return self._workspaces.begun()

    def remove(self, document: dict[str, Any], most_s: float) -> None:
        """Start to remove this process's workspaces."""
        self._removal = self._prepared(document).remove_workspaces(most_s)

    def removing(self, timeout_s: float) -> dict[str, Any]:
        """Wait up to `timeout_s` for the end of the removal, and return the remaining files."""
        if self._removal is None:
            return {"ended": True, "left": []}
        return {"ended": self._removal.wait(timeout_s), "left": self._removal.left()}

    def stop_removing(self) -> None:
        if self._removal is not None:
            self._removal.stop()

    def _prepared(self, document: dict[str, Any]) -> _native.PreparedLevel:
        assert self._target is not None, "no target was opened"
        return _native.prepare(json.dumps(document), self._target, self._workspaces, self._load_file)

    def _meets_grace(self) -> bool:
        """Return whether the server has asked clients to wait for the end of its grace period."""
        return self._target is not None and self._target.answers_in_grace > 0

    def _is_ready(self, snapshot: _native.Snapshot) -> bool:
        return snapshot["clients_prepared"] >= int(self._document["part"]["clients"])

    def _pause_s(self, waited_s: float, elapsed_s: float) -> float:
        """Return the length of the next pause. It grows with the time that clients take to get ready."""
        if self._is_going:
            return min(TICK_S, self._window.until_due_s(elapsed_s))
        return min(TICK_S, max(READY_LOOK_S, waited_s * READY_LOOK_SHARE))

    def _told(self, look: dict[str, Any]) -> Look:
        """Add the tally of a level that has ended. If the level failed, a later `tally` raises its error."""
        if look["ended"]:
            with contextlib.suppress(OSError, RuntimeError):
                window, tally = self.tally()
                return look | {"window": window}, tally
        return look

    def _running(self) -> _native.Load:
        assert self._load is not None, "no level was started"
        return self._load


@contextlib.contextmanager
def _on(cpus: Sequence[int]) -> Iterator[None]:
    """Run this thread on these CPUs. Threads that it starts inherit them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def main() -> None:
    """Serve requests until the pipe is closed."""
    _end_with_parent()
    # A signal from the terminal also reaches the command's main process, which then ends the level.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    worker = Worker()
    pipe = MessagePipe(socket.socket(fileno=int(sys.argv[1])))
    while True:
        try:
            _answer(pipe, worker, json.loads(pipe.receive()))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _answer(pipe: MessagePipe, worker: Worker, request: dict[str, Any]) -> None:
    """Perform a request and send its answer: a line of JSON, followed by the bytes."""
    answer, blob = worker.perform(request)
    head = {"number": request["number"], "bytes": blob is not None, **answer}
    pipe.send(json.dumps(head).encode() + b"\n" + (blob or b""))


def _end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() == 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
