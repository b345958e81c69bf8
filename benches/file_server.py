"""The servers that file benches load: those of `serverdyno.servers`, and how they are emptied after each run.

Samba also lets SMB1 in, which is all that smbtorture's replay speaks, and it may bound how much one request moves, so
that all clients move the same. Not for experiments: Serverdyno's own driver offers no SMB1.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from serverdyno.errors import ServerError
from serverdyno.servers.base import Access
from serverdyno.servers.ganesha import Ganesha, GaneshaSettings
from serverdyno.servers.local import find_program
from serverdyno.servers.running import started
from serverdyno.servers.samba import CONFIGURATION, Samba
from serverdyno.servers.samba_settings import SambaSettings

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2 << 30  # free there, at least
SHARE = "volume1"
REST_S, POLL_S = 60.0, 0.02
# `SMBreadX_count`, `smb2_read_count`: one request each. What they were made of is counted apart, as `Trans2_`.
REQUEST_COUNTER = re.compile(r"^(?:SMB|smb2_)\w+_count:\s+(\d+)$", re.MULTILINE)


class BenchServer(Protocol):
    """What a bench needs of a server."""

    directory: Path
    port: int

    def access(self) -> Access:
        """How to be let in."""

    def cpu_s(self) -> float | None:
        """CPU seconds of all its processes so far."""

    def rss_bytes(self) -> int | None:
        """Resident memory of all its processes now."""

    def operations_served(self) -> dict[str, int] | None:
        """Requests since the start by name, by its own counters; None where it has none."""

    def messages_served(self) -> int | None:
        """All requests since the start, by its own counters; None where it has none."""

    def data_directories(self) -> list[Path]:
        """Where we find its files, share by share."""

    def empty(self) -> None:
        """Removes what clients have left. Raises ServerError."""


class BenchSamba(Samba):
    """As for experiments, but for the oldest dialect and, if given, the most bytes that one SMB2 request moves."""

    def __init__(
        self, settings: SambaSettings, directory: Path, cpus: Sequence[int], most_bytes: int | None = None
    ) -> None:
        super().__init__(settings, directory, Path(os.devnull), cpus)
        self._most_bytes = most_bytes
        self._at_rest = 0

    def ready(self) -> None:
        """Also knows how many processes it has without clients; one more where that of the proof still goes."""
        super().ready()
        self._at_rest = len(self.pids())

    def _protocol(self) -> list[tuple[str, object]]:
        parameters = [(name, value) for name, value in super()._protocol() if name != "server min protocol"]
        parameters.append(("server min protocol", "NT1"))
        if self._most_bytes is not None:
            parameters += [(f"smb2 max {way}", self._most_bytes) for way in ("read", "write")]
        return parameters

    def messages_served(self) -> int | None:
        """Requests of SMB1 and SMB2 since the start, by smbd's own counters; None where they can't be read."""
        if self.requests_served() is None:  # waits until they stand still
            return None
        command = [str(find_program("smbstatus")), "--profile", "-s", str(self.directory / CONFIGURATION)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return sum(map(int, REQUEST_COUNTER.findall(done.stdout))) if done.returncode == 0 else None

    def empty(self) -> None:
        """Removes what clients have left, once their processes are gone: smbd is not asked. Raises ServerError."""
        deadline = time.monotonic() + REST_S
        while len(self.pids()) > self._at_rest:
            if time.monotonic() > deadline:
                raise ServerError(f"smbd still has clients {REST_S:g} s after the last one should have gone")
            time.sleep(POLL_S)
        for directory in self.data_directories():
            for path in directory.iterdir():
                if path.name != self.proof()[0]:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


@dataclass(frozen=True, slots=True)
class Inside:
    """How a client of others gets to a server: the words before its name, and those after it."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class BenchGanesha(Ganesha):
    """As for experiments."""

    def operations_served(self) -> dict[str, int] | None:
        """It tells nobody."""
        return None

    def messages_served(self) -> int | None:
        """Nor all of them together."""
        return None

    def empty(self) -> None:
        """Nothing: Ganesha would go on with what it remembers. Each run has names of its own."""


@contextmanager
def running_ganesha(cpus: Sequence[int]) -> Iterator[BenchGanesha]:
    """Ready for load, with its files in memory where there is room. Raises UserError or ServerError."""
    directory = Path(tempfile.gettempdir()) / f"serverdyno-ganesha-{secrets.token_hex(8)}"
    settings = GaneshaSettings(data_directory=data_directory())
    server = BenchGanesha(settings, directory, Path(os.devnull), cpus)
    with started(server):
        _use_plain_congestion_control(server)
        yield server


def inside(server: BenchServer) -> Inside:
    """For any of Samba's own clients. The password is the private server's, and no secret."""
    access = server.access()
    before = ("nsenter", f"--net={access.network_namespace}") if access.network_namespace else ()
    after = ("-s", str(server.directory / CONFIGURATION), "-p", str(server.port))
    return Inside(before, (*after, "-U", f"{access.user}%{access.password}"))


@contextmanager
def running_samba(cpus: Sequence[int], most_bytes: int | None = None) -> Iterator[BenchSamba]:
    """Ready for load, with its files in memory where there is room: the disk is not what is measured.

    Raises UserError or ServerError, with nothing left running.
    """
    settings = SambaSettings(data_directory=data_directory())
    directory = Path(tempfile.gettempdir()) / f"serverdyno-samba-{secrets.token_hex(8)}"
    server = BenchSamba(settings, directory, cpus, most_bytes)
    try:
        server.prepare()
        server.start()
        server.ready()
        _use_plain_congestion_control(server)
        yield server
    finally:
        server.stop()


def _use_plain_congestion_control(server: BenchServer) -> None:
    """As `make bench` does for all else, in the server's own network, for connections from now on."""
    namespace = server.access().network_namespace
    if namespace:
        setting = "echo reno >/proc/sys/net/ipv4/tcp_congestion_control"
        command = ["nsenter", f"--net={namespace}", "sh", "-c", setting]
        subprocess.run(command, check=True, timeout=60)


def data_directory() -> str | None:
    """Memory, if this machine has a file system of it with room; else None, where the driver puts its files."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        return str(MEMORY)
    return None
