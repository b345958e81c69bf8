"""Messages about web servers that answer wrongly or not at all: each row of the table, with a real server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from serverdyno._native import Authority
from serverdyno.servers.proof import free_port, listeners
from support.dyno_process import Home, wait_until
from support.file_server import skip_unless_installed
from support.users_web import caddy, nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "1", "--length", "0.5s")
STATUSES = """
server { listen 127.0.0.1:{port};
  client_max_body_size 1k; large_client_header_buffers 2 1k;
  location ~ ^/status/(?<code>\\d+)$ { error_page 418 = @none; if ($code = 400) { return 400; }
    if ($code = 401) { return 401; } if ($code = 403) { return 403; } if ($code = 404) { return 404; }
    if ($code = 407) { return 407; } if ($code = 415) { return 415; } if ($code = 418) { return 418; }
    if ($code = 304) { return 304; } if ($code = 429) { return 429; } if ($code = 500) { return 500; }
    if ($code = 522) { return 522; }
    if ($code = 503) { return 503; } if ($code = 505) { return 505; } if ($code = 421) { return 421; }
    if ($code = 406) { return 406; } if ($code = 411) { return 411; } if ($code = 426) { return 426; } }
  location /filtered { if ($http_accept = "") { return 403; } return 404; }
  location /private { return 302 /login?next=%2F; }
  location /wall { add_header Set-Cookie s=1; return 302 /wall; }
  location @none { return 418; }
  location /here { return 301 /there; }
  location /static { root .; }
  location /behind { proxy_pass http://127.0.0.1:9; }
}
"""
TLS = """
ssl_certificate server.pem; ssl_certificate_key server.key;
server { listen 127.0.0.1:{port} ssl default_server; %s location / { return 200 "hello"; } }
"""


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with an authority, a server's certificate, and two self-signed client certificates."""
    at = tmp_path_factory.mktemp("certified")
    authority = Authority()
    (at / "ca.pem").write_text(authority.pem)
    certificate, key = authority.certify("ecdsa-p256", ["server.test"])
    (at / "server.pem").write_text(certificate)
    (at / "server.key").write_text(key)
    skip_unless_installed("openssl")
    for name in ("client", "other"):
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run([*made, *files], cwd=at, check=True, capture_output=True)
    return at


def told(home: Home, *options: str | Path) -> str:
    """Return the error of a load that cannot work."""
    done = home.here("load", *options, *SHORT)
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr
    return f"{done.stderr}"


@pytest.mark.parametrize(
    ("path", "options", "hint"),
    [
        ("/status/400", (), "If the port speaks TLS, use https://"),
        ("/status/401", (), "give --auth basic"),
        ("/status/403", (), "--expect-status 403"),
        ("/status/404", (), "--expect-status 404"),
        ("/static/x", ("--method", "POST"), "use another one with --method"),
        ("/status/407", (), "give the URL of the server itself"),
        ("/static/x", ("--method", "PUT", "--data", "x" * 2000), "client_max_body_size"),
        ("/static/" + "x" * 1500, (), "large_client_header_buffers"),
        ("/status/415", (), "--content-type"),
        ("/status/406", (), "the header Accept"),
        ("/status/411", (), "--method POST and --data ''"),
        ("/status/426", (), "For h2c, use --http2"),
        ("/status/426", ("--http", "1.0"), "leave out --http 1.0"),
        ("/static/x", ("-H", "Range: bytes=900000-"), "Range begins after the end"),
        ("/filtered", (), "dyno sends no Accept"),
        ("/filtered", ("-H", "Accept: */*", "-H", "User-Agent: Mozilla/5.0"), "--expect-status 404"),
        ("/status/403", ("-H", "Accept: */*", "-H", "User-Agent: a"), "The server forbids this URL"),
        ("/private", (), "status 302 to a log-in page"),
        ("/private", (), "The server asks for a log-in: give the cookie"),
        ("/private", (), "Location: http://127.0.0.1:"),
        ("/private", ("--pipeline", "2"), "The server asks for a log-in: give the cookie"),
        ("/wall", (), "may want the cookie that it sets"),
        ("/wall", ("--pipeline", "2"), "may want the cookie that it sets"),
        ("/status/421", (), "--resolve HOST:PORT:ADDRESS"),
        ("/status/429", (), "send fewer requests with --rate"),
        ("/here", (), "dyno does not follow redirects"),
        ("/here", ("--pipeline", "2"), "/there"),
        ("/status/304", (), "--expect-status 304"),
        ("/behind", (), "whose backend server does not respond"),
        ("/status/503", (), "overloaded, under maintenance"),
        ("/status/505", (), "use another version with --http"),
        ("/status/522", (), "Cloudflare returns this status"),
        ("/status/500", (), "error log"),
        ("/status/418", (), "curl -i shows the whole answer"),
    ],
)
def test_a_wrong_status_has_the_advice_of_its_cause(
    path: str, options: tuple[str, ...], hint: str, home: Home, tmp_path: Path
) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "x").write_text("hello")
    with nginx(tmp_path, STATUSES) as port:
        said = told(home, f"http://127.0.0.1:{port}{path}", *options)
        assert "can't serve the workload" in said and "(5 of 5 requests)" in said
        assert hint in said


