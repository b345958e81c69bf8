"""The reference SMB server as a server under test: the default where no Samba is installed, and the calibration target.

It keeps files in memory and runs as a process of its own, so that its CPU time is its own. Its settings have the names
that Samba's have, as far as it has them, so that it can be held against the same configuration.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import ClassVar, Literal, Self

import psutil
from pydantic import Field, model_validator

import serverdyno
from serverdyno.errors import ServerError
from serverdyno.protocols.smb import SMB, Dialect, wrong_dialects
from serverdyno.servers.base import Access, Installed, LocalSettings, Settings
from serverdyno.servers.disk_settings import MAX_VOLUMES
from serverdyno.servers.host_changes import HostChanges
from serverdyno.servers.local import LocalServer
from serverdyno.servers.proof import LOOPBACK, offer
from serverdyno.servers.reference import package_environment, package_version
from serverdyno.servers.samba import SMB_PORT, SOCKET_PATH_BYTES
from serverdyno.servers.volume_server import may_unshare

USER = "bench"
PASSWORD_VARIABLE = "DYNO_SMB_PASSWORD"
COUNTS = "counts"
COUNTS_TIMEOUT_S = 5.0
MEMORY_SHARE = 0.75  # of what is free when it is prepared
MIB = 2**20


class ReferenceSmbSettings(LocalSettings):
    """What can be varied."""

    protocol: ClassVar[str | None] = SMB.name

    threads: int = Field(default=1, ge=1, le=256, description="Threads that serve.")
    min_dialect: Dialect = Field(default="2.0.2", description="The oldest version that is spoken.")
    max_dialect: Dialect = Field(default="3.1.1", description="The newest.")
    oplocks: bool = Field(default=True, description="Oplocks are given. Off: no leases either.")
    smb2_leases: bool | None = Field(
        default=None, description="Leases are given. Needs oplocks; left out: wherever oplocks are."
    )
    signing: Literal["auto", "required"] = Field(
        default="auto", description="auto: where the client asks for it."
    )
    encryption: Literal["off", "auto", "required"] = Field(
        default="auto", description="off; auto: where the client asks for it; required."
    )
    volumes: int = Field(
        default=1,
        ge=1,
        le=MAX_VOLUMES,
        description="Shares volume1, volume2 ..., each with a tree of its own.",
    )
    capacity_mib: int | None = Field(
        default=None,
        ge=1,
        le=2**24,
        description="Memory for files, MiB; beyond it the disk is full. Left out: three quarters of what is free.",
    )
    network: Literal["auto", "namespace", "loopback"] = Field(
        default="auto",
        description="namespace: a network of its own, with nobody else on its ports (root). loopback: a free port of "
        "127.0.0.1. auto: namespace where allowed.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """All that contradicts itself, at once."""
        wrong = {
            "smb2_leases needs oplocks": bool(self.smb2_leases) and not self.oplocks,
            **wrong_dialects(self.min_dialect, self.max_dialect, encrypts=self.encryption == "required"),
        }
        if problems := [problem for problem, found in wrong.items() if found]:
            raise ValueError("; ".join(problems))
        return self

    def free_bytes(self) -> int:
        """Return the memory for files: what is set, or a share of what is free now."""
        if self.capacity_mib is not None:
            return self.capacity_mib * MIB
        return max(MIB, int(psutil.virtual_memory().available * MEMORY_SHARE))


class ReferenceSmb(LocalServer[ReferenceSmbSettings]):
    """The driver of `dyno reference smb`."""

    name: ClassVar[str] = "reference-smb"
    summary: ClassVar[str] = "Serverdyno's own file server, in memory: an upper bound, not a product"
    debian_package: ClassVar[str | None] = None
    settings_type: ClassVar[type[Settings]] = ReferenceSmbSettings

    capacity_mib = 0

    @staticmethod
    def installed() -> Installed | None:
        """Part of Serverdyno."""
        return Installed(f"serverdyno {serverdyno.__version__}", Path(sys.executable))

    @staticmethod
    def version_of(program: Path) -> str:
        """Of the Serverdyno that a Python has."""
        return package_version(program)

    @property
    def own_network(self) -> bool:
        """Whether it gets a network namespace."""
        return self.settings.network == "namespace" or (self.settings.network == "auto" and may_unshare())

    @property
    def shares(self) -> tuple[str, ...]:
        """Their names, which are those of Samba's volumes."""
        return tuple(f"volume{number}" for number in range(1, self.settings.volumes + 1))

    @property
    def url(self) -> str:
        """After `prepare`; it may change in `ready`. Each share is below it."""
        return f"smb://{LOOPBACK}:{self.port}/"

    def access(self) -> Access:
        """The user, and how to get to it. After `start`."""
        namespace = self.process.network_namespace if self.process else None
        return Access(self.url, USER, self.secret, self.shares, namespace)

    def host_changes(self) -> HostChanges | None:
        """A network of its own, where it gets one."""
        if not self.own_network:
            return None
        return HostChanges(own_network=True, mount=None, write_back={}, sync_delay_s=0.0, remove=[])

    def choose_port(self) -> int:
        """SMB's own where nobody else can have it."""
        return SMB_PORT if self.own_network else super().choose_port()

    def check_paths(self) -> None:
        """That the name of the socket fits."""
        super().check_paths()
        if len(os.fsencode(self.directory / COUNTS)) > SOCKET_PATH_BYTES:
            raise ServerError(
                f"{self.directory}: a socket below it would have a name longer than {SOCKET_PATH_BYTES} bytes",
                hint="Set TMPDIR to a directory with a shorter path.",
            )

    def furnish(self) -> None:
        """How much memory it may have."""
        self.capacity_mib = self.settings.free_bytes() // MIB

    @property
    def smb2_leases(self) -> bool:
        """Whether leases are given."""
        return self.settings.oplocks if self.settings.smb2_leases is None else self.settings.smb2_leases

    def command(self) -> list[str]:
        """The same command that a user may run."""
        settings = self.settings
        options = {
            "--port": self.port,
            "--threads": settings.threads,
            "--volumes": settings.volumes,
            "--user": USER,
            "--min-dialect": settings.min_dialect,
            "--max-dialect": settings.max_dialect,
            "--signing": settings.signing,
            "--encryption": settings.encryption,
            "--capacity-mib": self.capacity_mib or 1024,
            "--counts": self.directory / COUNTS,
        }
        switches = [
            "--oplocks" if settings.oplocks else "--no-oplocks",
            "--leases" if self.smb2_leases else "--no-leases",
        ]
        arguments = [str(part) for option in options.items() for part in option]
        return [str(self.program), "-m", "serverdyno", "reference", "smb", *arguments, *switches]

    def environment(self) -> dict[str, str]:
        """So that the child runs this very package, also from a source checkout; and the password."""
        return {**package_environment(self.settings.program), PASSWORD_VARIABLE: self.secret}

    def process_count(self) -> int:
        """One process with threads."""
        return 1

    def configuration(self) -> dict[str, str]:
        """None: everything is in the command."""
        return {}

    def notes(self) -> list[str]:
        """What FLUSH does, and where the files are."""
        return [
            "SMB2 FLUSH is answered at once: files are in memory alone, and gone with the server.",
            f"Files may have {self.capacity_mib} MiB together; beyond that the disk is full.",
            "Requests served: SMB2 requests by its own counters, each part of a compound once.",
            "Network: a namespace of its own."
            if self.own_network
            else "Network: the machine's loopback; only our process listens on the port.",
        ]

    def answers_as_ours(self) -> bool:
        """Whether it speaks SMB2 there; `LocalServer` has seen that only our process listens. Only ours knows the
        password, too.
        """
        assert self.process is not None
        offer(self.port, self.process.network_namespace)
        return True

    def operations_served(self) -> dict[str, int] | None:
        """SMB2 requests since the start by command ("CREATE", "FLUSH" ...); None when it has ended."""
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
        """All of `operations_served`, the readiness check's negotiation included."""
        operations = self.operations_served()
        return None if operations is None else sum(operations.values())
