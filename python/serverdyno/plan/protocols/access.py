"""The data that a client needs to reach a server and log on. A driver provides them; a protocol uses them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Addressing = Literal["path", "virtual"]
"""Where requests name the bucket: at the beginning of the path, or in front of the host."""
AccessKey = tuple[str, str, str | None]
"""Access key ID, secret access key and session token of an object server."""
US_EAST_1 = "us-east-1"
"""Default region of object servers."""
SYSTEM, ANYBODY = "system", "anybody"
"""Certificates that TLS clients trust: certificates signed by the system's authorities, or any certificate."""


def authorities(pem: str) -> dict[str, str]:
    """Return the setting that trusts only the authorities in a PEM text."""
    return {"authorities": pem}


@dataclass(frozen=True, slots=True)
class Access:
    """The data that the generator needs to reach a running server.

    `network_namespace` is the file of the namespace to enter before connecting; None for the generator's own namespace.
    `trust` says which certificates clients accept over TLS: `SYSTEM`, `ANYBODY` or `authorities(...)`.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    shares: tuple[str, ...] = ()
    network_namespace: str | None = None
    trust: Any = SYSTEM
    secure_url: str | None = None
    """URL of the same server over TLS, if `url` is without TLS."""
    consent_token: str | None = field(default=None, repr=False)
    """Consent token of a server that dyno started; None for a user's server."""
    ticket: str | None = field(default=None, repr=False)
    """Credential cache with a Kerberos ticket for the server; see `servers/kerberos.py`."""
    identity: tuple[str, str] | None = field(default=None, repr=False)
    """Certificate and key, in PEM, that web clients present to a server that requests them."""
    access_key: AccessKey | None = field(default=None, repr=False)
    """Key that signs requests to an object server; None for anonymous requests."""
    region: str = US_EAST_1
    """Region named in signatures for an object server."""
    addressing: Addressing = "path"
    """Where requests to an object server name the bucket: see `Addressing`."""
    connect_to: str | None = None
    """IP address or socket path to connect to instead of the host of a web server's URL."""
