"""The reference SMB server as a server under test: the default where no Samba is installed.

Its settings have the names that Samba's have, as far as it has them, so that it can be held against the same
configuration.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from serverdyno.errors import refuse_contradictions
from serverdyno.protocols.smb import SMB, Dialect, wrong_dialects
from serverdyno.servers.base import Access, Settings
from serverdyno.servers.proof import offer
from serverdyno.servers.reference_files import ReferenceFiles, ReferenceFilesSettings
from serverdyno.servers.samba import SMB_PORT

USER = "bench"
PASSWORD_VARIABLE = "DYNO_SMB_PASSWORD"


class ReferenceSmbSettings(ReferenceFilesSettings):
    """What can be varied."""

    protocol: ClassVar[str | None] = SMB.name

    min_dialect: Dialect = Field(default="2.0.2", description="The oldest version that is spoken.")
    max_dialect: Dialect = Field(default="3.1.1", description="The newest.")
    oplocks: bool = Field(default=True, description="Oplocks are given. Off: no leases either.")
    smb2_leases: bool | None = Field(
        default=None, description="Leases are given. Needs oplocks; left out: wherever oplocks are."
    )
    directory_leases: bool | None = Field(
        default=None,
        description="Leases of directories are given, from SMB 3.0 on. Needs leases; left out: wherever those are.",
    )
    durable_handles: bool = Field(
        default=True, description="Handles may outlive their connection, where a client asks for it."
    )
    continuously_available: bool = Field(
        default=False,
        description="Handles may be persistent, and outlive a restart of the server. Needs durable_handles.",
    )
    signing: Literal["auto", "required"] = Field(
        default="auto", description="auto: where the client asks for it."
    )
    encryption: Literal["off", "auto", "required"] = Field(
        default="auto", description="off; auto: where the client asks for it; required."
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """All that contradicts itself, at once."""
        wrong = {
            "smb2_leases needs oplocks": bool(self.smb2_leases) and not self.oplocks,
            "directory_leases needs smb2_leases": bool(self.directory_leases) and not self.grants_leases,
            "continuously_available needs durable_handles": self.continuously_available
            and not self.durable_handles,
            **wrong_dialects(self.min_dialect, self.max_dialect, encrypts=self.encryption == "required"),
        }
        refuse_contradictions(wrong)
        return self

    @property
    def grants_leases(self) -> bool:
        """Whether leases are given."""
        return self.oplocks if self.smb2_leases is None else self.smb2_leases

    @property
    def grants_directory_leases(self) -> bool:
        """Whether leases of directories are given."""
        return self.grants_leases if self.directory_leases is None else self.directory_leases


class ReferenceSmb(ReferenceFiles[ReferenceSmbSettings]):
    """The driver of `dyno reference smb`."""

    name: ClassVar[str] = "reference-smb"
    summary: ClassVar[str] = "Serverdyno's own file server, in memory: an upper bound, not a product"
    settings_type: ClassVar[type[Settings]] = ReferenceSmbSettings
    command_name: ClassVar[str] = "smb"
    usual_port: ClassVar[int] = SMB_PORT

    @property
    def url(self) -> str:
        """After `prepare`; it may change in `ready`. Each share is below it."""
        return f"smb://{self.host}:{self.port}/"

    def access(self) -> Access:
        """The user, and how to get to it. After `start`."""
        token = self.consent_token if self.shows_consent else None
        return Access(
            self.url, USER, self.secret, self.volumes, self.network_namespace(), consent_token=token
        )

    def options(self) -> list[str]:
        """User, dialects, protection, and what is given to clients."""
        settings = self.settings
        return [
            *("--user", USER),
            *("--min-dialect", settings.min_dialect),
            *("--max-dialect", settings.max_dialect),
            *("--signing", settings.signing),
            *("--encryption", settings.encryption),
            "--oplocks" if settings.oplocks else "--no-oplocks",
            "--leases" if settings.grants_leases else "--no-leases",
            "--directory-leases" if settings.grants_directory_leases else "--no-directory-leases",
            "--durable-handles" if settings.durable_handles else "--no-durable-handles",
            "--continuously-available" if settings.continuously_available else "--no-continuously-available",
        ]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), PASSWORD_VARIABLE: self.secret}

    def notes(self) -> list[str]:
        """What FLUSH does, and what is counted."""
        return [
            "SMB2 FLUSH is answered at once: files are in memory alone, and gone with the server.",
            "Requests served: SMB2 requests by its own counters, each part of a compound once.",
            *super().notes(),
        ]

    def answers_as_ours(self) -> bool:
        """Whether it speaks SMB2 there; `LocalServer` has seen that only our process listens. Only ours knows the
        password, too.
        """
        offer(self.port, self.network_namespace(), self.host)
        return True
