"""The reference NFS server as a server under test: the default without a Ganesha.

Its files are in memory. Not for files on a disk: `reference_nfs_directory.py`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.servers.base import Access, Settings
from serverdyno.servers.reference_files import ReferenceFiles, ReferenceFilesSettings
from serverdyno.servers.reference_nfs_program import (
    NFS_PORT,
    ReferenceNfsProgram,
    ReferenceNfsProgramSettings,
)


class ReferenceNfsSettings(ReferenceNfsProgramSettings, ReferenceFilesSettings):
    """What can be varied."""

    flush: Literal["honour", "ignore"] = Field(
        default="honour",
        description="What COMMIT and stable writes do. honour: the file outlives a restart of the service. ignore: "
        "they are answered as if it did, as by a server that exports with async.",
    )


class ReferenceNfs(ReferenceNfsProgram[ReferenceNfsSettings], ReferenceFiles[ReferenceNfsSettings]):
    """The driver of `dyno reference nfs`."""

    name: ClassVar[str] = "reference-nfs"
    summary: ClassVar[str] = "Serverdyno's own NFS server, in memory: an upper bound, not a product"
    settings_type: ClassVar[type[Settings]] = ReferenceNfsSettings
    usual_port: ClassVar[int] = NFS_PORT

    def access(self) -> Access:
        """The exports, and how to get to them. After `start`."""
        exports = tuple(f"/{name}" for name in self.volumes)
        token = self.consent_token if self.is_elsewhere else None
        return Access(self.url, None, None, exports, self.network_namespace(), consent_token=token)

    def options(self) -> list[str]:
        """What COMMIT does, and how much is moved at once."""
        return ["--flush", self.settings.flush, *self.transfer_options()]

    def notes(self) -> list[str]:
        """What COMMIT does, and what is counted."""
        honours = self.settings.flush == "honour"
        return [
            "COMMIT and stable writes make a file outlive a restart of the service; files are in memory alone, and "
            "gone with the process."
            if honours
            else "COMMIT and stable writes are answered and do nothing.",
            "Requests served: those of NFS by its own counters; MOUNT does not count.",
            "Locks and read delegations are offered by NFSv4.1 alone (no NLM), and access is not controlled.",
            *super().notes(),
        ]
