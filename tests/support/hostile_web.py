"""Web servers that break the rules, by name: what each sends, and the expected message.

`test_hostile_web.py` loads them all.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LATE = "the response did not end in time"
CLOSED = "the connection was closed before the response was complete"
RESET = "the connection was reset"
LARGE_HEAD = "the response's head is larger than dyno's limit"
NOT_HTTP = "the response's head is not HTTP"
CHUNKS = "the response's chunked coding is broken"
LARGE_BODY = "the response's body is larger than dyno's limit"
EXCESS = "more bytes arrived than the response declared"
NO_DOCUMENT = "can't serve the workload: the server answered with a status that is not a success"
ANSWERED = None  # the first check accepts it; its faults under load are counted there

DRIP_S = 0.05
PATIENCE_S = 60.0  # per connection; no test should need all of it
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

Sends = Callable[[socket.socket], None]


def says(*parts: bytes) -> Sends:
    """Send all parts and close."""

    def send(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)

    return send


def drips(start: bytes, part: bytes) -> Sends:
    """Send `start`, and then `part` byte by byte, again and again."""

    def send(connection: socket.socket) -> None:
        connection.sendall(start)
        for byte in itertools.cycle(part):
            connection.sendall(bytes([byte]))
            time.sleep(DRIP_S)

    return send


def floods(start: bytes, part: bytes) -> Sends:
    """Send `start`, and then `part` again and again as fast as it is read."""

    def send(connection: socket.socket) -> None:
        connection.sendall(start)
        # All servers share one interpreter: many small calls of one would delay the others.
        several = part * max(1, 4096 // len(part))
        while True:
            connection.sendall(several)

    return send


def stays_silent(start: bytes = b"") -> Sends:
    """Send `start` and nothing more, and keep the connection."""

    def send(connection: socket.socket) -> None:
        connection.sendall(start)
        connection.recv(1)

    return send


def resets(start: bytes = b"") -> Sends:
    """Send `start` and reset the connection."""

    def send(connection: socket.socket) -> None:
        connection.sendall(start)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return send


MIB = b"a" * (1 << 20)
KINDS: dict[str, tuple[Sends, str | None]] = {
    # Servers that send nothing, or send too slowly.
    "silent": (stays_silent(), LATE),
    "silent-after-status": (stays_silent(OK), LATE),
    "silent-after-head": (stays_silent(OK + b"Content-Length: 5\r\n\r\n"), LATE),
    "silent-after-interim": (stays_silent(b"HTTP/1.1 102 Processing\r\n\r\n"), LATE),
    "silent-after-chunk": (stays_silent(CHUNKED + b"3\r\nabc\r\n"), LATE),
    "drips-status-line": (drips(b"", b"HTTP/1.1 200 " + b"O" * 9999), LATE),
    "drips-head": (drips(OK, b"A: b\r\n"), LATE),
    "drips-body": (drips(OK + b"Content-Length: 9999\r\n\r\n", b"a"), LATE),
    "drips-body-until-close": (drips(OK + b"\r\n", b"a"), LATE),
    "drips-chunk-size": (drips(CHUNKED, b"0" * 4000), LATE),
    "drips-chunk-extension": (drips(CHUNKED + b"3;", b"a"), LATE),
    "drips-chunk": (drips(CHUNKED + b"fff\r\n", b"a"), LATE),
    "drips-chunks": (drips(CHUNKED, b"1\r\na\r\n"), LATE),
    "drips-trailers": (drips(CHUNKED + b"0\r\n", b"A: b\r\n"), LATE),
    "drips-interim": (drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), LATE),
    # Servers that end too early.
    "closes": (says(), CLOSED),
    "closes-in-status": (says(b"HTTP/1.1 2"), CLOSED),
    "closes-in-head": (says(OK + b"Server: a\r\n"), CLOSED),
    "closes-in-body": (says(OK + b"Content-Length: 5\r\n\r\nabc"), CLOSED),
    "closes-in-chunk": (says(CHUNKED + b"5\r\nabc"), CLOSED),
    "closes-before-last-chunk": (says(CHUNKED + b"3\r\nabc\r\n"), CLOSED),
    "closes-in-trailers": (says(CHUNKED + b"0\r\nA: b\r\n"), CLOSED),
    "resets": (resets(), RESET),
    # Servers that never end.
    "floods-status-line": (floods(b"HTTP/1.1 200 ", MIB), LARGE_HEAD),
    "floods-header-line": (floods(OK + b"A: ", MIB), LARGE_HEAD),
    "floods-headers": (floods(OK, b"A: b\r\n"), LARGE_HEAD),
    "hundred-and-one-headers": (says(OK + b"A: b\r\n" * 101 + b"Content-Length: 0\r\n\r\n"), ANSWERED),
    "floods-blank-lines": (floods(b"", b"\r\n"), LARGE_HEAD),
    "floods-interim": (floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), LARGE_HEAD),
    "floods-early-hints": (floods(b"", b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"), LARGE_HEAD),
    "floods-chunk-size": (floods(CHUNKED, b"0" * 1000), CHUNKS),
    "floods-chunk-extension": (floods(CHUNKED + b"3;", MIB), CHUNKS),
    "floods-trailers": (floods(CHUNKED + b"0\r\n", b"A: b\r\n"), CHUNKS),
    # Servers of another protocol.
    "not-http-ssh": (stays_silent(b"SSH-2.0-OpenSSH_9.2p1\r\n"), NOT_HTTP),
    "not-http-smtp": (stays_silent(b"220 mail.example ESMTP\r\n"), NOT_HTTP),
    "not-http-tls": (says(bytes([21, 3, 1, 0, 2, 2, 22])), NOT_HTTP),
    "not-http-2": (says(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]) + bytes(6)), NOT_HTTP),
    "not-http-nulls": (floods(b"", bytes(1 << 16)), NOT_HTTP),
    "not-http-0.9": (says(b"<html>an answer without a head</html>"), NOT_HTTP),
    "not-http-version": (says(b"HTTP/9.9 200 OK\r\n\r\n"), NOT_HTTP),
    "not-http-status": (says(b"HTTP/1.1 abc OK\r\n\r\n"), NOT_HTTP),
    "status-099": (says(b"HTTP/1.1 099 No\r\n\r\n"), NOT_HTTP),
    "switches-protocols": (says(b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n"), NOT_HTTP),
    "header-without-colon": (says(OK + b"nonsense\r\n\r\n"), NOT_HTTP),
    "header-with-escape": (says(OK + b"A: \x1b[2J\x00\r\n\r\n"), NOT_HTTP),
    # Invalid lengths.
    "length-2-to-63": (stays_silent(OK + b"Content-Length: 9223372036854775808\r\n\r\n"), LARGE_BODY),
    "length-2-to-64": (stays_silent(OK + b"Content-Length: 18446744073709551616\r\n\r\n"), NOT_HTTP),
    "length-minus-1": (stays_silent(OK + b"Content-Length: -1\r\n\r\n"), NOT_HTTP),
    "two-lengths": (says(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), NOT_HTTP),
    "length-and-chunked": (
        says(OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        NOT_HTTP,
    ),
    "unknown-coding": (
        says(OK + b"Transfer-Encoding: gzip\r\n\r\n"),
        "an unsupported transfer coding",
    ),
    "length-too-short": (says(OK + b"Content-Length: 1\r\n\r\nabc"), EXCESS),
    "two-answers": (says((OK + b"Content-Length: 1\r\n\r\na") * 2), EXCESS),
    "chunk-minus-1": (floods(CHUNKED + b"-1\r\n", MIB), CHUNKS),
    "chunk-minus-5": (says(CHUNKED + b"-5\r\nabcde\r\n0\r\n\r\n"), CHUNKS),
    "chunk-0x": (says(CHUNKED + b"0x5\r\nabcde\r\n0\r\n\r\n"), CHUNKS),
    "chunk-2-to-63": (stays_silent(CHUNKED + b"8000000000000000\r\n"), LARGE_BODY),
    "chunk-2-to-68": (stays_silent(CHUNKED + b"fffffffffffffffff\r\n"), CHUNKS),
    "chunk-without-end": (says(CHUNKED + b"3\r\nabcdef\r\n0\r\n\r\n"), CHUNKS),
    "trailer-without-name": (says(CHUNKED + b"0\r\n: b\r\n\r\n"), CHUNKS),
    # HTTP without the document.
    "status-500": (says(b"HTTP/1.1 500 Error\r\nContent-Length: 0\r\n\r\n"), NO_DOCUMENT),
    "redirects-to-itself": (
        says(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
        NO_DOCUMENT,
    ),
    # Unusual but valid answers.
    "floods-body": (floods(OK + b"\r\n", MIB), LATE),
    "floods-chunks": (floods(CHUNKED, b"10000\r\n" + b"a" * 65536 + b"\r\n"), LATE),
    # More data than any machine reads before the check ends.
    "terabyte": (floods(OK + b"Content-Length: 1099511627776\r\n\r\n", MIB), LATE),
}


@contextmanager
def hostile_servers() -> Iterator[dict[str, str]]:
    """Yield the URL of each kind of server, while all of them listen."""
    with contextlib.ExitStack() as listening:
        urls = {}
        for name, (sends, _) in KINDS.items():
            listener = listening.enter_context(socket.create_server(("127.0.0.1", 0)))
            urls[name] = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            threading.Thread(target=_serve, args=(listener, sends), daemon=True).start()
        yield urls


def _serve(listener: socket.socket, sends: Sends) -> None:
    with contextlib.suppress(OSError):  # the listener was closed
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection, sends), daemon=True).start()


def _answer(connection: socket.socket, sends: Sends) -> None:
    connection.settimeout(PATIENCE_S)
    with connection, contextlib.suppress(OSError):  # the client has closed
        connection.recv(65536)
        sends(connection)
