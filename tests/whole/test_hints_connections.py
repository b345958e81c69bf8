"""Messages about real web servers that end connections, serve another host, or speak no TLS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from serverdyno._native import Authority
from support.dyno_process import Home
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "1", "--length", "0.5s")
TLS = """
ssl_certificate server.pem; ssl_certificate_key server.key;
server { listen 127.0.0.1:{port} ssl default_server; return 200 "hello"; }
"""


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with an authority and a server's certificate."""
    at = tmp_path_factory.mktemp("certified")
    authority = Authority()
    (at / "ca.pem").write_text(authority.pem)
    certificate, key = authority.certify("ecdsa-p256", ["server.test"])
    (at / "server.pem").write_text(certificate)
    (at / "server.key").write_text(key)
    return at


def told(home: Home, *options: str | Path) -> str:
    """Return the error of a load that cannot work."""
    done = home.here("load", *options, *SHORT)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr
    return f"{done.stderr}"


UNKNOWN = """
server { listen 127.0.0.1:{port} default_server%s; return 444; }
server { listen 127.0.0.1:{port}%s; server_name shop.test; return 200 ok; }
"""


@pytest.mark.parametrize("secure", [False, True])
def test_a_server_that_drops_unknown_hosts_is_told_until_the_host_is_named(
    secure: bool, home: Home, certified: Path
) -> None:
    tls = "ssl_certificate server.pem; ssl_certificate_key server.key;" if secure else ""
    ssl = " ssl" if secure else ""
    with nginx(certified, tls + UNKNOWN % (ssl, ssl)) as port:
        url, trust = f"{'https' if secure else 'http'}://127.0.0.1:{port}/", ("-k",) if secure else ()
        said = told(home, url, *trust)
        assert "may drop requests for hosts that it does not know" in said and "-H 'Host: NAME'" in said
        assert ("(SNI)" in said) == secure
        named = home.here("load", url, *trust, "-H", "Host: shop.test", *SHORT)
        assert named.returncode == 0, named.stderr
        wrong = told(home, url, *trust, "-H", "Host: other.test")
        assert "does not know" not in wrong and "no byte of it arrived" in wrong


def test_plain_http_in_answer_to_a_handshake_is_told_as_such(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, "server { listen 127.0.0.1:{port}; return 200; }") as port:
        said = told(home, f"https://127.0.0.1:{port}/")
        assert "it answers in plain HTTP" in said
        assert "The port speaks plain HTTP: use http:// in place of https://." in said
        assert "TCP load balancer" not in said


def test_a_wrong_certificate_is_told_with_its_names(home: Home, certified: Path) -> None:
    with nginx(certified, TLS) as port:
        said = told(home, f"https://127.0.0.1:{port}/", "--ca-file", certified / "ca.pem")
        assert "the server's certificate is for another name: it is for server.test" in said


def test_a_post_that_meets_the_keep_alive_timeout_is_told_as_such(home: Home) -> None:
    with closing_after_one() as port:
        options = ("--data", "x=1", "--think", "0.6s", "--clients", "1", "--length", "3s")
        said = " ".join(home.here("load", f"http://127.0.0.1:{port}/", *options).stdout.split())
        assert "the server closed a kept connection while the next request was sent" in said
        assert "it had been idle for " in said and "Raise the server's keep-alive timeout" in said
        assert "--no-keep-alive" in said


@contextmanager
def closing_after_one() -> Iterator[int]:
    """Run a server that answers the first request on a connection, and closes it when the second arrives."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                if connection.recv(65536):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
                connection.recv(65536)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
BODY = b"HTTP/1.1 %d -\r\nContent-Length: 3\r\n\r\nabc"
STATUS = b"HTTP/1.1 %d -\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@contextmanager
def saying(answer: bytes) -> Iterator[int]:
    """Run a server that sends the same answer on each connection and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        connection.recv(65536)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def goaway(code: int, last: int = 0, debug: bytes = b"") -> bytes:
    """Return SETTINGS, and a GOAWAY with this code, last stream and debug data (RFC 9113, 6.5 and 6.8)."""
    head = bytes([0, 0, 8 + len(debug), 7, 0, 0, 0, 0, 0])
    return SETTINGS + head + bytes([0, 0, 0, last, 0, 0, 0, code]) + debug


