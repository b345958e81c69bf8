"""Proof, before any load, that only the server that dyno started answers on a port.

Two conditions must hold. Every socket that accepts connections to the port and address belongs to the server's
processes: with SO_REUSEPORT, another process could share the port, and the kernel would distribute connections to
both. An answer contains a secret that exists only in the server's private directory.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from serverdyno import _native
from serverdyno.plan.protocols.access import SYSTEM, Access
from serverdyno.plan.protocols.http import HTTP, HttpSettings
from serverdyno.probes.listening import listening_sockets, owners

LOOPBACK = "127.0.0.1"
# Listeners on these addresses accept connections to any IPv4 address. A listener on "::" may accept only
# IPv6, but is included anyway.
TAKES_ALL = {"0.0.0.0", "::"}
REQUEST_TIMEOUT_S = 5.0
OWNER_ATTEMPTS = 3
BODY_LIMIT_BYTES = 65536
LOWEST_PORT, PORTS_TRIED = 10_000, 20
_CONNECTIONS_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket. `pid` is None if this user may not inspect the process that holds the socket."""

    address: str
    pid: int | None

    def __str__(self) -> str:
        return f"{self.address} (process {self.pid or 'unknown'})"


def listeners(port: int, inside: int | None = None, host: str = LOOPBACK) -> list[Listener]:
    """Return every listening socket that accepts connections to `host`:`port`.

    The sockets belong to this network namespace, or to the namespace of the process `inside`. A socket that is closed
    during the look-up has no owner, so the look-up is repeated.
    """
    for _ in range(OWNER_ATTEMPTS):
        found = _listeners_now(port, inside, TAKES_ALL | {host, f"::ffff:{host}"})
        if all(listener.pid is not None for listener in found):
            break
    return found


def _listeners_now(port: int, inside: int | None, takes: set[str]) -> list[Listener]:
    sockets = [each for each in listening_sockets(port, inside) if each[0] in takes]
    holders = owners({inode for _, inode in sockets})
    return [Listener(ip, pid) for ip, inode in sockets for pid in holders.get(inode, [None])]


def free_port(host: str = LOOPBACK) -> int:
    """Return a free TCP port of an address, if possible outside the range of ephemeral ports.

    The port is not reserved; the later proof detects another process on it. Raises OSError.
    """
    of_connections = int(_CONNECTIONS_PORTS.read_text().split()[0])
    below = range(LOWEST_PORT, of_connections)
    for wanted in random.sample(below, min(len(below), PORTS_TRIED)):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind((host, wanted))
            return wanted
    with socket.socket() as candidate:
        candidate.bind((host, 0))
        port: int = candidate.getsockname()[1]
        return port


def get(
    port: int,
    path: str,
    trust: Mapping[str, str] | None = None,
    host: str = LOOPBACK,
    consent_token: str | None = None,
) -> _native.Answer:
    """Send one plain GET and return at most the first 64 KiB of the body. Raises AnswerError.

    `trust` selects the trusted certificates for TLS; None for plain HTTP. `consent_token` is the consent token of
    `host`, which is needed outside loopback.
    """
    scheme = "http" if trust is None else "https"
    access = Access(f"{scheme}://{host}:{port}/", trust=trust or SYSTEM)
    section = HTTP.target_section(access, HttpSettings())
    target = _native.Target.open("http", json.dumps(section), consent_token=consent_token)
    return _native.http_get(target, path, timeout_s=REQUEST_TIMEOUT_S, most_bytes=BODY_LIMIT_BYTES)


def offer(port: int, network_namespace: str | None = None, host: str = LOOPBACK) -> _native.Offer:
    """Return the NEGOTIATE response of the SMB server at an address in a network namespace. Raises AnswerError."""
    return _native.smb_probe(
        f"{host}:{port}", timeout_s=REQUEST_TIMEOUT_S, network_namespace=network_namespace
    )