@pytest.mark.parametrize(
    ("server", "options", "hint"),
    [
        ("", ("--http2", "-k"), "Switch HTTP/2 on in the server"),
        (
            "ssl_client_certificate client.pem; ssl_verify_client on;",
            ("-k",),
            "give --cert FILE and --key FILE",
        ),
        (
            "ssl_client_certificate client.pem; ssl_verify_client on;",
            ("-k", "--cert", "{at}/other.pem", "--key", "{at}/other.key"),
            "does not accept the client certificate",
        ),
        ("ssl_reject_handshake on;", ("-k",), "no server name (SNI) is sent"),
        ("ssl_protocols TLSv1.2;", ("-k", "--tls-min", "1.3"), "supports none of the TLS versions"),
        ("ssl_protocols TLSv1.2;", ("-k", "--ciphers", "TLS_AES_128_GCM_SHA256"), "--tls-max or --ciphers"),
        (
            "ssl_protocols TLSv1.2; ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;",
            ("-k", "--ciphers", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
            "Leave out --ciphers",
        ),
        ("ssl_protocols TLSv1.2; ssl_ciphers AES128-SHA;", ("-k",), "X25519, P-256 or P-384"),
        ("", (), "Name the authority that signed"),
        ("", ("--ca-file", "{at}/ca.pem"), "a name from the server's certificate"),
        ("", ("-k", "--proxy-protocol", "v1"), "leave out --proxy-protocol"),
    ],
)
def test_a_refused_handshake_has_the_advice_of_its_cause(
    server: str, options: tuple[str, ...], hint: str, home: Home, certified: Path
) -> None:
    with nginx(certified, TLS % server) as port:
        said = told(home, f"https://127.0.0.1:{port}/", *(option.format(at=certified) for option in options))
        assert hint in said


def test_a_client_certificate_is_shown_over_http1_and_http2(home: Home, certified: Path) -> None:
    server = TLS.replace(" ssl default_server", " ssl http2 default_server")
    shown = ("-k", "--cert", certified / "client.pem", "--key", certified / "client.key")
    with nginx(certified, server % "ssl_client_certificate client.pem; ssl_verify_client on;") as port:
        for version in ("1.1", "2"):
            done = home.here("load", f"https://127.0.0.1:{port}/", *shown, "--http", version, *SHORT)
            assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr


def test_a_certificate_that_can_not_be_used_is_told_before_any_request(home: Home, certified: Path) -> None:
    pair = ("-in", "client.pem", "-inkey", "client.key")
    for command in (
        ("pkcs12", "-export", *pair, "-out", "client.p12", "-passout", "pass:x"),
        ("pkey", "-in", "client.key", "-out", "secret.key", "-aes128", "-passout", "pass:x"),
    ):
        subprocess.run(["openssl", *command], cwd=certified, check=True, capture_output=True)
    for options, words in (
        (("--cert", certified / "client.pem", "--key", certified / "other.key"), "don't belong together"),
        (("--cert", certified / "none.pem"), "can't be read"),
        (("--cert", certified / "client.pem"), "There is no private key (PEM): give its file as key (--key)"),
        (("--cert", certified / "client.key"), "does not contain a certificate"),
        (("--cert", certified / "client.p12"), "openssl pkcs12 -in"),
        (("--cert", certified / "client.pem", "--key", certified / "secret.key"), "has a passphrase"),
        (("--key", certified / "client.key"), "needs a certificate"),
    ):
        assert words in told(home, "https://127.0.0.1:9/", "-k", *options)
    said = told(home, "https://127.0.0.1:9/", "--ca-file", certified / "client.key")
    assert "this file contains a private key" in said


PLAN = """
name = "p"
title = "P"
suite = "tiny.toml"
repetitions = 1
[[servers]]
server = "external"
name = "one"
url = "https://127.0.0.1:{ports[0]}/"
settings = {{ trust = "anybody", certificate = "{at}/client.pem", key = "{at}/client.key" }}
[[servers]]
server = "external"
name = "two"
url = "https://127.0.0.1:{ports[1]}/"
settings = {{ trust = "anybody", certificate = "{at}/other.pem", key = "{at}/other.key" }}
"""
SUITE = """
name = "tiny"
title = "Tiny"
description = "d"
source = "a test"
workload = "url"
clients = [1]
length_s = 0.5
"""


def test_each_server_of_a_plan_is_shown_its_own_client_certificate(home: Home, certified: Path) -> None:
    (home.temporary / "tiny.toml").write_text(SUITE)
    one, two = (f"ssl_client_certificate {name}.pem; ssl_verify_client on;" for name in ("client", "other"))
    (certified / "two").mkdir()
    for name in ("server.pem", "server.key", "other.pem"):
        shutil.copy(certified / name, certified / "two")
    with nginx(certified, TLS % one) as first, nginx(certified / "two", TLS % two) as second:
        for ports, status in (((first, second), 0), ((second, first), 1)):
            (home.temporary / "plan.toml").write_text(PLAN.format(ports=ports, at=certified))
            done = home.here("run", "plan.toml")
            assert done.returncode == status, done.stderr
    assert "does not accept the client certificate" in done.stderr, done.stderr
    refused = (
        PLAN.format(ports=(1, 2), at=certified).replace("https:", "http:").replace('trust = "anybody", ', "")
    )
    (home.temporary / "plan.toml").write_text(refused)
    done = home.here("plan", "check", "plan.toml")
    assert "certificate is only for URLs that begin with https://" in done.stdout + done.stderr


@contextmanager
def s_server(at: Path, *options: str) -> Iterator[int]:
    """Run OpenSSL's own server."""
    skip_unless_installed("openssl")
    port = free_port()
    command = [
        "openssl",
        "s_server",
        "-accept",
        str(port),
        "-cert",
        "server.pem",
        "-key",
        "server.key",
        "-www",
    ]
    with subprocess.Popen(
        [*command, *options],
        cwd=at,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: bool(listeners(port)), "s_server listens")
            yield port
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("server", "options", "hint"),
    [
        (("-Verify", "1"), (), "give --cert FILE and --key FILE"),
        (("-Verify", "1", "-tls1_2"), (), "give --cert FILE and --key FILE"),
        ((), ("--http2",), "Switch HTTP/2 on in the server"),
    ],
)
def test_openssls_own_server_is_understood_too(
    server: tuple[str, ...], options: tuple[str, ...], hint: str, home: Home, certified: Path
) -> None:
    with s_server(certified, *server) as port:
        assert hint in told(home, f"https://127.0.0.1:{port}/", "-k", *options)


