"""TLS of the web servers that dyno starts: common settings of all drivers, and certificates issued at each start.

Each start has its own authority, whose key is never written to disk: only the clients of the run trust its
certificates. The drivers configure their servers; `plan/protocols/tls.py` defines the settings of clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from serverdyno import _native
from serverdyno.plan.protocols.access import authorities
from serverdyno.servers.base import LocalSettings
from serverdyno.servers.proof import LOOPBACK
from serverdyno.servers.spoken import TlsSpoken

CERTIFICATE, KEY = "server.crt", "server.key"
NAMES = [LOOPBACK, "localhost"]
SESSION_CACHE_BYTES = 16 << 20
SESSION_LIFETIME_S = 300  # the default of nginx and Apache


class TlsServerSettings(TlsSpoken, LocalSettings):
    """TLS settings, the same for every server."""

    tls: Literal["off", "ecdsa-p256", "rsa-2048"] = Field(
        default="off",
        description="Speak TLS, with a key of this kind and a certificate that are created at every start. "
        "On Debian, lighttpd also needs the package lighttpd-mod-openssl.",
    )
    also_clear: bool = Field(
        default=False,
        description="With `tls`: also speak plain HTTP, with TLS on a second port. E-commerce suites need "
        "both.",
    )

    @model_validator(mode="after")
    def two_ports_need_tls(self) -> Self:
        """Refuse a second port without TLS."""
        if self.also_clear and self.tls == "off":
            raise ValueError('also_clear requires tls = "ecdsa-p256" or "rsa-2048"')
        return self

    @property
    def over_tls(self) -> bool:
        """Return whether the server uses TLS on one of its ports."""
        return self.tls != "off"

    @property
    def tls_versions(self) -> list[str]:
        """Return all TLS versions that the server supports, oldest first."""
        return [
            version for version in ("1.2", "1.3") if self.tls_min_version <= version <= self.tls_max_version
        ]


@dataclass(frozen=True, slots=True)
class Identity:
    """A server's certificate and key, and their authority."""

    authority_pem: str
    certificate_pem: str
    key_pem: str

    @classmethod
    def make(cls, key: str, host: str = LOOPBACK) -> Identity:
        """Issue a certificate for loopback and the listening address, by a new authority."""
        authority = _native.Authority()
        certificate, private = authority.certify(key, [*dict.fromkeys([*NAMES, host])])
        return cls(authority.pem, certificate, private)

    def write(self, directory: Path) -> None:
        """Write certificate and key to a private directory. Only this user can read the key."""
        (directory / CERTIFICATE).write_text(self.certificate_pem)
        (directory / KEY).touch(mode=0o600)
        (directory / KEY).write_text(self.key_pem)

    @property
    def trust(self) -> dict[str, str]:
        return authorities(self.authority_pem)
