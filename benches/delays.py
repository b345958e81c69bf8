"""Servers with delays, to test the measurement of response times: `python -m benches.delays varied|slow-accept`.

`varied` waits for a random time before each response, from a fixed seed. `slow-accept` accepts one connection after
another with hardly any backlog: the kernel drops the SYN of other connections, and their clients retry after a second.
The reference is not the intended delay, but the time measured on the network (`wire.py`).
"""

from __future__ import annotations

import asyncio
import random
import socket
import sys
import time

LOOPBACK = "127.0.0.1"
SEED = 20_040_601
LEAST_S, MEAN_ABOVE_S = 0.004, 0.010
PAUSE_S = 0.05
BODY = b"x" * 1024
END_OF_HEAD = b"\r\n\r\n"


def answer(*, close: bool) -> bytes:
    words = "close" if close else "keep-alive"
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\nConnection: {words}\r\n\r\n"
    return head.encode() + BODY


class Varied(asyncio.Protocol):
    delays = random.Random(SEED)

    def __init__(self) -> None:
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if not self._unread.endswith(END_OF_HEAD):
            return
        close = b"connection: close" in self._unread.lower()
        self._unread = b""
        delay_s = LEAST_S + self.delays.expovariate(1 / MEAN_ABOVE_S)
        asyncio.get_running_loop().call_later(delay_s, self._answer, close)

    def _answer(self, close: bool) -> None:
        self._transport.write(answer(close=close))
        if close:
            self._transport.close()


async def serve_varied() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Varied, LOOPBACK, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def serve_slow_accept() -> None:
    with socket.create_server((LOOPBACK, 0), backlog=2) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                received = b""
                while not received.endswith(END_OF_HEAD) and (data := connection.recv(4096)):
                    received += data
                connection.sendall(answer(close=True))
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    if sys.argv[1] == "varied":
        asyncio.run(serve_varied())
    else:
        serve_slow_accept()