def with_data(status: int) -> bytes:
    """Return SETTINGS, and a response with data. `status`: index of a status in HPACK's static table."""
    head, data = bytes([0, 0, 1, 1, 4, 0, 0, 0, 1]), bytes([0, 0, 3, 0, 1, 0, 0, 0, 1])
    return SETTINGS + head + bytes([status]) + data + b"abc"


@pytest.mark.parametrize(
    ("answer", "options", "hint"),
    [
        (CUT, (), "received 3 bytes, expected 9"),
        (CUT, (), "The connection ends in the middle of the body"),
        (BODY % 200, ("--method", "HEAD"), "a response to HEAD has no body, but bytes followed"),
        (
            BODY % 200,
            ("--method", "HEAD", "--pipeline", "2"),
            "a response to HEAD has no body, but bytes followed",
        ),
        (BODY % 200, ("--method", "HEAD", "--pipeline", "2"), "sends a body where HTTP allows none"),
        (
            with_data(0x88),
            ("--method", "HEAD", "--http2"),
            "a response to HEAD has no body, but bytes followed",
        ),
        (with_data(0x89), ("--http2",), "a response with status 204 has no body, but bytes followed"),
        (with_data(0x8B), ("--http2", "--expect-status", "304"), "a response with status 304 has no body"),
        (BODY % 204, (), "a response with status 204 has no body, but bytes followed"),
        (BODY % 304, (), "a response with status 304 has no body, but bytes followed"),
        (STATUS % 400, (), "Django: ALLOWED_HOSTS"),
        (STATUS % 400, ("-H", "Host: shop.test"), "Otherwise look at the request"),
        (STATUS % 404, (), "with --resolve NAME:PORT:ADDRESS"),
        (STATUS % 408, (), "Apache: RequestReadTimeout"),
        (STATUS % 429, (), "Retry-After"),
        (goaway(11), ("--http2",), "treats this many requests as an attack"),
        (goaway(11, last=9), ("--http2",), "treats this many requests as an attack"),
        (goaway(11, debug=b"too_many\x1b_pings"), ("--http2",), 'ENHANCE_YOUR_CALM, "too_many_pings"'),
        (goaway(0, last=9), ("--http2",), "the server had sent GOAWAY with NO_ERROR"),
        (SETTINGS, ("--http2",), "The server closed an HTTP/2 connection before it had answered"),
        (b"", ("--http2",), "must speak HTTP/2 with prior knowledge"),
        (STATUS % 400, ("--cookie", f"a={'x' * 9000}"), "nginx: large_client_header_buffers"),
        (STATUS % 400, ("-H", "Host: shop.test", "--cookie", "a=b"), "Otherwise look at the request"),
        (goaway(12), ("--http2",), "refuses the TLS version or cipher for HTTP/2"),
        (goaway(13), ("--http2",), "only over HTTP/1.1"),
    ],
)
def test_an_answer_that_can_not_be_used_has_the_advice_of_its_cause(
    answer: bytes, options: tuple[str, ...], hint: str, home: Home
) -> None:
    with saying(answer) as port:
        assert hint in told(home, f"http://127.0.0.1:{port}/", *options)


FILTERED = """
server { listen 127.0.0.1:{port}%s; if ($http_user_agent ~* "dyno|wrk") { return 444; } return 200 ok; }
"""


@pytest.mark.parametrize("options", [(), ("--http2",)])
def test_a_server_that_drops_clients_by_their_name_is_told_as_a_possibility(
    options: tuple[str, ...], home: Home, tmp_path: Path
) -> None:
    named = (*options, "-H", "Host: site.test")
    with nginx(tmp_path, FILTERED % (" http2" if options else "")) as port:
        url = f"http://127.0.0.1:{port}/"
        assert "try -H 'User-Agent: Mozilla/5.0'" in " ".join(told(home, url, *named).split())
        allowed = home.here("load", url, *named, "-H", "User-Agent: Mozilla/5.0", *SHORT)
        assert allowed.returncode == 0, allowed.stderr
