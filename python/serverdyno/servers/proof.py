"""Proof, before any load, that what answers on a port is the server that we started, and nobody else.

Two things must hold: every socket that takes connections to its port and address is held by our processes
(with SO_REUSEPORT a stranger could share it and the kernel would deal connections out to both), and an answer
contains a secret that only the server's private directory holds.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from serverdyno import _native
from serverdyno.plan.protocols.access import SYSTEM, Access
from serverdyno.plan.protocols.http import HTTP, HttpSettings

LOOPBACK = "127.0.0.1"
# Listeners on these addresses accept connections to any IPv4 address. "::" may be IPv6 only, but is included anyway.
TAKES_ALL = {"0.0.0.0", "::"}
REQUEST_TIMEOUT_S = 5.0
OWNER_ATTEMPTS = 3
LISTEN = "0A"  # TCP_LISTEN of the kernel's include/net/tcp_states.h, as /proc/net/tcp writes it
BODY_LIMIT_BYTES = 65536
LOWEST_PORT, PORTS_TRIED = 10_000, 20
_CONNECTIONS_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket. `pid`: None if held by a process that we can't inspect."""

    address: str
    pid: int | None

    def __str__(self) -> str:
        return f"{self.address} (process {self.pid or 'unknown'})"


def listeners(port: int, inside: int | None = None, host: str = LOOPBACK) -> list[Listener]:
    """Return every listening socket that takes connections to `host`:`port`.

    In this network namespace, or in that of the process `inside`. A socket closed during the look-up has no owner:
    look again before reporting it.
    """
    for _ in range(OWNER_ATTEMPTS):
        found = _listeners_now(port, inside, TAKES_ALL | {host, f"::ffff:{host}"})
        if all(listener.pid is not None for listener in found):
            break
    return found


def _listeners_now(port: int, inside: int | None, takes: set[str]) -> list[Listener]:
    sockets = [each for each in _listening_sockets(port, inside) if each[0] in takes]
    owners = _owners({inode for _, inode in sockets})
    return [Listener(ip, pid) for ip, inode in sockets for pid in owners.get(inode, [None])]


def _listening_sockets(port: int, inside: int | None) -> list[tuple[str, str]]:
    """Return the address and inode of each socket. The tables may have 30,000 closed connections."""
    # proc(5): number, local address, remote address, state, queues, timer, retransmits, user, timeout, inode
    line = re.compile(rf"^ *\d+: (\w+):{port:04X} \w+:\w+ {LISTEN}" + r"(?: +\S+){5} +(\d+)", re.MULTILINE)
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # the process has ended, or there is no IPv6
            text = Path(f"/proc/{inside or 'self'}/net/{table}").read_text()
            found += [(_ip(address), inode) for address, inode in line.findall(text)]
    return found


def _owners(inodes: set[str]) -> dict[str, list[int | None]]:
    """Return the processes that hold each inode's socket."""
    owners: dict[str, list[int | None]] = {}
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for pid in psutil.pids() if inodes else ():
        with contextlib.suppress(OSError):
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if (inode := wanted.get(str(file.readlink()))) is not None:
                        owners.setdefault(inode, []).append(pid)
    return owners


def _ip(hexadecimal: str) -> str:
    """Parse an address in /proc/net/tcp: words of 32 bits in the machine's byte order."""
    words = (int(hexadecimal[at : at + 8], 16) for at in range(0, len(hexadecimal), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def free_port(host: str = LOOPBACK) -> int:
    """Return a free TCP port of an address, if possible one that the kernel gives to no connection.

    It is not reserved: the proof comes later. Raises OSError.
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

    `trust`: trusted certificates, over TLS; None without TLS. `consent_token`: of `host`, outside loopback.
    """
    scheme = "http" if trust is None else "https"
    access = Access(f"{scheme}://{host}:{port}/", trust=trust or SYSTEM)
    section = HTTP.target_section(access, HttpSettings())
    target = _native.Target.open("http", json.dumps(section), consent_token=consent_token)
    return _native.http_get(target, path, timeout_s=REQUEST_TIMEOUT_S, most_bytes=BODY_LIMIT_BYTES)


def offer(port: int, network_namespace: str | None = None, host: str = LOOPBACK) -> _native.Offer:
    """Return what the SMB server at an address offers, in the given network namespace. Raises AnswerError."""
    return _native.smb_probe(
        f"{host}:{port}", timeout_s=REQUEST_TIMEOUT_S, network_namespace=network_namespace
    )