def test_caddy_without_a_certificate_for_the_name_is_understood(
    home: Home, tmp_path: Path, certified: Path
) -> None:
    site = f"""respond ok
}}
https://server.test:{{port}} {{
  tls {certified}/server.pem {certified}/server.key
  respond ok"""
    secure = free_port()
    with caddy(tmp_path, site.replace("{port}", str(secure))):
        by_address = told(home, f"https://127.0.0.1:{secure}/", "-k")
        assert "no server name (SNI) is sent" in by_address
        resolved = ("--resolve", f"nobody.test:{secure}:127.0.0.1")
        assert "no certificate for the host of the URL" in told(
            home, f"https://nobody.test:{secure}/", "-k", *resolved
        )


APACHE = """ServerRoot {at}
PidFile {at}/httpd.pid
ErrorLog {at}/error
DefaultRuntimeDir {at}
ServerName server.test
{modules}
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
SSLEngine on
SSLCertificateFile server.pem
SSLCertificateKeyFile server.key
{settings}
</VirtualHost>
"""
MODULES = ("mpm_event", "authz_core", "socache_shmcb", "ssl")


@contextmanager
def apache(at: Path, settings: str) -> Iterator[int]:
    """Run Apache with one site over TLS."""
    skip_unless_installed("apache2")
    port = free_port()
    modules = "\n".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in MODULES
    )
    text = APACHE.format(at=at, port=port, modules=modules, settings=settings.replace("{port}", str(port)))
    (at / "httpd.conf").write_text(text)
    command = ["apache2", "-f", str(at / "httpd.conf"), "-DFOREGROUND"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: bool(listeners(port)), "Apache listens")
            yield port
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("settings", "options", "hint"),
    [
        ("", ("--http2",), "Switch HTTP/2 on in the server"),
        ("SSLVerifyClient require\nSSLCACertificateFile client.pem", (), "give --cert FILE and --key FILE"),
        (
            "SSLVerifyClient require\nSSLCACertificateFile client.pem",
            ("--cert", "{at}/other.pem", "--key", "{at}/other.key"),
            "does not accept the client certificate",
        ),
        (
            "SSLStrictSNIVHostCheck on\n</VirtualHost>\n<VirtualHost 127.0.0.1:{port}>\nServerName second.test\n"
            "SSLEngine on\nSSLCertificateFile server.pem\nSSLCertificateKeyFile server.key",
            ("-H", "Host: second.test"),
            "no server name (SNI) is sent",
        ),
    ],
)
def test_apache_is_understood_too(
    settings: str, options: tuple[str, ...], hint: str, home: Home, certified: Path
) -> None:
    with apache(certified, settings) as port:
        given = [option.format(at=certified) for option in options]
        assert hint in told(home, f"https://127.0.0.1:{port}/", "-k", *given)


