"""The first question to an SMB server, as a look whether one is there: SMB2 NEGOTIATE, and nothing after it.

It takes no user and changes nothing. Not a client: load and everything after the first answer is the data plane's.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import struct
import threading
from dataclasses import dataclass

CLONE_NEWNET = 0x40000000  # linux/sched.h
TIMEOUT_S = 5.0
ANSWER_LIMIT_BYTES = 65536
# MS-SMB2 2.2.1.2 (header), 2.2.3 (request), 2.2.4 (response).
HEADER = struct.Struct("<4sHHIHHIIQIIQ16s")
REQUEST = struct.Struct("<HHHHI16sIHH")
RESPONSE = struct.Struct("<HHHH16sIIII")
DIALECTS = {0x0202: "2.0.2", 0x0210: "2.1", 0x0300: "3.0", 0x0302: "3.0.2", 0x0311: "3.1.1"}
SIGNING_ENABLED, SIGNING_REQUIRED = 1, 2
PREAUTH_INTEGRITY, SHA_512, SALT_BYTES = 1, 1, 32  # 2.2.3.1.1: 3.1.1 can't be offered without
RESPONSE_FLAG = 1


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What the server said of itself."""

    dialect: str
    signing_required: bool
    server_guid: bytes
    max_read_bytes: int
    max_write_bytes: int


def negotiate(host: str, port: int, network_namespace: str | None = None) -> Negotiated:
    """Asks the server at `host`:`port`, from inside the namespace of that file.

    Raises OSError; ConnectionError where what answers does not speak SMB2.
    """
    with _socket(host, port, network_namespace) as connection:
        message = _request()
        connection.sendall(len(message).to_bytes(4, "big") + message)
        length = int.from_bytes(_received(connection, 4), "big")
        if length > ANSWER_LIMIT_BYTES:
            raise ConnectionError("not an answer of an SMB server")
        return _parsed(_received(connection, length))


def _socket(host: str, port: int, network_namespace: str | None) -> socket.socket:
    """A connection. A thread of its own enters the namespace, so that nothing else of us does."""
    if network_namespace is None:
        return socket.create_connection((host, port), timeout=TIMEOUT_S)
    made: list[socket.socket | OSError] = []

    def connect() -> None:
        try:
            _enter(network_namespace)
            made.append(socket.create_connection((host, port), timeout=TIMEOUT_S))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _enter(network_namespace: str) -> None:
    """The calling thread alone. Raises OSError."""
    namespace = os.open(network_namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {network_namespace}")
    finally:
        os.close(namespace)


def _request() -> bytes:
    header = HEADER.pack(b"\xfeSMB", 64, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, bytes(16))
    dialects = b"".join(number.to_bytes(2, "little") for number in DIALECTS)
    padding = bytes(-(HEADER.size + REQUEST.size + len(dialects)) % 8)
    contexts_at = HEADER.size + REQUEST.size + len(dialects) + len(padding)
    request = REQUEST.pack(
        36, len(DIALECTS), SIGNING_ENABLED, 0, 0, secrets.token_bytes(16), contexts_at, 1, 0
    )
    preauth = struct.pack("<HHH", 1, SALT_BYTES, SHA_512) + secrets.token_bytes(SALT_BYTES)
    context = struct.pack("<HHI", PREAUTH_INTEGRITY, len(preauth), 0) + preauth
    return header + request + dialects + padding + context


def _received(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionError("the connection was closed before an answer")
        data += part
    return data


def _parsed(message: bytes) -> Negotiated:
    if len(message) < HEADER.size + RESPONSE.size or not message.startswith(b"\xfeSMB"):
        raise ConnectionError("not an answer of an SMB2 server")
    _, _, _, status, command, _, flags, *_ = HEADER.unpack_from(message)
    if command != 0 or not flags & RESPONSE_FLAG or status != 0:
        raise ConnectionError(f"NEGOTIATE was answered with status {status:#010x}")
    _, security, dialect, _, guid, _, _, max_read, max_write = RESPONSE.unpack_from(message, HEADER.size)
    return Negotiated(
        DIALECTS.get(dialect, f"{dialect:#06x}"), bool(security & SIGNING_REQUIRED), guid, max_read, max_write
    )
