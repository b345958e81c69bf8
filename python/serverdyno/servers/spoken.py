"""The TLS and HTTP/2 settings that all drivers of web servers and `dyno reference http` share."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from serverdyno.plan.protocols.model import SettingsModel
from serverdyno.plan.protocols.tls import TlsVersion


class TlsSpoken(SettingsModel):
    """The TLS versions that a server supports, and whether clients may resume sessions."""

    tls_min_version: TlsVersion = Field(default="1.2", description="The oldest version of TLS.")
    tls_max_version: TlsVersion = Field(default="1.3", description="The newest version of TLS.")
    tls_resumption: bool = Field(
        default=True, description="Let clients resume earlier TLS sessions, with session tickets and a cache."
    )

    @model_validator(mode="after")
    def tls_versions_in_order(self) -> Self:
        """Refuse versions in the wrong order."""
        if self.tls_min_version > self.tls_max_version:
            raise ValueError("tls_min_version is above tls_max_version")
        return self


class Http2Spoken(SettingsModel):
    """Whether a server supports HTTP/2."""

    http2: bool = Field(
        default=False,
        description="Also speak HTTP/2: by ALPN over TLS, and with prior knowledge without TLS.",
    )
