"""The reference SMB server as a server under test: the default if Samba is not installed.

Its settings have the names of Samba's settings, so that the two can be compared in the same configuration.
"""

from __future__ import annotations

from typing import Any, ClassVar

from serverdyno.plan.protocols.smb import SMB
from serverdyno.servers.base import Access, Settings
from serverdyno.servers.proof import offer
from serverdyno.servers.reference_files import ReferenceFiles, ReferenceFilesSettings
from serverdyno.servers.reference_model import PASSWORD_VARIABLE, SmbProcess, SmbServing
from serverdyno.servers.samba import SMB_PORT

USER = "bench"


class ReferenceSmbSettings(SmbServing, ReferenceFilesSettings):
    """The settings that a plan can vary."""

    protocol: ClassVar[str | None] = SMB.name


class ReferenceSmb(ReferenceFiles[ReferenceSmbSettings]):
    """The driver of `dyno reference smb`."""

    name: ClassVar[str] = "reference-smb"
    summary: ClassVar[str] = "Serverdyno's own SMB server, in memory"
    settings_type: ClassVar[type[Settings]] = ReferenceSmbSettings
    command_name: ClassVar[str] = "smb"
    usual_port: ClassVar[int] = SMB_PORT

    @property
    def url(self) -> str:
        """Return the URL above all shares. It is valid after `prepare` and may change in `ready`."""
        return f"smb://{self.host}:{self.port}/"

    def access(self) -> Access:
        """Return the shares, and the user with the password. They are valid after `start`."""
        token = self.consent_token if self.shows_consent else None
        return Access(
            self.url, USER, self.secret, self.volumes, self.network_namespace(), consent_token=token
        )

    def process_options(self, here: dict[str, Any]) -> SmbProcess:
        settings = self.settings.model_dump(include=set(SmbServing.model_fields))
        return SmbProcess.model_validate(settings | here | {"user": USER})

    def environment(self) -> dict[str, str]:
        return {**super().environment(), PASSWORD_VARIABLE: self.secret}

    def notes(self) -> list[str]:
        return [
            "SMB2 FLUSH is answered immediately. Files are only in memory, and are lost when the server "
            "ends.",
            "Requests served: SMB2 requests by the server's own counters; each part of a compound counts "
            "once.",
            *super().notes(),
        ]

    def answers_as_ours(self) -> bool:
        """Return whether the server answers a NEGOTIATE request. Raises AnswerError if it does not.

        `LocalServer` has checked that only the server's process listens.
        """
        offer(self.port, self.network_namespace(), self.host)
        return True
