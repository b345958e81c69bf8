"""TLS: negotiated parameters are disclosed, and the counted handshakes equal the server's.

Any fault in a handshake, a certificate or a close is counted under its own name. Against OpenSSL, nginx and our own
server.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benches.levels import http_target, web_level

from serverdyno import _native
from serverdyno.errors import UserError
from serverdyno.plan.protocols.access import ANYBODY, authorities
from serverdyno.plan.validate import check_plan
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.proof import free_port
from serverdyno.servers.registry import DRIVERS, create, settings_types
from serverdyno.servers.running import running
from support.dyno_process import INSTALLED, PATIENCE_S
from support.reference_servers import start_http, tls_of
from support.teams import team_of

ALL_IN_TIME: dict[str, Any] = {
    "clients": 3,
    "length_s": 0.3,
    "ramp_up_s": 0.0,
    "ramp_down_s": 0.0,
    "timeout_s": 5.0,
}
LEAVING = {"leave_after_errors": 1, "length_s": 30.0, "ramp_down_s": 29.8}
LATE = LEAVING | {"timeout_s": 0.2, "ramp_down_s": 28.5}
"""A late answer is an error only within the window."""
KEYS = {"ecdsa-p256": "ECDSA P-256", "rsa-2048": "RSA 2048"}


@pytest.fixture(scope="module")
def authority() -> _native.Authority:
    return _native.Authority()


def result_of(target: _native.Target, **level: Any) -> dict[str, Any]:
    """Run a level of one URL to its end."""
    load = web_level(target, **({"workload": "url"} | ALL_IN_TIME | level)).start()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


@contextmanager
def reference(authority: _native.Authority, trust: Any = None, **options: Any) -> Iterator[_native.Target]:
    settings = options.pop("tls", None) or tls_of(authority)
    server = start_http(body_bytes=options.pop("body_bytes", 1024), tls=settings, **options)
    try:
        yield http_target(
            f"https://127.0.0.1:{server.port}/", trust=authorities(authority.pem) if trust is None else trust
        )
    finally:
        server.stop()


@contextmanager
def openssl_server(
    directory: Path, authority: _native.Authority, *arguments: str
) -> Iterator[tuple[int, Any]]:
    """Run `openssl s_server -www`, which answers every GET; yield its port and process."""
    certificate, key = authority.certify("ecdsa-p256", ["127.0.0.1"])
    (directory / "s.crt").write_text(certificate)
    (directory / "s.key").write_text(key)
    port = free_port()
    command = [
        "openssl",
        "s_server",
        "-accept",
        f"127.0.0.1:{port}",
        "-cert",
        "s.crt",
        "-key",
        "s.key",
        *arguments,
    ]
    with subprocess.Popen(
        command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        try:
            said = b""
            while b"ACCEPT" not in said:
                ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
                assert ready, "openssl s_server does not start"
                said += (part := process.stdout.read1(4096))  # type: ignore[attr-defined]
                assert part, said
            yield port, process
        finally:
            process.kill()


def only_fault(result: dict[str, Any]) -> tuple[str, str]:
    [error] = result["errors"]
    assert result["operations_total"] == 0
    return error["side"], error["fault"]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("keep_alive", [True, False])
def test_whole_bodies_come_over_every_version_and_key(
    authority: _native.Authority, key: str, version: str, keep_alive: bool
) -> None:
    offered = {"min_version": version, "max_version": version}
    with reference(authority, tls=tls_of(authority, key), body_bytes=100_000) as target:
        result = result_of(target, keep_alive=keep_alive, tls=offered)
    assert not result["errors"]
    assert result["operations"] > 0
    assert result["bytes_read"] == 100_000 * result["operations"]
    [row] = result["handshakes"]
    assert (row["version"], row["key"], row["resumed"]) == (f"TLS {version}", KEYS[key], False)
    assert row["key_exchange"] == "X25519"
    assert row["count"] == result["connections"]
    assert row["count"] == (3 if keep_alive else result["operations_total"])
    times = _native.Histogram.from_bytes(result["handshake_time_hdr"])
    assert times.count == row["in_window"]
    responses = _native.Histogram.from_bytes(result["response_time_hdr"])
    assert times.min < responses.max


@pytest.mark.parametrize("receive_buffer_bytes", [256, 5000, 65536])
def test_records_are_put_together_whatever_the_buffer(
    authority: _native.Authority, receive_buffer_bytes: int
) -> None:
    with reference(authority, body_bytes=70_001) as target:
        result = result_of(target, receive_buffer_bytes=receive_buffer_bytes)
    assert not result["errors"]
    assert result["bytes_read"] == 70_001 * result["operations"] > 0


def test_the_whole_document_tree_comes_over_tls_with_the_right_content(authority: _native.Authority) -> None:
    settings = tls_of(authority)
    server = start_http(tls=settings)
    try:
        target = http_target(f"https://127.0.0.1:{server.port}/", trust=authorities(authority.pem))
        result = result_of(target, workload="webbench-static", verify_share=1.0)
        assert not result["errors"]
        assert server.requests == result["operations_total"] > 0
    finally:
        server.stop()


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_so_many_handshakes_resume_a_session_as_were_asked_for(
    authority: _native.Authority, version: str, share: float
) -> None:
    offered = {"min_version": version, "max_version": version, "resumption": share}
    with reference(authority) as target:
        result = result_of(target, keep_alive=False, tls=offered)
    resumed = sum(row["count"] for row in result["handshakes"] if row["resumed"])
    whole = sum(row["count"] for row in result["handshakes"])
    assert not result["errors"]
    # The first connection that offers a session has none yet; the last one may be under way.
    clients = ALL_IN_TIME["clients"]
    assert share * whole - 3 * clients <= resumed <= share * whole


def test_a_server_without_resumption_gives_full_handshakes_whatever_is_offered(
    authority: _native.Authority,
) -> None:
    with reference(authority, tls=tls_of(authority, resumption=False)) as target:
        result = result_of(target, keep_alive=False, tls={"resumption": 1.0})
    assert not result["errors"]
    assert not any(row["resumed"] for row in result["handshakes"])


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("name", [*INSTALLED, "h2o", "haproxy"])
def test_every_server_without_resumption_gives_full_handshakes_alone(name: str, version: str) -> None:
    if DRIVERS[name].installed() is None:
        pytest.skip(f"{name} is not installed here")
    settings: dict[str, Any] = {"tls": "ecdsa-p256", "tls_resumption": False}
    if name == "haproxy":
        name, settings = "team", team_of({"front": name, "back": "nginx", "dynamic": "off", **settings})
    offered = {"min_version": version, "max_version": version, "resumption": 1.0}
    with running(name, settings) as server:
        target = http_target(server.access().url, trust=server.access().trust)
        result = result_of(target, workload="webbench-static", keep_alive=False, tls=offered)
    assert result["handshakes"] and not result["errors"]
    assert not any(row["resumed"] for row in result["handshakes"])


LOGGED = {
    # nginx logs whether the session was reused, and the number of the request on its connection from 1.
    "nginx": r" ([r.]) 1$",
    # Apache logs the same, from 0.
    "apache": r" (Resumed|Initial) 0$",
}


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("name", LOGGED)
def test_servers_count_the_same_handshakes_and_the_same_resumptions(name: str, version: str) -> None:
    if name not in INSTALLED:
        pytest.skip(f"{name} is not installed here")
    settings = {"tls": "ecdsa-p256", "access_log": True, "tls_min_version": "1.2"}
    offered = {"min_version": version, "max_version": version, "resumption": 0.75}
    with running(name, settings) as server:
        target = http_target(server.access().url, trust=server.access().trust)
        before = sessions_of(server)
        result = result_of(target, workload="webbench-static", keep_alive=False, tls=offered)
        after = sessions_of(server)
    assert not result["errors"]
    ours = {True: 0, False: 0}
    for row in result["handshakes"]:
        ours[row["resumed"]] += row["count"]
    assert after[True] - before[True] == ours[True] > 0
    assert after[False] - before[False] == ours[False] > 0


def sessions_of(server: ServerDriver) -> dict[bool, int]:
    """Count the first requests of connections by whether the server's log, once complete, calls the session resumed."""
    server.requests_served()
    text = (server.directory / "access.log").read_text()  # type: ignore[attr-defined]
    first = Counter(re.findall(LOGGED[server.name], text, re.MULTILINE))
    return {True: first["r"] + first["Resumed"], False: first["."] + first["Initial"]}


