"""The contract of a server under test. A driver is one file next to this one and one line in `registry.py`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import Field, field_validator

from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.model import SettingsModel

__all__ = [
    "Access",
    "Description",
    "Installed",
    "LocalSettings",
    "RunningServer",
    "ServerDriver",
    "Settings",
]

MAX_VOLUMES = 16
"""Maximum number of volumes of one file server."""


class Settings(SettingsModel):
    """The named settings of a driver. Each field has a description, which `dyno servers` prints.

    `protocol` is the server's protocol, so that a plan can be checked before anything is started; None if the URL
    determines it. `is_external`: whether the user runs the server, so that a plan names its URL. `needs_documents`:
    whether it serves the document tree from disk. `listens_elsewhere`: whether it can listen on an address other than
    loopback. `cuts`: the kinds of outage during a level that the driver supports.
    """

    protocol: ClassVar[str | None] = None
    is_external: ClassVar[bool] = False
    needs_documents: ClassVar[bool] = False
    listens_elsewhere: ClassVar[bool] = False
    cuts: ClassVar[frozenset[str]] = frozenset()

    def free_bytes(self) -> int | None:
        """Return the number of bytes free for files on the server; None if unknown, or if it keeps no files."""
        return None


class LocalSettings(Settings):
    """The settings of a server that dyno starts."""

    cuts: ClassVar[frozenset[str]] = frozenset({"server"})

    program: str | None = Field(
        default=None,
        description="Absolute path of the server's program. Default: the installed program. Use it as a "
        "factor to compare builds of one server.",
    )

    processors: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Number of CPUs for the server. A server with one worker per CPU gets as many workers. "
        "Default: all CPUs that the generator does not use. The generator uses other CPUs if "
        "possible.",
    )

    @field_validator("program")
    @classmethod
    def _is_there(cls, program: str | None) -> str | None:
        if program is None:
            return None
        if not program.isprintable() or not Path(program).is_absolute():
            raise ValueError(f"{program!r} is not the absolute path of a program")
        if not Path(program).is_file() or not os.access(program, os.X_OK):
            raise ValueError(f"{program} is not an executable program on this machine")
        return program


@dataclass(frozen=True, slots=True)
class Installed:
    """A server on this machine. `program` is None if the server needs no separate program."""

    version: str
    program: Path | None


@dataclass(frozen=True, slots=True)
class Description:
    """The disclosed facts of a server: version, command, settings and every configuration file as used.

    `package` is the name and revision of the distribution's package with the program; None if no package is known.
    `effective` contains the effective values, as far as known, of settings that are left out.
    """

    server: str
    version: str
    command: list[str]
    settings: dict[str, object]
    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    package: str | None = None
    effective: dict[str, object] = field(default_factory=dict)


class RunningServer(Protocol):
    """A server that is ready for load, wherever it runs."""

    @property
    def is_here(self) -> bool:
        """Return whether the server uses CPU time of this machine; True if unknown."""

    def ask(self, target: Any) -> None:
        """Query a user's server for the first time, at the address that consented; do nothing for other servers.

        Raises ServerError.
        """

    def check(self) -> None:
        """Raise ServerError if the server has ended since it was ready. A user's server is queried again."""

    def crashes(self) -> list[str]:
        """Return a line from the server's log for each process that crashed since its start; empty without a log."""

    def describe(self) -> Description:
        """Return the facts to disclose about the server."""

    @property
    def url(self) -> str:
        """Return the URL of the load; for a web server, with the trailing slash of the document root."""

    def access(self) -> Access:
        """Return the URL, and the data for logging on."""

    def cpu_s(self) -> float | None:
        """Return CPU seconds (user + system) of all its processes so far; None if unknown."""

    def cpu_by_member_s(self) -> dict[str, float | None]:
        """Return CPU seconds so far of each server of a team; empty for a single server."""

    def rss_bytes(self) -> int | None:
        """Return the memory of all its current processes in bytes; None if unknown."""

    def pids(self) -> list[int]:
        """Return the IDs of all current processes of the server; empty if unknown."""

    def data_directories(self) -> list[Path]:
        """Return the directories of a file server's files, share by share, while it runs; empty if unknown."""

    def requests_served(self) -> int | None:
        """Return the server's own count of requests since its start (log or status counter); None if it has none."""

    def syncs_served(self) -> int | None:
        """Return the server's own count of file syncs since its start; None if it has none.

        Call it after `requests_served`, which waits until the counters are current.
        """


class ServerDriver(RunningServer, Protocol):
    """A server's life cycle: prepare, start, ready, describe, stop. Steps may be called repeatedly; `stop` always runs.

    A driver works only in its own private `directory`. It binds a free port on loopback only, or on the address given
    to `listen_on`. It never touches a server that was running before.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    debian_package: ClassVar[str | None]
    settings_type: ClassVar[type[Settings]]

    def __init__(
        self,
        settings: Any,  # an instance of `settings_type`
        directory: Path,
        documents: Path,
        cpus: Sequence[int] = (),
        url: str | None = None,
    ) -> None: ...

    @staticmethod
    def installed() -> Installed | None:
        """Return the program found on this machine, or None."""

    def listen_on(self, address: str) -> None:
        """Listen on an address of this machine instead of loopback; call it before `prepare`. Raises UserError."""

    def prepare(self) -> None:
        """Write the configuration and provide the documents."""

    def start(self) -> None:
        """Start the server; return once its process exists."""

    def ready(self) -> None:
        """Wait until the server answers, and prove that the process of `start` answers. Raises ServerError."""

    def stop(self) -> None:
        """Stop every process. Raises nothing if the server has already ended."""
