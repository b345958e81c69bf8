"""The servers of the file benchmarks: those of `serverdyno.servers`, and how they are emptied after each run.

Samba also accepts SMB1, the only dialect of smbtorture's replay, and can limit the bytes per request, so that all
clients move the same. Serverdyno's own driver offers no SMB1.
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
MEMORY_BYTES = 2 << 30  # required free space
SHARE = "volume1"
REST_S, POLL_S = 60.0, 0.02
# `SMBreadX_count`, `smb2_read_count`: one request each. Their parts are counted separately, as `Trans2_`.
REQUEST_COUNTER = re.compile(r"^(?:SMB|smb2_)\w+_count:\s+(\d+)$", re.MULTILINE)


class BenchServer(Protocol):
    """What a benchmark needs of a server."""

    directory: Path
    port: int

    def access(self) -> Access: ...

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of all its processes so far."""

    def rss_bytes(self) -> int | None:
        """Return the resident memory of all its processes now."""

    def operations_served(self) -> dict[str, int] | None:
        """Return the requests since the start by name, from its own counters; None if it has none."""

    def messages_served(self) -> int | None:
        """Return the number of requests since the start, from its own counters; None if it has none."""

    def data_directories(self) -> list[Path]:
        """Return where we find its files, share by share."""

    def empty(self) -> None:
        """Remove what clients have left. Raises ServerError."""


class BenchSamba(Samba):
    """The Samba of experiments, but with SMB1 and, if given, a limit on the bytes per SMB2 request."""

    def __init__(
        self, settings: SambaSettings, directory: Path, cpus: Sequence[int], most_bytes: int | None = None
    ) -> None:
        super().__init__(settings, directory, Path(os.devnull), cpus)
        self._most_bytes = most_bytes
        self._at_rest = 0

    def ready(self) -> None:
        """Prove the server, and count its processes without clients, possibly with one more from the proof."""
        super().ready()
        self._at_rest = len(self.pids())

    def _protocol(self) -> list[tuple[str, object]]:
        parameters = [(name, value) for name, value in super()._protocol() if name != "server min protocol"]
        parameters.append(("server min protocol", "NT1"))
        if self._most_bytes is not None:
            parameters += [(f"smb2 max {way}", self._most_bytes) for way in ("read", "write")]
        return parameters

    def messages_served(self) -> int | None:
        """Return the SMB1 and SMB2 requests since the start, by smbd's own counters; None if they can't be read."""
        if self.requests_served() is None:  # waits until the counters stand still
            return None
        command = [str(find_program("smbstatus")), "--profile", "-s", str(self.directory / CONFIGURATION)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return sum(map(int, REQUEST_COUNTER.findall(done.stdout))) if done.returncode == 0 else None

    def empty(self) -> None:
        """Remove what clients have left, once their processes have ended, without asking smbd. Raises ServerError."""
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
    """How a third-party client reaches a server: words before and after the program's name."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class BenchGanesha(Ganesha):
    """The Ganesha of experiments."""

    def operations_served(self) -> dict[str, int] | None:
        """Return None, because Ganesha does not tell."""
        return None

    def messages_served(self) -> int | None:
        """Return None, because Ganesha does not tell."""
        return None

    def empty(self) -> None:
        """Do nothing, because Ganesha would go on with what it remembers. Each run has its own names."""


@contextmanager
def running_ganesha(cpus: Sequence[int]) -> Iterator[BenchGanesha]:
    """Yield a Ganesha ready for load, with its files in memory if there is room. Raises UserError or ServerError."""
    directory = Path(tempfile.gettempdir()) / f"serverdyno-ganesha-{secrets.token_hex(8)}"
    settings = GaneshaSettings(data_directory=data_directory())
    server = BenchGanesha(settings, directory, Path(os.devnull), cpus)
    with started(server):
        _use_plain_congestion_control(server)
        yield server


def inside(server: BenchServer) -> Inside:
    """Return how any of Samba's own clients reaches the server. The private server's password is no secret."""
    access = server.access()
    before = ("nsenter", f"--net={access.network_namespace}") if access.network_namespace else ()
    after = ("-s", str(server.directory / CONFIGURATION), "-p", str(server.port))
    return Inside(before, (*after, "-U", f"{access.user}%{access.password}"))


@contextmanager
def running_samba(cpus: Sequence[int], most_bytes: int | None = None) -> Iterator[BenchSamba]:
    """Yield a Samba ready for load, with its files in memory if there is room, because the disk is not measured.

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
    """Set, in the server's own network, what `make bench` sets for everything else; it applies to new connections."""
    namespace = server.access().network_namespace
    if namespace:
        setting = "echo reno >/proc/sys/net/ipv4/tcp_congestion_control"
        command = ["nsenter", f"--net={namespace}", "sh", "-c", setting]
        subprocess.run(command, check=True, timeout=60)


def data_directory() -> str | None:
    """Return a file system in memory if there is one with room; None: the driver chooses."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        return str(MEMORY)
    return None
