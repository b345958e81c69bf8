"""`external-smb`, the former name of `external` with an `smb://` URL.

Plans and experiments used it before `external` took the protocol from the URL.
"""

from __future__ import annotations

from typing import ClassVar

from serverdyno.plan.protocols.smb import SMB
from serverdyno.servers.base import Settings
from serverdyno.servers.external import External, ExternalSettings


class ExternalSmbSettings(ExternalSettings):
    protocol: ClassVar[str | None] = SMB.name


class ExternalSmb(External):
    name: ClassVar[str] = "external-smb"
    summary: ClassVar[str] = "your own file server (by its smb:// URL)"
    settings_type: ClassVar[type[Settings]] = ExternalSmbSettings