@pytest.mark.parametrize("name", [*INSTALLED, "reference"])
@pytest.mark.parametrize("key", KEYS)
def test_every_server_speaks_tls_as_it_is_set(name: str, key: str) -> None:
    settings = {"tls": key, "tls_max_version": "1.2"}
    with running(name, settings) as server:
        access = server.access()
        assert access.url.startswith("https://")
        result = result_of(
            http_target(access.url, trust=access.trust), workload="webbench-static", keep_alive=False
        )
        said = s_client(int(access.url.rstrip("/").rpartition(":")[2]), "-brief")
    assert not result["errors"]
    [row] = result["handshakes"]
    assert (row["version"], row["key"]) == ("TLS 1.2", KEYS[key])
    assert "Protocol version: TLSv1.2" in said


def s_client(port: int, *arguments: str) -> str:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def test_openssl_negotiates_with_our_server_and_curl_trusts_the_authority(
    authority: _native.Authority, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text(authority.pem)
    with reference(authority) as target:
        port = int(target.address.rpartition(":")[2])
        said = s_client(port, "-CAfile", str(tmp_path / "ca.pem"), "-verify_return_error", "-tls1_3")
        url = f"https://127.0.0.1:{port}/"
        command = [
            "curl",
            "-sS",
            "--cacert",
            str(tmp_path / "ca.pem"),
            "-o",
            "/dev/null",
            "-w",
            "%{http_code} %{size_download}",
            url,
        ]
        got = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    assert "Verify return code: 0 (ok)" in said
    assert got == "200 1024"


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(
    authority: _native.Authority, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text(authority.pem)
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with reference(authority) as target:
        host, _, port = target.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(outgoing.read())
                    incoming.write(connection.recv(65_536))
            client.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            connection.sendall(outgoing.read())  # the client's Finished and its request at once
            while True:
                incoming.write(connection.recv(65_536))
                with contextlib.suppress(ssl.SSLWantReadError):
                    assert client.read(12) == b"HTTP/1.1 200"
                    break


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        (
            ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256", "-named_curve", "P-256"),
            ("TLS 1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "P-256"),
        ),
        (
            ("-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305", "-named_curve", "P-256"),
            ("TLS 1.2", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "P-256"),
        ),
        (
            ("-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256", "-named_curve", "X25519"),
            ("TLS 1.3", "TLS_CHACHA20_POLY1305_SHA256", "X25519"),
        ),
        (
            ("-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384", "-named_curve", "P-384"),
            ("TLS 1.3", "TLS_AES_256_GCM_SHA384", "P-384"),
        ),
    ],
    ids="-".join,
)
def test_what_openssl_chose_is_what_is_disclosed(
    authority: _native.Authority, tmp_path: Path, arguments: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    with openssl_server(tmp_path, authority, "-www", *arguments) as (port, _):
        target = http_target(f"https://127.0.0.1:{port}/", trust=authorities(authority.pem))
        result = result_of(target, keep_alive=False, clients=1)
    assert not result["errors"]
    [row] = result["handshakes"]
    assert (row["version"], row["cipher"], row["key_exchange"]) == chosen


def test_a_cipher_that_does_not_fit_is_counted_as_that(authority: _native.Authority, tmp_path: Path) -> None:
    arguments = ("-www", "-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA")
    with openssl_server(tmp_path, authority, *arguments) as (port, _):
        target = http_target(f"https://127.0.0.1:{port}/", trust=authorities(authority.pem))
        assert only_fault(result_of(target, **LEAVING)) == ("server", "nothing_in_common")
    with reference(authority, tls=tls_of(authority, max_version="1.2")) as target:
        result = result_of(target, tls={"min_version": "1.3"}, **LEAVING)
        assert only_fault(result) == ("server", "nothing_in_common")


def test_certificates_that_do_not_hold_are_counted_by_why(authority: _native.Authority) -> None:
    stranger = _native.Authority()
    for settings, expected in (
        (tls_of(authority, made={"expired": True}), ("server", "certificate_expired")),
        (tls_of(authority, names=["www.example"]), ("check", "wrong_certificate_name")),
        (tls_of(stranger), ("check", "untrusted_certificate")),
    ):
        with reference(authority, tls=settings) as target:
            assert only_fault(result_of(target, **LEAVING)) == expected
        with reference(authority, tls=settings, trust=ANYBODY) as target:
            assert not result_of(target)["errors"]


def test_an_end_without_close_notify_is_a_truncation_where_it_could_cut_a_body(
    authority: _native.Authority,
) -> None:
    with reference(authority, fault="truncate") as target:
        assert only_fault(result_of(target, **LEAVING)) == ("server", "truncated")
    with reference(authority, fault="close-delimited") as target:
        assert not result_of(target)["errors"]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("stall", "response_timeout"),
        ("short-body", "closed_early"),
        ("long-body", "excess_data"),
        ("reset", "connection_reset"),
    ],
)
def test_faults_of_http_keep_their_names_over_tls(
    authority: _native.Authority, fault: str, expected: str
) -> None:
    with reference(authority, fault=fault) as target:
        ends = LATE if expected == "response_timeout" else LEAVING
        assert only_fault(result_of(target, **ends)) == ("server", expected)


