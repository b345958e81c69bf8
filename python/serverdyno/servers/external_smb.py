"""`external-smb`: `external` with an `smb://` URL, as plans and experiments called it before `external` knew its
protocol from the URL.
"""

from __future__ import annotations

from typing import ClassVar

from serverdyno.plan.protocols.smb import SMB
from serverdyno.servers.base import Settings
from serverdyno.servers.external import External, ExternalSettings


class ExternalSmbSettings(ExternalSettings):
    """As of `external`."""

    protocol: ClassVar[str | None] = SMB.name


class ExternalSmb(External):
    """A file server of the user's."""

    name: ClassVar[str] = "external-smb"
    summary: ClassVar[str] = "your own file server, by an smb:// URL"
    settings_type: ClassVar[type[Settings]] = ExternalSmbSettings
