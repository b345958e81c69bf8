"""What both drivers of the reference NFS server have in common: version, transport and transfers, and the URL.

NFS and MOUNT are on one port, so that no portmapper is needed, and no root. Not for where the files are:
`reference_nfs.py` (memory), `reference_nfs_directory.py` (directories).
"""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, model_validator

from serverdyno.errors import refuse_contradictions
from serverdyno.protocols.nfs import NFS, Transport, every_export_answers, query_of, wrong_transport
from serverdyno.servers.file_server import FileServerSettings
from serverdyno.servers.reference_files import ReferenceProgram

NFS_PORT = 2049


class ReferenceNfsProgramSettings(FileServerSettings):
    """What can be varied, wherever the files are."""

    protocol: ClassVar[str | None] = NFS.name

    nfs_version: Literal["3", "4.1"] = Field(
        default="3", description="The version of NFS that clients speak. The server serves both on its port."
    )
    proto: Transport = Field(
        default="tcp",
        description="What carries requests, MOUNT too: proto= of a mount. udp only with NFSv3, in "
        "transfers of 32 KiB at most.",
    )
    max_transfer_bytes: int = Field(
        default=1048576,
        ge=4096,
        le=1048576,
        description="Bytes of one READ or WRITE, at most; the server prefers as many.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """All that contradicts itself, at once."""
        refuse_contradictions(self.contradictions())
        return self

    def contradictions(self) -> dict[str, bool]:
        """Return what can contradict itself, and whether it does."""
        return wrong_transport(self.nfs_version, self.proto)


SettingsT = TypeVar("SettingsT", bound=ReferenceNfsProgramSettings)


class ReferenceNfsProgram(ReferenceProgram[SettingsT], Generic[SettingsT]):
    """A file server that is `dyno reference nfs`."""

    command_name: ClassVar[str] = "nfs"

    @property
    def url(self) -> str:
        """After `prepare`; it may change in `ready`."""
        settings = self.settings
        query = query_of(settings.nfs_version, settings.proto, self.port)
        return f"nfs://{self.host}:{self.port}/{query}"

    def transfer_options(self) -> list[str]:
        """How much is moved at once, and by what."""
        udp = ["--udp"] if self.settings.proto == "udp" else []
        return ["--max-transfer-bytes", str(self.settings.max_transfer_bytes), *udp]

    def answers_as_ours(self) -> bool:
        """Whether each export can be mounted; `LocalServer` has seen that only our process listens."""
        return every_export_answers(self.access())