def test_what_is_no_handshake_is_counted_by_what_it_is() -> None:
    def answering(data: bytes, *, close: bool) -> int:
        listener = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(data)
                    while not close and connection.recv(65536):
                        pass

        threading.Thread(target=serve, daemon=True).start()
        return int(listener.getsockname()[1])

    alert = b"\x15\x03\x03\x00\x02\x02\x28"  # fatal, handshake_failure
    internal = b"\x15\x03\x03\x00\x02\x02\x50"  # fatal, internal_error
    for data, close, expected in (
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, "malformed_record"),
        (alert, False, "nothing_in_common"),
        (internal, False, "handshake_refused"),
        (b"", True, "handshake_refused"),
        (b"\x16\x03\x03\x40\x00", False, "handshake_timeout"),
    ):
        target = http_target(f"https://127.0.0.1:{answering(data, close=close)}/", trust=ANYBODY)
        ends = LATE if expected == "handshake_timeout" else LEAVING
        assert only_fault(result_of(target, **ends)) == ("server", expected), data


def test_a_renegotiation_is_declined_and_told_where_the_server_gives_up(
    authority: _native.Authority, tmp_path: Path
) -> None:
    # `s_server` renegotiates at the line "r", and ends the session if that is refused.
    with openssl_server(tmp_path, authority, "-tls1_2", "-legacy_renegotiation") as (port, process):
        target = http_target(f"https://127.0.0.1:{port}/", trust=authorities(authority.pem))
        load = web_level(
            target,
            workload="url",
            clients=1,
            length_s=30.0,
            ramp_up_s=0.0,
            ramp_down_s=29.0,
            timeout_s=20.0,
            leave_after_errors=1,
        ).start()
        deadline = time.monotonic() + PATIENCE_S
        # Once s_server has printed the request, the session can renegotiate.
        said = b""
        while b"GET / HTTP/1.1" not in said:
            assert time.monotonic() < deadline, said
            ready, _, _ = select.select([process.stdout], [], [], 1.0)
            said += process.stdout.read1(4096) if ready else b""
        process.stdin.write(b"r\n")
        process.stdin.flush()
        assert load.wait(PATIENCE_S)
        assert only_fault(load.result()) == ("server", "renegotiation")


def test_a_suite_over_tls_wants_servers_that_speak_it() -> None:
    plan = {"name": "p", "title": "p", "suite": "quick-tls", "servers": [{"server": "reference"}]}
    _, problems = check_plan(plan, settings_types())
    assert any("uses TLS" in problem.message for problem in problems)
    plan["servers"] = [{"server": "reference", "settings": {"tls": "rsa-2048"}}]
    assert check_plan(plan, settings_types())[1] == []


def test_trust_of_a_users_server_is_a_file_or_a_word(tmp_path: Path, authority: _native.Authority) -> None:
    (tmp_path / "ca.pem").write_text(authority.pem)

    def external(**settings: Any) -> ServerDriver:
        return create("external", settings, documents=tmp_path, url="https://127.0.0.1:9/")

    assert external(trust=str(tmp_path / "ca.pem")).access().trust == authorities(authority.pem)
    assert external(trust=ANYBODY).access().trust == ANYBODY
    assert "identity is not known" in " ".join(external(trust=ANYBODY).describe().notes)
    with pytest.raises(UserError, match="can't be read"):
        external(trust=str(tmp_path / "missing.pem")).access()
