"""The servers of the file benchmarks: drivers of `serverdyno.servers` whose files are removed after each run.

Here, Samba also accepts SMB1, the only dialect of smbtorture's replay. It can also limit the bytes per request, so that
all clients use the same size. Serverdyno's own driver offers no SMB1.
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
# Matches `SMBreadX_count` and `smb2_read_count`, which count whole requests; parts have other names, such as `Trans2_`.
REQUEST_COUNTER = re.compile(r"^(?:SMB|smb2_)\w+_count:\s+(\d+)$", re.MULTILINE)


class BenchServer(Protocol):
    """The methods of a server that a benchmark needs."""

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
        """Return the directory of each share on this machine."""

    def empty(self) -> None:
        """Remove the clients' files. Raises ServerError."""


class BenchSamba(Samba):
    """The Samba of experiments, but with SMB1 and, if given, a limit on the bytes per SMB2 request."""

    def __init__(
        self, settings: SambaSettings, directory: Path, cpus: Sequence[int], most_bytes: int | None = None
    ) -> None:
        super().__init__(settings, directory, Path(os.devnull), cpus)
        self._most_bytes = most_bytes
        self._at_rest = 0

    def ready(self) -> None:
        """Verify the server, and count its processes without clients.

        One of them may still serve the connection of the verification.
        """
        super().ready()
        self._at_rest = len(self.pids())

    def _protocol(self) -> list[tuple[str, object]]:
        parameters = [(name, value) for name, value in super()._protocol() if name != "server min protocol"]
        parameters.append(("server min protocol", "NT1"))
        if self._most_bytes is not None:
            parameters += [(f"smb2 max {way}", self._most_bytes) for way in ("read", "write")]
        return parameters

    def messages_served(self) -> int | None:
        """Return the number of SMB1 and SMB2 requests since the start, from smbd's own counters; None if unreadable."""
        if self.requests_served() is None:  # waits until the counters no longer change
            return None
        command = [str(find_program("smbstatus")), "--profile", "-s", str(self.directory / CONFIGURATION)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return sum(map(int, REQUEST_COUNTER.findall(done.stdout))) if done.returncode == 0 else None

    def empty(self) -> None:
        """Remove the clients' files directly, once smbd's processes for clients have ended. Raises ServerError."""
        deadline = time.monotonic() + REST_S
        while len(self.pids()) > self._at_rest:
            if time.monotonic() > deadline:
                raise ServerError(
                    f"smbd still serves clients {REST_S:g} s after the last one should have left"
                )
            time.sleep(POLL_S)
        for directory in self.data_directories():
            for path in directory.iterdir():
                if path.name != self.proof()[0]:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


@dataclass(frozen=True, slots=True)
class Inside:
    """Access of a third-party client to a server: words before and after the program's name."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class BenchGanesha(Ganesha):
    def operations_served(self) -> dict[str, int] | None:
        """Return None, because Ganesha reports none."""
        return None

    def messages_served(self) -> int | None:
        """Return None, because Ganesha reports none."""
        return None

    def empty(self) -> None:
        """Do nothing, because Ganesha caches file handles. Each run uses its own file names."""


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
    """Return the access of Samba's own clients to the server. The password of this private server is no secret."""
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
    """Set Reno in the server's network namespace for new connections, as `make bench` does for the rest."""
    namespace = server.access().network_namespace
    if namespace:
        setting = "echo reno >/proc/sys/net/ipv4/tcp_congestion_control"
        command = ["nsenter", f"--net={namespace}", "sh", "-c", setting]
        subprocess.run(command, check=True, timeout=60)


def data_directory() -> str | None:
    """Return a directory in memory if it has room; None if the driver should choose one."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        return str(MEMORY)
    return None
