"""Uploads that a server refuses before it has read them: the answer counts, and a lost one is explained."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from serverdyno._native import Authority
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "2", "--length", "0.5s")
BODY_BYTES = 40 << 20
"""More than the buffers of both kernels hold, so that the client still sends when the answer arrives."""
ANSWER = b"HTTP/1.1 %d -\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n"


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a server's certificate and a large body."""
    at = tmp_path_factory.mktemp("early")
    certificate, key = Authority().certify("ecdsa-p256", ["server.test"])
    (at / "server.pem").write_text(certificate)
    (at / "server.key").write_text(key)
    (at / "body").write_bytes(bytes(BODY_BYTES))
    return at


@contextmanager
def refusing(answer: bytes, certified: Path | None = None) -> Iterator[int]:
    """Run a server that reads only the head of a request, answers and closes, which resets the connection."""
    context = None
    if certified is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certified / "server.pem", certified / "server.key")

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                plain, _ = listening.accept()
                # Without it, the server's kernel may drop the answer, which waits for an acknowledgement, at the close.
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with plain, suppress(OSError):
                    connection = plain if context is None else context.wrap_socket(plain, server_side=True)
                    with connection:
                        connection.recv(1000)
                        connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("status", [401, 413])
def test_an_answer_before_the_end_of_the_body_counts(
    secure: bool, status: int, home: Home, at: Path, tmp_path: Path
) -> None:
    asked = (*(("-k",) if secure else ()), "--data-file", at / "body", *SHORT)
    with refusing(ANSWER % status, at if secure else None) as port:
        url = f"{'https' if secure else 'http'}://127.0.0.1:{port}/"
        refused = home.here("load", url, *asked).stderr
        into = ("--into", tmp_path / "e", "--expect-status", f"{status}")
        done = home.here("load", url, *asked, *into)
    assert f"status {status} (5 of 5 requests)" in refused, refused
    assert (f"The body that dyno sends has {BODY_BYTES} bytes." in refused) == (status == 413)
    assert done.returncode == 0 and "No request failed" in done.stdout, (done.stdout, done.stderr)
    [record] = Experiment.open(tmp_path / "e").levels()
    assert record.operations > 0 and 0 < record.bytes_out < BODY_BYTES * record.operations


def test_an_answer_without_length_that_a_reset_ends_does_not_count(home: Home, at: Path) -> None:
    with refusing(b"HTTP/1.1 200 -\r\nConnection: close\r\n\r\nthe beginning") as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", "--data-file", at / "body", *SHORT)
    assert done.returncode != 0 and "reset" in done.stderr, (done.stdout, done.stderr)


def test_a_lost_answer_to_a_large_body_has_the_size_of_the_body_in_its_hint(home: Home, at: Path) -> None:
    with refusing(b"") as port:
        url = f"http://127.0.0.1:{port}/"
        said = home.here("load", url, "--data-file", at / "body", *SHORT).stderr
        small = home.here("load", url, "--data", "x", *SHORT).stderr
    assert f"The body that dyno sends has {BODY_BYTES} bytes." in said and "may want a log-in" in said
    assert "PROXY protocol" not in said and "return 444" not in said
    assert "return 444" in small and "The body that dyno sends" not in small
