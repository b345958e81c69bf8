"""What it takes to reach a server and to be let in. A driver says it, a protocol opens a target with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SYSTEM, ANYBODY = "system", "anybody"
"""Whose certificates count over TLS: those of the system's authorities, or any."""


def authorities(pem: str) -> dict[str, str]:
    """Return the trust in the authorities of a PEM text, and in nobody else."""
    return {"authorities": pem}


@dataclass(frozen=True, slots=True)
class Access:
    """What the generator needs to reach a server, once the server is ready.

    `network_namespace` is the file of the namespace that it enters before it connects; None: its own. `trust`: whose
    certificates count over TLS, `SYSTEM`, `ANYBODY` or `authorities(...)`.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    shares: tuple[str, ...] = ()
    network_namespace: str | None = None
    trust: Any = SYSTEM
    secure_url: str | None = None
    """Where the same server speaks TLS, of one whose `url` is in the clear."""
    consent_token: str | None = field(default=None, repr=False)
    """Of a server that we have started, and that consents: the token that this is for; None: the user's."""
    ticket: str | None = field(default=None, repr=False)
    """To log on by Kerberos: a credential cache with a ticket for the server; see `servers/kerberos.py`."""
    identity: tuple[str, str] | None = field(default=None, repr=False)
    """What web clients show to a server that asks for a certificate: certificate and key, in PEM."""
    connect_to: str | None = None
    """Where connections go in place of the host of a web server's URL: an IP address, or the path of a socket."""
