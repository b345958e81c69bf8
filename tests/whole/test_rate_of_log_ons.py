"""The bound of the rate holds for log-ons of Bonnie, too: a proxy notes when each connection comes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from support.dyno_process import Home
from support.reference_servers import start_smb

SEEKERS, RATE = 4, 5


@contextmanager
def noting(port: int, came: list[float]) -> Iterator[int]:
    """Pass connections on to a port, and note when each comes."""

    def pass_on(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                came.append(time.monotonic())
                server = socket.create_connection(("127.0.0.1", port))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=pass_on, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)


def test_log_ons_keep_the_bound_of_the_rate(home: Home) -> None:
    came: list[float] = []
    server = start_smb()
    try:
        with noting(server.port, came) as port:
            options = ("-s", "1", "--chunk", "1048576", "--seeks", f"{SEEKERS}", "--seekers", f"{SEEKERS}")
            url = f"smb://127.0.0.1:{port}/volume1"
            done = home.here("bonnie", "-d", url, *options, "--max-rate", f"{RATE}")
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    # The look before the load opens all sessions at once. Those of the seekers come after the sequential phases.
    of_seekers = [moment for moment in came if moment - came[0] > 2 / RATE][1 : SEEKERS + 1]
    assert len(of_seekers) == SEEKERS
    # The proxy may note one late; without a bound, all come within milliseconds.
    assert of_seekers[-1] - of_seekers[0] > 0.5 * (SEEKERS - 1) / RATE, of_seekers
