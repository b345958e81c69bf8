"""A file server that the user runs: any that speaks SMB 2 or 3. Nothing is started, stopped or configured.

Whether load may go there is not decided here: see the consent check of the data plane.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from serverdyno import _native
from serverdyno.errors import ServerError, UserError, gone, no_answer
from serverdyno.protocols.smb import SMB
from serverdyno.servers.base import Access, Description, Installed, Settings

SMB_PORT = 445
LOOK_S = 10.0  # for the first answer
EXAMPLE = "For example: smb://files.example/"


class ExternalSmbSettings(Settings):
    """How to be let in. The password is not here: settings are disclosed in every report."""

    protocol: ClassVar[str | None] = SMB.name
    is_external: ClassVar[bool] = True

    shares: list[str] = Field(
        default=[],
        max_length=16,
        description="Names of the shares; clients are spread over them. At least one.",
    )

    @field_validator("shares")
    @classmethod
    def are_names_of_shares(cls, shares: list[str]) -> list[str]:
        """Each is one name, and stands there once."""
        if wrong := [share for share in shares if not share or set(share) & set("/\\")]:
            raise ValueError(f"no name of a share: {', '.join(map(repr, wrong))}")
        if len({share.lower() for share in shares}) < len(shares):
            raise ValueError("a share is named twice")
        return shares

    user: str | None = Field(default=None, description='User, or "DOMAIN\\user"; left out: a guest.')
    password_variable: str = Field(
        default="DYNO_SMB_PASSWORD",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable that holds the user's password.",
    )


class ExternalSmb:
    """An address and names of shares. See `base.ServerDriver` for the contract."""

    name: ClassVar[str] = "external-smb"
    summary: ClassVar[str] = "a file server that you run, by its URL (smb://host/)"
    debian_package: ClassVar[str | None] = None
    settings_type: ClassVar[type[Settings]] = ExternalSmbSettings

    def __init__(
        self,
        settings: ExternalSmbSettings,
        directory: Path,
        documents: Path,
        cpus: Sequence[int] = (),
        url: str | None = None,
    ) -> None:
        """`directory`, `documents` and `cpus` mean nothing here. Raises UserError for what can't be used."""
        del directory, documents, cpus
        self.settings = settings
        if url is None:
            raise UserError("server 'external-smb' needs a url", hint=EXAMPLE)
        if not settings.shares:
            raise UserError("server 'external-smb' needs shares", hint='For example: shares = ["volume1"]')
        self._url = url
        try:
            parts = urlsplit(url)
            host, wrong_port = parts.hostname, parts.port == 0
        except ValueError as error:
            raise UserError(f"{url}: {error}") from None
        if (
            parts.scheme not in SMB.schemes
            or not host
            or wrong_port
            or parts.query
            or parts.fragment
            or parts.username
        ):
            raise UserError(f"{url}: not a URL of a file server", hint=EXAMPLE)
        self._address: str | None = None
        self._offer: _native.Offer | None = None

    @staticmethod
    def installed() -> Installed | None:
        """Always there: it is the user's."""
        return Installed("not known before it answers", None)

    def prepare(self) -> None:
        """Nothing."""

    def start(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""

    def ready(self) -> None:
        """The password is known. Raises ServerError."""
        if self.settings.user is not None and self.settings.password_variable not in os.environ:
            raise ServerError(
                f"the password of {self.settings.user} is not known: there is no {self.settings.password_variable}",
                hint=f"export {self.settings.password_variable}=...",
            )

    def ask(self, target: Any) -> None:
        """One NEGOTIATE, without a user: something speaks SMB2 there. Raises ServerError."""
        try:
            self._offer = _native.smb_probe(target.address, timeout_s=LOOK_S)
            self._address = target.address
        except _native.AnswerError as error:
            raise no_answer(self._url, "SMB", error) from error

    def check(self) -> None:
        """One more NEGOTIATE. Raises ServerError where nothing takes the connection any more."""
        if self._address is None:
            return
        try:
            _native.smb_probe(self._address, timeout_s=LOOK_S)
        except _native.AnswerError as error:
            if (ended := gone(self._url, "SMB", error)) is not None:
                raise ended from error

    def describe(self) -> Description:
        """What it said at the first look; SMB has no version of the program."""
        notes = [
            "Run by the user: its configuration, CPU time and memory are not known to us, nor what FLUSH does."
        ]
        if (said := self._offer) is not None:
            notes.insert(
                0,
                f"At the first look it chose SMB {said['dialect']}, signing "
                f"{'required' if said['signing_required'] else 'not required'}, reads of up to "
                f"{said['max_read_bytes']} and writes of up to {said['max_write_bytes']} bytes.",
            )
        return Description(
            server=self.name,
            version=f"SMB {self._offer['dialect']}" if self._offer else "unknown",
            command=[],
            settings={"url": self._url, **self.settings.model_dump()},
            notes=notes,
        )

    @property
    def url(self) -> str:
        """As given."""
        return self._url

    def access(self) -> Access:
        """The user's password comes from the environment, now."""
        user = self.settings.user
        password = os.environ.get(self.settings.password_variable) if user is not None else None
        return Access(self._url, user, password, tuple(self.settings.shares))

    def cpu_s(self) -> float | None:
        """Not known."""
        return None

    def rss_bytes(self) -> int | None:
        """Not known."""
        return None

    def pids(self) -> list[int]:
        """Not known."""
        return []

    def data_directories(self) -> list[Path]:
        """Not known."""
        return []

    def crashes(self) -> list[str]:
        """Its log is not ours to look at."""
        return []

    def requests_served(self) -> int | None:
        """Not known."""
        return None
