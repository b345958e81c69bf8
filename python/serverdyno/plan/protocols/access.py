"""What a client needs to reach a server and log on. A driver provides it, and a protocol opens a target with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SYSTEM, ANYBODY = "system", "anybody"
"""Whose certificates TLS clients trust: those of the system's authorities, or anybody's."""


def authorities(pem: str) -> dict[str, str]:
    """Return the setting that trusts only the authorities of a PEM text."""
    return {"authorities": pem}


@dataclass(frozen=True, slots=True)
class Access:
    """The data that the generator needs to reach a running server.

    `network_namespace` is the file of the namespace to enter before connecting; None: its own. `trust` is whose
    certificates count over TLS: `SYSTEM`, `ANYBODY` or `authorities(...)`.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    shares: tuple[str, ...] = ()
    network_namespace: str | None = None
    trust: Any = SYSTEM
    secure_url: str | None = None
    """URL of the same server over TLS, if `url` is in the clear."""
    consent_token: str | None = field(default=None, repr=False)
    """Token by which a server that we started consents to load; None for a user's server."""
    ticket: str | None = field(default=None, repr=False)
    """Credential cache with a Kerberos ticket for the server; see `servers/kerberos.py`."""
    identity: tuple[str, str] | None = field(default=None, repr=False)
    """Certificate and key, in PEM, that web clients show to a server that asks for them."""
    connect_to: str | None = None
    """IP address or socket path to connect to instead of the host of a web server's URL."""
