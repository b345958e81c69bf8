"""Proof, before any load, that what answers on a port is the server that we started, and nobody else.

Two things must hold: every socket that takes connections to the port on 127.0.0.1 is held by our processes
(with SO_REUSEPORT a stranger could share it and the kernel would deal connections out to both), and an answer
contains a secret that only the server's private directory holds.
"""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass

import psutil

LOOPBACK = "127.0.0.1"
# Addresses whose listeners take connections to 127.0.0.1. "::" may be IPv6 only; it is counted all the same.
TAKES_LOOPBACK = {LOOPBACK, "0.0.0.0", "::", "::ffff:127.0.0.1"}
REQUEST_TIMEOUT_S = 5.0
OWNER_ATTEMPTS = 3
BODY_LIMIT_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens. `pid` None: held by a process that we can't look into."""

    address: str
    pid: int | None

    def __str__(self) -> str:
        return f"{self.address} (process {self.pid or 'unknown'})"


def listeners(port: int) -> list[Listener]:
    """Every listening socket of this network namespace that takes connections to 127.0.0.1:`port`.

    Owners are looked up before sockets, so a socket made in between has none: look again before saying so.
    """
    found = _listeners_now(port)
    for _ in range(OWNER_ATTEMPTS):
        if all(listener.pid is not None for listener in found):
            break
        found = _listeners_now(port)
    return found


def _listeners_now(port: int) -> list[Listener]:
    return [
        Listener(socket_.laddr.ip, socket_.pid)
        for socket_ in psutil.net_connections(kind="tcp")
        if socket_.status == psutil.CONN_LISTEN
        and socket_.laddr.port == port
        and socket_.laddr.ip in TAKES_LOOPBACK
    ]


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody has at this moment. It is not reserved: the proof comes later."""
    with socket.socket() as candidate:
        candidate.bind((LOOPBACK, 0))
        port: int = candidate.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: int
    server: str | None
    body: bytes


def get(host: str, port: int, path: str) -> Answer:
    """One plain GET on a connection of its own; at most the first 64 KiB of the body. Raises OSError or
    HTTPException.
    """
    connection = http.client.HTTPConnection(host, port, timeout=REQUEST_TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return Answer(response.status, response.getheader("Server"), response.read(BODY_LIMIT_BYTES))
    finally:
        connection.close()
