"""Messages about certificates: chain, purpose, dates, client certificates, and sessions that are not kept."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from serverdyno.servers.proof import free_port
from support.dyno_process import Home
from support.file_server import skip_unless_installed
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "1", "-n", "4")
TLS = """
ssl_certificate server.pem; ssl_certificate_key server.key;
server { listen 127.0.0.1:{port} ssl; return 200; }
"""
CHAIN = """
[inner]
basicConstraints = critical,CA:TRUE
[server]
subjectAltName = IP:127.0.0.1
[nameless]
basicConstraints = CA:FALSE
[client]
subjectAltName = IP:127.0.0.1
extendedKeyUsage = clientAuth
"""
FUTURE = """
[ca]
default_ca = one
[one]
new_certs_dir = .
database = index
rand_serial = yes
certificate = outer.pem
private_key = outer.key
default_md = sha256
default_startdate = 20990101000000Z
default_enddate = 21000101000000Z
policy = any
x509_extensions = server
[any]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
"""


def told(home: Home, port: int, authority: Path) -> str:
    """Return the error of a load that cannot work."""
    url = f"https://127.0.0.1:{port}/"
    done = home.here("load", url, "--ca-file", authority, "--clients", "1", "--length", "0.5s")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return f"{done.stderr}"


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with an authority, a second one that it signed, and certificates that the second one signed."""
    skip_unless_installed("openssl")
    at = tmp_path_factory.mktemp("chained")
    (at / "extensions").write_text(CHAIN)

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=at, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *curve, "-subj", "/CN=outer", "-keyout", "outer.key", "-out", "outer.pem")
    for name, by, kind in (
        ("inner", "outer", "inner"),
        ("leaf", "inner", "server"),
        ("client", "inner", "client"),
        ("nameless", "outer", "nameless"),
    ):
        openssl("req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial", "-extfile", "extensions")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed, "-extensions", kind)
    return at


@pytest.mark.parametrize(
    ("sent", "error", "hint"),
    [
        (("leaf",), "no trusted authority has signed", "may omit its intermediate certificate"),
        (("nameless",), "for another name: it has no subjectAltName", "(CN) does not count (RFC 9525)"),
        (("client", "inner"), "not for servers (extendedKeyUsage lacks serverAuth)", "has serverAuth"),
    ],
)
def test_a_certificate_that_can_not_be_trusted_has_its_cause(
    sent: tuple[str, ...], error: str, hint: str, home: Home, chained: Path
) -> None:
    (chained / "server.pem").write_text("".join((chained / f"{name}.pem").read_text() for name in sent))
    shutil.copy(chained / f"{sent[0]}.key", chained / "server.key")
    with nginx(chained, TLS) as port:
        said = told(home, port, chained / "outer.pem")
        assert error in said and hint in said


def test_a_certificate_of_version_1_is_told_and_insecure_accepts_it(home: Home, chained: Path) -> None:
    signed = ["-signkey", "leaf.key", "-out", "server.pem"]
    command = ["openssl", "x509", "-req", "-in", "leaf.csr", *signed]
    subprocess.run(command, cwd=chained, check=True, capture_output=True)
    shutil.copy(chained / "leaf.key", chained / "server.key")
    with nginx(chained, TLS) as port:
        said = told(home, port, chained / "server.pem")
        assert "it has X.509 version 1" in said and "--insecure accepts this one" in said
        for newest in ("1.2", "1.3"):
            url = f"https://127.0.0.1:{port}/"
            done = home.here("load", url, "-k", "--tls-max", newest, "--expect-bytes", "0", *SHORT)
            assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr


def test_a_client_may_show_a_certificate_of_version_1(home: Home, chained: Path) -> None:
    signed = ["-CA", "outer.pem", "-CAkey", "outer.key", "-CAcreateserial", "-out", "one.pem"]
    command = ["openssl", "x509", "-req", "-in", "client.csr", *signed]
    subprocess.run(command, cwd=chained, check=True, capture_output=True)
    (chained / "server.pem").write_text((chained / "leaf.pem").read_text())
    shutil.copy(chained / "leaf.key", chained / "server.key")
    asks = TLS.replace("server {", "ssl_client_certificate outer.pem; ssl_verify_client on; server {")
    shown = ("--cert", chained / "one.pem", "--key", chained / "client.key")
    with nginx(chained, asks) as port:
        url = f"https://127.0.0.1:{port}/"
        done = home.here("load", url, "-k", *shown, "--expect-bytes", "0", *SHORT)
        assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr


def test_a_client_certificate_without_its_intermediate_is_told(home: Home, chained: Path) -> None:
    shutil.copy(chained / "leaf.pem", chained / "server.pem")
    shutil.copy(chained / "leaf.key", chained / "server.key")
    whole = chained / "whole.pem"
    whole.write_text("".join((chained / f"{name}.pem").read_text() for name in ("client", "inner")))
    asks = "ssl_client_certificate outer.pem; ssl_verify_client on; ssl_verify_depth 2; "
    with nginx(chained, asks + TLS) as port:

        def shown(file: Path) -> str:
            given = ("-k", "--cert", file, "--key", chained / "client.key", "--expect-bytes", "0")
            return f"{home.here('load', f'https://127.0.0.1:{port}/', *given, *SHORT).stderr}"

        said = shown(chained / "client.pem")
        assert "its file contains one certificate, and another authority has issued it" in said, said
        assert "P-521" not in said
        assert "does not accept" not in shown(whole)


