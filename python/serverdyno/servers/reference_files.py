"""The common part of the drivers of the reference file servers: the program, its request counts, files in memory.

Each server runs as a separate process, so that its CPU time is measured separately. A subclass names the command.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import serverdyno
from serverdyno.errors import ServerError
from serverdyno.plan.protocols.options import words
from serverdyno.servers.base import Installed
from serverdyno.servers.consent import CONSENT_VARIABLE
from serverdyno.servers.file_server import FileServer, FileServerSettings
from serverdyno.servers.host_changes import HostChanges
from serverdyno.servers.reference import package_environment, package_version
from serverdyno.servers.reference_model import FilesProcess, FilesServing
from serverdyno.servers.samba import SOCKET_PATH_BYTES
from serverdyno.units import MIB

COUNTS = "counts"
COUNTS_TIMEOUT_S = 5.0


class ReferenceFilesSettings(FilesServing, FileServerSettings):
    pass


ReferenceFilesSettingsT = TypeVar("ReferenceFilesSettingsT", bound=ReferenceFilesSettings)


class ReferenceFiles(FileServer[ReferenceFilesSettingsT], Generic[ReferenceFilesSettingsT]):
    debian_package: ClassVar[str | None] = None
    command_name: ClassVar[str]
    usual_port: ClassVar[int]
    """The protocol's standard port, used if no other program can use it."""

    capacity_mib = 0

    @staticmethod
    def installed() -> Installed | None:
        return Installed(f"serverdyno {serverdyno.__version__}", Path(sys.executable))

    @staticmethod
    def version_of(program: Path) -> str:
        return package_version(program)

    def check_paths(self) -> None:
        """Check that the path of the socket is short enough."""
        super().check_paths()
        if len(os.fsencode(self.directory / COUNTS)) > SOCKET_PATH_BYTES:
            raise ServerError(
                f"{self.directory}: a socket below it would have a name longer than {SOCKET_PATH_BYTES} bytes",
                hint="Set TMPDIR to a directory with a shorter path.",
            )

    def environment(self) -> dict[str, str]:
        """Return variables that make the child run this package, and its consent token."""
        token = {CONSENT_VARIABLE: self.consent_token} if self.shows_consent else {}
        return package_environment(self.settings.program) | token

    def process_count(self) -> int:
        return 1

    def operations_served(self) -> dict[str, int] | None:
        """Return the requests since the start by name ("CREATE", "FLUSH" ...); None if the server has ended."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(COUNTS_TIMEOUT_S)
                connection.connect(str(self.directory / COUNTS))
                with connection.makefile() as text:
                    counts: dict[str, int] = json.loads(text.read())
                    return counts
        except (OSError, ValueError):
            return None

    def requests_served(self) -> int | None:
        """Return the sum of `operations_served`, including the readiness check."""
        operations = self.operations_served()
        return None if operations is None else sum(operations.values())

    @property
    def volumes(self) -> tuple[str, ...]:
        return self.settings.volume_names

    def network_namespace(self) -> str | None:
        """Return the file of the server's network namespace. It is valid after `start`."""
        return self.process.network_namespace if self.process else None

    def host_changes(self) -> HostChanges | None:
        """Return a network namespace as the only change, if the server has one."""
        if not self.own_network:
            return None
        return HostChanges(own_network=True, mount=None, write_back={}, sync_delay_s=0.0, remove=[])

    def choose_port(self) -> int:
        """Return the protocol's standard port if no other program can use it; otherwise a free port."""
        return self.usual_port if self.own_network else super().choose_port()

    def furnish(self) -> None:
        """Store the memory limit of the server's files."""
        self.capacity_mib = self.settings.free_bytes() // MIB

    @abstractmethod
    def process_options(self, here: dict[str, Any]) -> FilesProcess:
        """Return the options of the process: the settings, the options in `here`, and the protocol's options."""

    def command(self) -> list[str]:
        """Return the `dyno reference` command that a user could run as well."""
        here = {"port": self.port, "bind": self.host, "counts": self.directory / COUNTS}
        options = self.process_options(here | {"capacity_mib": self.capacity_mib or None})
        head = [str(self.program), "-m", "serverdyno", "reference", self.command_name]
        return [*head, *words(options)]

    def configuration(self) -> dict[str, str]:
        return {}

    def cut_off(self, how: str, away_s: float) -> None:
        """Cause an outage of `outage_s` (a setting) with a signal. A killed process would lose its files."""
        del how, away_s
        self._cut_off_ns = time.monotonic_ns()
        os.kill(self.pids()[0], signal.SIGHUP)

    def notes(self) -> list[str]:
        return [
            f"The files can have up to {self.capacity_mib} MiB in total; beyond that, the disk is full.",
            self.network_note(),
        ]
