"""SMB 2 and 3: settings, how clients use them, and how leftover files are removed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args
from urllib.parse import unquote, urlsplit

from pydantic import Field, model_validator

from serverdyno import _native
from serverdyno.errors import refuse_contradictions
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.files import CLIENTS_DIRECTORY, FILES
from serverdyno.plan.protocols.look import Look
from serverdyno.plan.protocols.model import SectionModel

Dialect = Literal["2.0.2", "2.1", "3.0", "3.0.2", "3.1.1"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


def wrong_dialects(least: Dialect, most: Dialect, *, encrypts: bool) -> dict[str, bool]:
    """Return each possible contradiction of a client's or server's dialects, and whether it applies."""
    return {
        "min_dialect is above max_dialect": DIALECTS.index(least) > DIALECTS.index(most),
        "encryption requires a max_dialect of 3.0 or later": (
            encrypts and DIALECTS.index(most) < DIALECTS.index("3.0")
        ),
    }


class SmbSettings(SectionModel):
    """How a client uses SMB.

    For signing and encryption, "off" means never, and a server that requires it is refused; "auto" means only if the
    server requires it.
    """

    min_dialect: Dialect = Field(default="2.0.2", description="Oldest dialect that a client offers.")
    max_dialect: Dialect = Field(default="3.1.1", description="Newest dialect that a client offers.")
    signing: Literal["off", "auto", "required"] = Field(
        default="auto", description="off: never; auto: if the server requires it; required: always."
    )
    encryption: Literal["off", "auto", "required"] = Field(
        default="auto",
        description="off: never; auto: if the server or the share requires it; required: always.",
    )
    durable_handles: bool = Field(
        default=False,
        description="Ask for handles that outlive a lost connection: durable handles, and persistent "
        "handles if the share is continuously available. The client then reconnects and "
        "continues with its open files.",
    )
    channels: int = Field(
        default=1,
        ge=1,
        le=32,
        description="Number of connections per client session (SMB 3 multichannel), over which reads and writes are "
        "spread. Requests without an answer on a lost connection are sent again over another. "
        "Servers without multichannel are refused.",
    )

    @model_validator(mode="after")
    def makes_sense_together(self) -> Self:
        """Refuse all contradictions at once."""
        wrong = wrong_dialects(self.min_dialect, self.max_dialect, encrypts=self.encryption == "required")
        wrong["more than one channel requires a max_dialect of 3.0 or later"] = (
            self.channels > 1 and DIALECTS.index(self.max_dialect) < DIALECTS.index("3.0")
        )
        refuse_contradictions(wrong)
        return self


class FileLook:
    """A NEGOTIATE request without a log-on, which shows whether the server speaks SMB2."""

    has_shares = True
    port: int | None = 445
    directory: Path | None = None

    def __init__(self) -> None:
        self._offer: _native.Offer | None = None

    def ask(self, target: Any) -> None:
        """Query the server once. Raises AnswerError."""
        offer = _native.smb_probe(target.address, timeout_s=target.timeout_s)
        self._offer = self._offer or offer

    def version(self) -> str | None:
        """Return the dialect, because SMB does not report the version of the server's program."""
        return f"SMB {self._offer['dialect']}" if self._offer else None

    def notes(self) -> list[str]:
        known = ["What FLUSH does there is unknown."]
        if (said := self._offer) is None:
            return known
        return [
            f"In the first session, the server chose SMB {said['dialect']}, signing "
            f"{'required' if said['signing_required'] else 'not required'}, reads of up to "
            f"{said['max_read_bytes']} and writes of up to {said['max_write_bytes']} bytes. It offers "
            f"{'leases of directories' if said['directory_leases'] else 'no leases of directories'}.",
            *known,
        ]


class Smb(Protocol[SmbSettings]):
    name = "smb"
    title = "SMB"
    schemes = ("smb",)
    example_url = "smb://127.0.0.1:1445/share"
    no_parameters = (
        "a suite sets the dialect (max_dialect in [smb]); the user is an option (--user) or a setting (user); "
        "write ? in a name as %3F"
    )
    work = FILES
    section = "smb"
    settings_type = SmbSettings
    has_sessions = True
    clients_directory = CLIENTS_DIRECTORY

    def target_section(self, access: Access, settings: SmbSettings) -> dict[str, Any]:
        """Return the target with its shares, its user and the requirements on a session."""
        return {
            "url": access.url,
            "shares": list(access.shares),
            "user": access.user,
            "network_namespace": access.network_namespace,
            **settings.model_dump(),
        }

    def server_problem(
        self, settings: SmbSettings, work_settings: Any, url: str | None, server_settings: Mapping[str, Any]
    ) -> str | None:
        """Return a problem if neither the URL of a user's server nor its settings name a share."""
        del settings, work_settings
        if url is None or server_settings.get("shares") or share_of(url):
            return None
        return "names no share: write smb://HOST/SHARE (`smbclient -L //HOST` lists them), or set shares in a plan"

    def described(self, settings: SmbSettings, timeout: str) -> str:
        """Describe the dialects, signing and encryption that the client requests."""
        return (
            f"Clients offer SMB {settings.min_dialect} to {settings.max_dialect}, signing {settings.signing}, "
            f"encryption {settings.encryption}{', durable handles' if settings.durable_handles else ''}; one session "
            f"per client{f', of {settings.channels} connections' if settings.channels > 1 else ''}; timeout {timeout}."
        )

    def remove_command(self, access: Access, share: str, directory: str) -> str:
        """Return an smbclient command. It asks for the password or uses the user's ticket."""
        parts = urlsplit(access.url)
        who = "-N" if access.user is None else f"-U {shlex.quote(access.user)}"
        if access.ticket is not None:
            who = "--use-kerberos=required"
        port = f" -p {parts.port}" if parts.port else ""
        unc = shlex.quote(f"//{parts.hostname}/{share}")
        removal = shlex.quote(f'deltree "{directory}"')
        return f"smbclient {unc}{port} {who} -c {removal}"

    def look(self, url: str) -> Look:
        del url
        return FileLook()


def share_of(url: str) -> str:
    """Return the share that a URL names, or an empty text."""
    return unquote(urlsplit(url).path.strip("/").partition("/")[0])


SMB = Smb()
