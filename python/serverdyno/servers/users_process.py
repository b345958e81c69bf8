"""The processes of a user's server that listens on this machine, found by its port. The processes are only observed.

A server on another machine, in its own network namespace or inside the load generator's process is not found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil

from serverdyno.probes import processes
from serverdyno.probes.processes import Figure, descendants
from serverdyno.servers.proof import listeners

STEADY_ATTEMPTS = 5


class UsersProcess:
    """The process that listens on a port, its ancestors that run the same program, and all of their descendants."""

    def __init__(self, root: psutil.Process) -> None:
        self._root = root

    @classmethod
    def listening_at(cls, address: str) -> UsersProcess | None:
        """Return the process that listens at a loopback address; None if no process can be identified.

        The address is `127.0.0.1:80` or `[::1]:80`.
        """
        host, _, port = address.rpartition(":")
        with contextlib.suppress(psutil.Error, OSError):
            found = listeners(int(port), host=host.strip("[]"))
            roots = {_root(psutil.Process(each.pid)) for each in found if each.pid is not None}
            ours = {psutil.Process(), *psutil.Process().parents()}
            if len(roots) == 1 and not roots & ours:
                return cls(roots.pop())
        return None

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of all processes so far (`processes.cpu_s`); None once the first process has ended."""
        return self._steady(lambda pids: processes.cpu_s(pids, pids))

    def rss_bytes(self) -> int | None:
        """Return the memory of all processes (`processes.memory_bytes`); None once the first process has ended."""
        return self._steady(processes.memory_bytes)

    def pids(self) -> list[int]:
        """Return the IDs of all processes; none once the first process has ended."""
        return [self._root.pid, *descendants([self._root.pid])] if self._root.is_running() else []

    def program(self) -> str:
        """Return the name and ID of the first process, for the disclosure."""
        with contextlib.suppress(psutil.Error):
            return f"{self._root.name()} (process {self._root.pid})"
        return f"process {self._root.pid}"

    def _steady(self, read: Callable[[list[int]], Figure]) -> Figure | None:
        """Return the result of `read` for the processes; None once the first process has ended."""
        return processes.steady(lambda: read(pids) if (pids := self.pids()) else None, STEADY_ATTEMPTS)


def _root(process: psutil.Process) -> psutil.Process:
    """Return the topmost ancestor that runs the same program: a master whose workers share its socket."""
    with contextlib.suppress(psutil.Error):
        program, parent = process.exe(), process.parent()
        while parent is not None and parent.exe() == program:
            process, parent = parent, parent.parent()
    return process