def test_a_client_key_of_p521_is_named_where_the_server_speaks_tls_1_2_alone(
    home: Home, chained: Path
) -> None:
    shutil.copy(chained / "leaf.pem", chained / "server.pem")
    shutil.copy(chained / "leaf.key", chained / "server.key")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521", "-nodes", "-subj", "/CN=large"]
    command = ["openssl", "req", "-x509", *curve, "-keyout", "large.key", "-out", "large.pem"]
    subprocess.run(command, cwd=chained, check=True, capture_output=True)
    asks = "ssl_protocols TLSv1.2; ssl_client_certificate large.pem; ssl_verify_client on; "
    with nginx(chained, asks + TLS) as port:
        given = ("-k", "--cert", chained / "large.pem", "--key", chained / "large.key")
        done = home.here("load", f"https://127.0.0.1:{port}/", *given, *SHORT)
    assert done.returncode == 1 and "its key is on the curve P-521" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("kind", "said", "hint"),
    [
        (("rsa:1024",), "its RSA key has 1024 bits", "even with --insecure"),
        (("ec", "-pkeyopt", "ec_paramgen_curve:P-521"), "share no TLS version", "not P-521"),
    ],
)
def test_a_key_that_is_not_supported_is_told_with_insecure_too(
    kind: tuple[str, ...], said: str, hint: str, home: Home, chained: Path
) -> None:
    made = ["-subj", "/CN=weak", "-keyout", "server.key", "-out", "server.pem"]
    command = ["openssl", "req", "-x509", "-newkey", *kind, "-nodes", *made]
    subprocess.run(command, cwd=chained, check=True, capture_output=True)
    weak = "ssl_ciphers DEFAULT:@SECLEVEL=0; ssl_protocols TLSv1.2; "
    with nginx(chained, weak + TLS) as port:
        done = home.here("load", f"https://127.0.0.1:{port}/", "-k", *SHORT)
        assert done.returncode == 1 and said in done.stderr and hint in done.stderr, done.stderr


def test_a_certificate_that_is_not_valid_yet_has_its_moment_and_the_clock(home: Home, chained: Path) -> None:
    (chained / "index").touch()
    (chained / "ca.cnf").write_text(FUTURE)
    made = [
        "openssl",
        "ca",
        "-batch",
        "-config",
        "ca.cnf",
        "-in",
        "leaf.csr",
        "-out",
        "server.pem",
        "-notext",
    ]
    subprocess.run(made, cwd=chained, check=True, capture_output=True)
    shutil.copy(chained / "leaf.key", chained / "server.key")
    with nginx(chained, TLS) as port:
        said = told(home, port, chained / "outer.pem")
        assert "valid from 2099-01-01 00:00 UTC; this machine's clock says 20" in said
        assert "Set this machine's clock" in said


def test_a_certificate_that_is_wanted_after_the_handshake_is_told(home: Home, chained: Path) -> None:
    shutil.copy(chained / "leaf.pem", chained / "server.pem")
    shutil.copy(chained / "leaf.key", chained / "server.key")
    shown = ("--cert", chained / "client.pem", "--key", chained / "client.key")
    with nginx(chained, TLS.replace("return 200", "return 403")) as port:
        url = f"https://127.0.0.1:{port}/"
        done = home.here("load", url, "-k", *shown, "--clients", "1", "--length", "0.5s")
    assert done.returncode == 1 and "asked for no client certificate in the handshake" in done.stderr


def test_a_server_that_keeps_no_sessions_has_a_caveat(home: Home, chained: Path) -> None:
    shutil.copy(chained / "leaf.pem", chained / "server.pem")
    shutil.copy(chained / "leaf.key", chained / "server.key")
    offered = ("--no-keep-alive", "--resumption", "1.0", "--clients", "1", "--length", "0.5s")
    for kept, is_told in (("off", True), ("on", False)):
        settings = TLS.replace("ssl_certificate ", f"ssl_session_tickets {kept}; ssl_certificate ", 1)
        with nginx(chained, settings) as port:
            done = home.here("load", f"https://127.0.0.1:{port}/", "-k", *offered)
        assert done.returncode == 0, done.stderr
        assert ("resumed no TLS session" in done.stdout) == is_told, done.stdout


FORMS = {
    "der": ("x509 -in outer.pem -outform der", "x509 -inform der"),
    "p7b": ("crl2pkcs7 -nocrl -certfile outer.pem", "pkcs7 -print_certs"),
    "p7c": ("crl2pkcs7 -nocrl -certfile outer.pem -outform der", "pkcs7 -inform der -print_certs"),
    "trusted": ("x509 -trustout -in outer.pem", "x509"),
}
"""Certificate formats other than PEM: the commands that create one, and that convert it."""


@pytest.mark.parametrize("form", FORMS)
def test_an_authority_in_another_form_is_told_with_the_command_that_converts_it(
    form: str, home: Home, chained: Path, tmp_path: Path
) -> None:
    made, converts = FORMS[form]
    given, converted = tmp_path / f"ca.{form}", tmp_path / "ca.pem"
    for command in (f"{made} -out {given}", f"{converts} -in {given} -out {converted}"):
        subprocess.run(
            ["openssl", *command.split()], cwd=chained, check=True, capture_output=True, timeout=60
        )
    done = home.here("load", "https://127.0.0.1:9/", "--ca-file", given)
    assert done.returncode == 2, done.stderr
    assert f"hint: Convert it: openssl {converts} -in {given} -out authorities.pem" in done.stderr
    assert "-----BEGIN CERTIFICATE-----" in converted.read_text()


def test_an_authority_with_a_byte_order_mark_is_taken(home: Home, chained: Path, tmp_path: Path) -> None:
    given = tmp_path / "ca.pem"
    given.write_text((chained / "outer.pem").read_text(), encoding="utf-8-sig")
    port = free_port()
    done = home.here("load", f"https://127.0.0.1:{port}/", "--ca-file", given)
    assert f"127.0.0.1:{port}" in done.stderr and "nothing listens there" in done.stderr
