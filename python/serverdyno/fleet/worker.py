"""One generator process: `python -m serverdyno.fleet.worker FD`, started by `fleet/processes.py`.

It opens and proves the target itself, keeps its clients' workspaces for as long as it lives, gets documents over a pipe
and answers with tallies. It ends with its parent. Not for: deciding anything.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from serverdyno import _native
from serverdyno.fleet.pipe import REFUSALS

PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Worker:
    """What one process holds: a target, its workspaces, and a mix or a removal under way."""

    def __init__(self) -> None:
        self._target: _native.Target | None = None
        self._workspaces = _native.Workspaces()
        self._load_file: _native.LoadFile | None = None
        self._load: _native.Load | None = None
        self._removal: _native.Removal | None = None

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
        self._workspaces = _native.Workspaces(workspaces)
        self._load_file = None if load_file is None else _native.LoadFile.read(load_file)

    def start(self, document: dict[str, Any]) -> None:
        """Prepare a mix and make its clients ready; it starts when it is told to."""
        self._load = self._prepared(document).start()

    def go(self, start_monotonic_ns: int) -> None:
        """Set the start of the mix."""
        self._running().go(start_monotonic_ns)

    def look(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the end of the mix for a moment; say how it stands."""
        load = self._running()
        ended = load.wait(timeout_s)
        return {"ended": ended, "snapshot": load.snapshot()}

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
                request = json.loads(pipe.recv_bytes())
                _answer(pipe, getattr(worker, request["do"]), request["with"])
            except (EOFError, BrokenPipeError, ConnectionResetError):
                return


def _answer(pipe: Connection, do: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Send a line of JSON, and then what is bytes."""
    try:
        told = do(**arguments)
    except tuple(REFUSALS.values()) as error:
        kind = next(name for name, kind in REFUSALS.items() if isinstance(error, kind))
        pipe.send_bytes(json.dumps({"refused": kind, "why": [str(part) for part in error.args]}).encode())
        return
    if isinstance(told, bytes):
        pipe.send_bytes(json.dumps({"bytes": True}).encode())
        pipe.send_bytes(told)
    else:
        pipe.send_bytes(json.dumps({"told": told}).encode())


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent ends; the pipe is closed then, too."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() == 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
