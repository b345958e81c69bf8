"""The reference NFS server over directories, as a server under test: what a COMMIT costs on a disk.

Its volumes lie where those of Samba and Ganesha would, so that they can be compared on one disk. Not for files in
memory: `reference_nfs.py`.
"""

from __future__ import annotations

import shlex
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.errors import ServerError
from serverdyno.servers.base import Access, Settings
from serverdyno.servers.disk_settings import DiskSettings
from serverdyno.servers.reference_nfs_program import (
    NFS_PORT,
    ReferenceNfsProgram,
    ReferenceNfsProgramSettings,
)
from serverdyno.servers.volume_server import VolumeServer

SCRIPT = "run.sh"


class ReferenceNfsDirectorySettings(ReferenceNfsProgramSettings, DiskSettings):
    """What can be varied."""

    threads: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Threads that serve. A thread that waits for the disk serves nobody else meanwhile.",
    )
    flush: Literal["honour", "ignore"] = Field(
        default="honour",
        description="What COMMIT and stable writes do. honour: fsync before they are answered. ignore: nothing, as "
        "with the export option async.",
    )

    def contradictions(self) -> dict[str, bool]:
        """Those of the disk too."""
        return {**self.wrong_disk(), **super().contradictions()}


class ReferenceNfsDirectory(
    ReferenceNfsProgram[ReferenceNfsDirectorySettings], VolumeServer[ReferenceNfsDirectorySettings]
):
    """The driver of `dyno reference nfs --directory`."""

    name: ClassVar[str] = "reference-nfs-directory"
    summary: ClassVar[str] = "Serverdyno's own NFS server over directories: sync against async on a disk"
    settings_type: ClassVar[type[Settings]] = ReferenceNfsDirectorySettings

    def access(self) -> Access:
        """The exports, and how to get to them. After `start`."""
        namespace = self.process.network_namespace if self.process else None
        exports = tuple(f"/{name}" for name in self.volumes.names)
        token = self.consent_token if self.is_elsewhere else None
        return Access(self.url, None, None, exports, namespace, consent_token=token)

    def choose_port(self) -> int:
        """NFS's own, where nobody else can have it."""
        return NFS_PORT if self.own_network else super().choose_port()

    def check_paths(self) -> None:
        """That the volumes can lie where they are to."""
        super().check_paths()
        self.check_place("The reference server")

    def command(self) -> list[str]:
        """A script, which waits for the volumes."""
        return ["/bin/sh", str(self.directory / SCRIPT)]

    def configuration(self) -> dict[str, str]:
        """That script."""
        if not self.port:
            raise ServerError("the reference server has no port yet")
        settings = self.settings
        options = {
            "--port": self.port,
            "--bind": self.host,
            "--threads": settings.threads,
            "--flush": settings.flush,
        }
        places = [f"--directory={self.volumes.top / name}" for name in self.volumes.names]
        command = shlex.join([*self.program_command(options), *self.transfer_options(), *places])
        return {SCRIPT: f"set -eu\n{self.wait_for_volumes}\nexec {command}\n"}

    def notes(self) -> list[str]:
        """What COMMIT does, where the files lie, and what surrounds it."""
        delay = self.settings.fsync_delay_ms
        return [
            "COMMIT, and a WRITE that asks for stable storage, is answered after fsync of its file."
            if self.settings.flush == "honour"
            else "COMMIT and stable writes are answered and sync nothing.",
            self.volumes.description(),
            "Names are not synced by CREATE, REMOVE or RENAME.",
            "Files belong to whom the client says it is, where the server is root; access is not controlled.",
            "Locks and read delegations are offered by NFSv4.1 alone (no NLM).",
            "A change in the directory that does not come over NFS recalls no delegation.",
            self.network_note(),
            *(
                [f"Each fsync and fdatasync takes {delay:g} ms longer, at least: the keeper does that."]
                if delay
                else []
            ),
        ]
