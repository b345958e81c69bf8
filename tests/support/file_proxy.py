"""A proxy in front of a file server that records when each request arrives."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SMB2 = b"\xfeSMB"
LAST_FRAGMENT = 1 << 31


def smb_requests(message: bytes) -> int:
    """Return the number of requests in an SMB2 message: a compound has several."""
    assert message.startswith(SMB2), message[:16]
    count, at = 1, 0
    while following := struct.unpack_from("<I", message, at + 20)[0]:
        count, at = count + 1, at + following
    return count


def nfs_requests(message: bytes) -> int:
    """Return 1 for a call, and 0 for a reply to a server's call."""
    return int(struct.unpack_from(">I", message, 4)[0] == 0)


class _Counting:
    """Counts the requests of one connection. Both protocols put a length of four bytes before each message."""

    def __init__(self, requests_of: Callable[[bytes], int], came: list[float]) -> None:
        self._requests_of, self._came, self._data = requests_of, came, b""

    def add(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4:
            end = 4 + (struct.unpack_from(">I", self._data)[0] & ~LAST_FRAGMENT)
            if len(self._data) < end:
                return
            message, self._data = self._data[4:end], self._data[end:]
            self._came += [time.monotonic()] * self._requests_of(message)


@contextmanager
def file_proxy(port: int, requests_of: Callable[[bytes], int]) -> Iterator[tuple[int, list[float]]]:
    """Forward connections to a port of loopback. Yield the proxy's port and the arrival time of each request."""
    came: list[float] = []

    def pass_on(source: socket.socket, sink: socket.socket, counting: _Counting | None) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if counting is not None:
                    counting.add(data)
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for ends in (
                    (client, server, _Counting(requests_of, came)),
                    (server, client, None),
                ):
                    threading.Thread(target=pass_on, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1]), came
        listening.shutdown(socket.SHUT_RDWR)