@contextmanager
def saying(answer: bytes) -> Iterator[int]:
    """Run a server that sends the same answer on each connection and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                    with connection:
                        if connection.recv(65536):
                            connection.sendall(answer)
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("settings", "options", "hint"),
    [
        (
            "server { listen 127.0.0.1:{port} http2; return 200; }",
            (),
            "If it speaks only HTTP/2, use --http2",
        ),
        ("server { listen 127.0.0.1:{port}; return 200; }", ("--http2",), "with prior knowledge"),
        ("server { listen 127.0.0.1:{port} proxy_protocol; return 200; }", (), "use --proxy-protocol"),
        (
            "server { listen 127.0.0.1:{port}; return 200; }",
            ("--proxy-protocol", "v2"),
            "leave out --proxy-protocol",
        ),
        ("server { listen 127.0.0.1:{port}; return 444; }", (), "closes connections without an answer"),
        ("server { listen 127.0.0.1:{port}; return 444; }", (), "no byte of it arrived"),
    ],
)
def test_another_protocol_than_the_servers_has_the_option_to_use(
    settings: str, options: tuple[str, ...], hint: str, home: Home, tmp_path: Path
) -> None:
    with nginx(tmp_path, settings) as port:
        assert hint in told(home, f"http://127.0.0.1:{port}/", *options)


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 2000 + b"\r\n", "--max-head-fields"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 300_000 + b"\r\n\r\n", "--max-head-bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "violates the framing rules of HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\na", "violates this rule of HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "only chunked is supported",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", "dyno asks for no transfer coding"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "Check the port"),
        (b"HTTP/1.1 102 Processing\r\n\r\n" * 20_000, "--max-head-bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 8796093022208\r\n\r\n", "limit of 2^40 bytes is set by dyno"),
    ],
)
def test_bounds_are_told_as_our_own_with_the_option_that_raises_them(
    answer: bytes, hint: str, home: Home
) -> None:
    with saying(answer) as port:
        assert hint in told(home, f"http://127.0.0.1:{port}/")


def test_equal_lengths_and_many_interim_answers_are_legal(home: Home) -> None:
    interim = b"HTTP/1.1 102 Processing\r\n\r\n" * 20
    with saying(interim + b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab") as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", "--no-keep-alive", *SHORT)
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr


def test_credentials_that_were_sent_in_vain_are_told(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, STATUSES) as port:
        url = f"http://127.0.0.1:{port}/status/401"
        done = home.here("load", url, "--auth", "basic", *SHORT, DYNO_AUTHORIZATION="me:wrong")
        encoded = home.here("load", url, "--auth", "basic", *SHORT, DYNO_AUTHORIZATION="bWU6d3Jvbmc=")
    assert done.returncode == 1 and "does not accept the credentials" in done.stderr, done.stderr
    assert encoded.returncode == 2 and "has no colon: give user:password" in encoded.stderr, encoded.stderr


def test_bounds_of_a_head_can_be_raised(home: Home) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 2000 + b"B: " + b"b" * 300_000
    raised = ("--max-head-fields", "3000", "--max-head-bytes", "400000")
    with saying(head + b"\r\nContent-Length: 0\r\n\r\n") as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *raised, "--no-keep-alive", *SHORT)
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr


def test_nobody_there_and_a_silent_server_are_told(home: Home) -> None:
    assert "nothing listens there" in told(home, f"http://127.0.0.1:{free_port()}/")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = told(home, f"http://127.0.0.1:{silent.getsockname()[1]}/", "--timeout", "1s")
        assert "allow more time with --timeout" in said
    assert "use http:// in place of https://" in _plain(home)


def _plain(home: Home) -> str:
    with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as port:
        return told(home, f"https://127.0.0.1:{port}/", "-k")


def test_an_expired_certificate_is_told(home: Home, tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = authority.certify("ecdsa-p256", ["127.0.0.1"], expired=True)
    (tmp_path / "server.pem").write_text(certificate)
    (tmp_path / "server.key").write_text(key)
    (tmp_path / "ca.pem").write_text(authority.pem)
    with nginx(tmp_path, TLS % "") as port:
        said = told(home, f"https://127.0.0.1:{port}/", "--ca-file", tmp_path / "ca.pem")
        assert "Give the server another certificate" in said
        assert "it was valid until " in said and "this machine's clock says 20" in said


def test_a_wrong_length_has_the_advice_of_its_request(home: Home, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a" * 5000)
    settings = "gzip on; gzip_types *; server { listen 127.0.0.1:{port}; root .; }"
    with nginx(tmp_path, settings) as port:
        url = f"http://127.0.0.1:{port}/x"
        zipped = told(home, url, "-H", "Accept-Encoding: gzip", "--expect-bytes", "5000")
        assert "the server compressed this body" in zipped
        assert "Correct --expect-bytes if it is given" in told(home, url, "--expect-bytes", "4999")
        assert "The answer to HEAD has no body" in told(home, url, "-X", "HEAD", "--expect-bytes", "5000")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/private", "The server asks for a log-in"),
        ("/wall", "may want the cookie"),
        ("/here", "/there"),
    ],
)
def test_a_redirect_over_http2_has_the_same_advice(home: Home, tmp_path: Path, path: str, hint: str) -> None:
    with nginx(
        tmp_path, STATUSES.replace("listen 127.0.0.1:{port}", "listen 127.0.0.1:{port} http2")
    ) as port:
        said = told(home, f"http://127.0.0.1:{port}{path}", "--http2")
    assert hint in said and "Location: http://127.0.0.1:" in said, said


def test_a_hostile_location_is_quoted_in_part_and_without_controls(home: Home) -> None:
    location = b"http://x/\xe2\x80\xae" + b"a" * 60_000
    answer = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n"
    with answering(answer) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT)
    assert done.returncode == 1 and "Location: http://x/???aaa" in done.stderr, done.stderr
    assert done.stderr.rstrip().endswith("a...") and len(done.stderr) < 2_000


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Run a server that gives one answer to each request."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        while connection.recv(65536):
                            connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("field", "said", "hint"),
    [
        (
            b"Content-Type: text/event-stream",
            "the head and 9 bytes of the body arrived",
            "If it never ends, like an event stream",
        ),
        (b"Content-Length: 50", "received 9 bytes, expected 50", "declares more bytes than arrived in time"),
    ],
)
def test_an_answer_without_an_end_is_told_as_one(field: bytes, said: str, hint: str, home: Home) -> None:
    with endless(b"HTTP/1.1 200 OK\r\n" + field + b"\r\n\r\n") as port:
        url = f"http://127.0.0.1:{port}/"
        done = home.here("load", url, "--timeout", "6s", *SHORT)
    assert done.returncode == 1, done.stderr
    assert "no answer from some of your servers after 5 s (timeout 6 s)" in done.stderr, done.stderr
    assert said in done.stderr and hint in done.stderr
    assert ("event stream" in done.stderr) == ("event stream" in hint)


@contextmanager
def endless(answer: bytes) -> Iterator[int]:
    """Run a server that begins an answer, and neither continues nor closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    held.append(connection)
                    if connection.recv(65536):
                        connection.sendall(answer + b"data: x\n\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


def test_a_blank_before_the_colon_of_a_field_is_read(home: Home) -> None:
    with saying(b"HTTP/1.1 200 OK\r\nServer : old\r\nContent-Length : 2\r\n\r\nab") as port:
        done = home.here(
            "load", f"http://127.0.0.1:{port}/", "--expect-bytes", "2", "--no-keep-alive", *SHORT
        )
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
