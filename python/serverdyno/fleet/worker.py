"""What a node of a fleet does, whichever backend asks it; and one generator process of this machine:
`python -m serverdyno.fleet.worker FD`, started by `fleet/processes.py`, which ends with its parent.

A node opens and proves the target itself, keeps its clients' workspaces for as long as it lives, gets documents and
answers with tallies. Not for: deciding anything.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from serverdyno import _native
from serverdyno.fleet.node_window import NodeWindow
from serverdyno.fleet.pipe import REFUSALS, refusal
from serverdyno.fleet.target_link import TargetLink

if TYPE_CHECKING:
    from serverdyno.fleet.serving import ServerPlace

PR_SET_PDEATHSIG = 1  # linux/prctl.h
REQUESTS = frozenset(
    {
        "begun",
        "clock",
        "end_server",
        "go",
        "look",
        "machine",
        "open",
        "remove",
        "removing",
        "serve",
        "server",
        "start",
        "stop",
        "stop_removing",
        "tally",
    }
)
"""The methods of `Worker` that may be asked for."""


class Worker:
    """What one process holds: a target, its workspaces, a mix or a removal under way, and a server."""

    def __init__(self) -> None:
        self._target: _native.Target | None = None
        self._workspaces = _native.Workspaces()
        self._load_file: _native.LoadFile | None = None
        self._load: _native.Load | None = None
        self._removal: _native.Removal | None = None
        self._window: NodeWindow | None = None
        self._link: TargetLink | None = None
        self._serving: ServerPlace | None = None

    def perform(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes | None]:
        """Do what a request asks for: its answer, and the bytes behind it."""
        if request["do"] not in REQUESTS:
            return refusal(ValueError(f"no such request: {request['do']!r}")), None
        try:
            told = getattr(self, request["do"])(**request["with"])
        except tuple(REFUSALS.values()) as error:
            return refusal(error), None
        return ({"bytes": True}, told) if isinstance(told, bytes) else ({"told": told}, None)

    def abandon(self) -> None:
        """End everything that is under way and forget the target: nobody is there any more who wants it."""
        if self._load is not None:
            self._load.stop()
        if self._removal is not None:
            self._removal.stop()
        self._load = self._removal = self._target = None
        self.end_server()

    def clock(self) -> int:
        """Return the time of this node's monotonic clock, ns."""
        return time.monotonic_ns()

    def open(
        self,
        protocol: str,
        section: dict[str, Any],
        secrets: dict[str, str | None],
        workspaces: int,
        load_file: str | None,
    ) -> None:
        """Open the target and prove that load is welcome there, in this process."""
        self._target = _native.Target.open(protocol, json.dumps(section), **secrets)
        self._link = TargetLink(self._target.address)
        self._workspaces = _native.Workspaces(workspaces)
        self._load_file = None if load_file is None else _native.LoadFile.read(load_file)

    def start(self, document: dict[str, Any]) -> None:
        """Prepare a mix and make its clients ready; it starts when it is told to."""
        self._window = NodeWindow(document["window"], document["engine"]["cpus"])
        self._load = self._prepared(document).start()

    def go(self, start_monotonic_ns: int) -> None:
        """Set the start of the mix."""
        self._running().go(start_monotonic_ns)

    def look(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the end of the mix for a moment; say how it stands."""
        load = self._running()
        ended, snapshot = load.wait(timeout_s), load.snapshot()
        if self._window is not None:
            self._window.look(snapshot["elapsed_s"])
        down = self._link.name if self._link is not None and self._link.is_down() else None
        return {"ended": ended, "snapshot": snapshot, "link_down": down}

    def machine(self) -> dict[str, Any]:
        """Say what others used of this node's CPUs in the window of the last mix."""
        return self._window.told() if self._window is not None else {}

    def serve(self, server: str, settings: dict[str, Any], cpus: list[int], address: str) -> dict[str, Any]:
        """Start a server here; see `serving.ServerPlace`."""
        from serverdyno.fleet.serving import ServerPlace  # noqa: PLC0415 (those that make load start without it)

        self._serving = self._serving or ServerPlace()
        return self._serving.start(server, settings, cpus, address)

    def server(self, what: str) -> Any:
        """Return a figure of the server that runs here."""
        assert self._serving is not None, "a server is started first"
        return self._serving.ask(what)

    def end_server(self) -> None:
        """End the server that runs here, if there is one."""
        if self._serving is not None:
            self._serving.stop()

    def stop(self) -> None:
        """End the mix early."""
        self._running().stop()

    def tally(self) -> bytes:
        """Return what the mix counted, and forget it."""
        tally = self._running().tally()
        self._load = None
        return tally

    def begun(self) -> bool:
        """Say whether any workspace was ever begun."""
        return self._workspaces.begun()

    def remove(self, document: dict[str, Any], most_s: float) -> None:
        """Begin to take this process's workspaces away."""
        self._removal = self._prepared(document).remove_workspaces(most_s)

    def removing(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the end of the removal for a moment; say what stands."""
        if self._removal is None:
            return {"ended": True, "left": []}
        return {"ended": self._removal.wait(timeout_s), "left": self._removal.left()}

    def stop_removing(self) -> None:
        """Give the removal up."""
        if self._removal is not None:
            self._removal.stop()

    def _prepared(self, document: dict[str, Any]) -> _native.PreparedMix:
        assert self._target is not None, "the target is opened first"
        return _native.prepare(json.dumps(document), self._target, self._workspaces, self._load_file)

    def _running(self) -> _native.Load:
        assert self._load is not None, "a mix is started first"
        return self._load


def main() -> None:
    """Serve requests until the pipe is closed."""
    _end_with_parent()
    # Who interrupts the command interrupts its process, which ends the mix in order.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    worker = Worker()
    with Connection(int(sys.argv[1])) as pipe:
        while True:
            try:
                _answer(pipe, worker, json.loads(pipe.recv_bytes()))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                return


def _answer(pipe: Connection, worker: Worker, request: dict[str, Any]) -> None:
    """Send a line of JSON, and then what is bytes."""
    answer, blob = worker.perform(request)
    pipe.send_bytes(json.dumps({"number": request["number"], **answer}).encode())
    if blob is not None:
        pipe.send_bytes(blob)


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent ends; the pipe is closed then, too."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() == 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
