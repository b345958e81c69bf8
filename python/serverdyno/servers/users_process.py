"""A server of the user's that listens on this machine, as its processes: found by its port, looked at, never touched.

What runs on another machine, in a network namespace of its own or inside the process that makes the load is unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil

from serverdyno.probes.noise import process_cpu_s
from serverdyno.servers.proof import listeners

STEADY_ATTEMPTS = 5
HTTPS_PORT = 443


class UsersProcess:
    """The processes that listen on a port, their ancestors of the same program, and all descendants of these."""

    def __init__(self, root: psutil.Process) -> None:
        self._root = root

    @classmethod
    def listening_at(cls, url: str, default_port: int) -> UsersProcess | None:
        """Return the process that listens at a loopback URL; None if no process can be identified."""
        parts = urlsplit(url)
        port = parts.port or (HTTPS_PORT if parts.scheme == "https" else default_port)
        with contextlib.suppress(psutil.Error, OSError):
            roots = {_root(psutil.Process(found.pid)) for found in listeners(port) if found.pid is not None}
            ours = {psutil.Process(), *psutil.Process().parents()}
            if len(roots) == 1 and not roots & ours:
                return cls(roots.pop())
        return None

    def cpu_s(self) -> float | None:
        """Return CPU seconds, user and system, of all its processes so far; None once its first process has ended.

        Of the living by their CPU clocks, in nanoseconds; of children that have ended the kernel tells their parents
        (`cutime` and `cstime` of /proc/PID/stat), in ticks of 10 ms.
        """
        for processes in self._attempts():
            with contextlib.suppress(psutil.NoSuchProcess):
                used_s: float = sum(
                    process_cpu_s(each.pid) + sum(each.cpu_times()[2:4]) for each in processes
                )
                return used_s
        return None

    def rss_bytes(self) -> int | None:
        """Return the memory of all its processes now: proportional set sizes, resident ones where those are denied."""
        for processes in self._attempts():
            with contextlib.suppress(psutil.NoSuchProcess):
                try:
                    return sum(int(process.memory_full_info().pss) for process in processes)
                except psutil.AccessDenied:
                    return sum(int(process.memory_info().rss) for process in processes)
        return None

    def pids(self) -> list[int]:
        """Return all its processes; none once its first one has ended."""
        return [process.pid for process in next(self._attempts(), [])]

    def program(self) -> str:
        """Return the name of its program, for the disclosure."""
        with contextlib.suppress(psutil.Error):
            return f"{self._root.name()} (process {self._root.pid})"
        return f"process {self._root.pid}"

    def _attempts(self) -> Iterator[list[psutil.Process]]:
        """Yield its processes, again each time that one of them ended meanwhile."""
        for _ in range(STEADY_ATTEMPTS):
            with contextlib.suppress(psutil.NoSuchProcess):
                if self._root.is_running():
                    yield [self._root, *self._root.children(recursive=True)]


def _root(process: psutil.Process) -> psutil.Process:
    """Return the first ancestor of the same program: a master whose workers share its socket."""
    with contextlib.suppress(psutil.Error):
        program, parent = process.exe(), process.parent()
        while parent is not None and parent.exe() == program:
            process, parent = parent, parent.parent()
    return process
