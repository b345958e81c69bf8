"""The reference NFS server as a server under test: the default if Ganesha is not installed.

Its files are in memory. NFS and MOUNT are on one port, so that neither a portmapper nor root is required.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from serverdyno.errors import refuse_contradictions
from serverdyno.plan.protocols.nfs import NFS, Transport, every_export_answers, query_of, wrong_transport
from serverdyno.servers.base import Access, Settings
from serverdyno.servers.reference_files import ReferenceFiles, ReferenceFilesSettings
from serverdyno.servers.reference_model import NfsProcess, NfsServing

NFS_PORT = 2049


class ReferenceNfsSettings(NfsServing, ReferenceFilesSettings):
    protocol: ClassVar[str | None] = NFS.name

    nfs_version: Literal["3", "4.1"] = Field(
        default="3",
        description="The version of NFS that clients speak. The server offers both versions on its port.",
    )
    proto: Transport = Field(
        default="tcp",
        description="The transport of all requests, including MOUNT: proto= of a mount. udp requires NFSv3 "
        "and limits transfers to 32 KiB.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """Refuse contradictions, all at once."""
        refuse_contradictions(wrong_transport(self.nfs_version, self.proto))
        return self


class ReferenceNfs(ReferenceFiles[ReferenceNfsSettings]):
    name: ClassVar[str] = "reference-nfs"
    summary: ClassVar[str] = "Serverdyno's own NFS server, in memory"
    settings_type: ClassVar[type[Settings]] = ReferenceNfsSettings
    command_name: ClassVar[str] = "nfs"
    usual_port: ClassVar[int] = NFS_PORT

    @property
    def url(self) -> str:
        """Return the URL. It is valid after `prepare` and may change in `ready`."""
        settings = self.settings
        query = query_of(settings.nfs_version, settings.proto, self.port)
        return f"nfs://{self.host}:{self.port}/{query}"

    def access(self) -> Access:
        """Return the exports and their address. They are valid after `start`."""
        exports = tuple(f"/{name}" for name in self.volumes)
        token = self.consent_token if self.shows_consent else None
        return Access(self.url, None, None, exports, self.network_namespace(), consent_token=token)

    def process_options(self, here: dict[str, Any]) -> NfsProcess:
        settings = self.settings.model_dump(include=set(NfsServing.model_fields))
        return NfsProcess.model_validate(settings | here | {"udp": self.settings.proto == "udp"})

    def notes(self) -> list[str]:
        honours = self.settings.flush == "honour"
        return [
            "COMMIT and stable writes make a file survive a restart of the service. Files are only in "
            "memory, and are lost when the process ends."
            if honours
            else "COMMIT and stable writes are answered but have no effect.",
            "Requests served: NFS requests by the server's own counters, without MOUNT.",
            "Only NFSv4.1 has locks and read delegations (no NLM). There is no access control.",
            *super().notes(),
        ]

    def answers_as_ours(self) -> bool:
        """Return whether each export can be mounted. `LocalServer` has checked which process listens."""
        return every_export_answers(self.access())
