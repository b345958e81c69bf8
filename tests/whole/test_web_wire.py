"""Packets as tshark reads them: every counted request is there, and nothing is malformed.

TLS is decrypted with the keys that the load writes to SSLKEYLOGFILE.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benches.levels import http_target, web_level

from serverdyno import _native
from serverdyno.probes.host import tls_keys_logged
from serverdyno.servers.running import running
from support.dyno_process import INSTALLED, PATIENCE_S, Home
from support.reference_servers import start_http, tls_of
from support.wire import HTTP1, WRONG, captured, dissected, values

KEY_LOG = "SSLKEYLOGFILE"
LEVEL: dict[str, Any] = {
    "workload": "webbench-static",
    "clients": 2,
    # The number of requests is bounded, so that dissecting takes seconds.
    "think_time_s": 0.05,
    "length_s": 1.0,
    "ramp_up_s": 0.0,
    "ramp_down_s": 0.0,
    "timeout_s": 20.0,
}
TWELVE_STREAMS = {"http_version": "2", "threads": 12, "streams": 6}
ONE_REQUEST_A_CONNECTION = {"keep_alive": False, "threads": 4}
HTTP2 = "http2"
FIELDS = {
    HTTP2: ("http2.headers.method", "http2.headers.status"),
    HTTP1: ("http.request.method", "http.response.code"),
}
HELLO, CERTIFICATE = "1", "11"


def only(version: str, resumption: float) -> dict[str, Any]:
    return {"min_version": version, "max_version": version, "resumption": resumption}


CASES: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "HTTP/2 over TLS 1.3": (
        "nginx",
        {"tls": "ecdsa-p256", "http2": True},
        HTTP2,
        TWELVE_STREAMS | {"tls": only("1.3", 0.0)},
    ),
    "HTTP/1.1 over TLS 1.2, half of the sessions resumed": (
        "nginx",
        {"tls": "rsa-2048"},
        HTTP1,
        ONE_REQUEST_A_CONNECTION | {"tls": only("1.2", 0.5)},
    ),
    "HTTP/1.1 over TLS 1.3, half of the sessions resumed": (
        "apache",
        {"tls": "ecdsa-p256"},
        HTTP1,
        ONE_REQUEST_A_CONNECTION | {"tls": only("1.3", 0.5)},
    ),
    "HTTP/2 in the clear": ("apache", {"http2": True}, HTTP2, TWELVE_STREAMS),
}


@pytest.mark.parametrize("case", CASES)
def test_tshark_finds_every_request_and_handshake_and_nothing_malformed(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, settings, carried, level = CASES[case]
    if name not in INSTALLED:
        pytest.skip(f"{name} is not installed here: run tools/install-servers.sh")
    capture, keys = tmp_path / "load.pcapng", tmp_path / "keys"
    monkeypatch.setenv(KEY_LOG, str(keys))
    with running(name, settings) as server:
        access = server.access()
        target = http_target(access.url, trust=access.trust)
        port = int(access.url.rstrip("/").rpartition(":")[2])
        keys.unlink(missing_ok=True)
        with captured(port, capture):
            load = web_level(target, **LEVEL, **level).start()
            assert load.wait(PATIENCE_S), "the level does not end"
    result = load.result()
    assert not result["errors"], result["errors"]
    fields = (*FIELDS[carried], "tls.handshake.type")
    asked, answered, messages = values(capture, port, keys, carried, *fields)
    assert asked == {"GET": result["operations_total"]} and result["operations_total"] > 20
    assert sum(answered.values()) == result["operations_total"] and answered.keys() <= {"200", "404"}
    full = sum(row["count"] for row in result["handshakes"] if not row["resumed"])
    assert messages[HELLO] == sum(row["count"] for row in result["handshakes"])
    assert messages[CERTIFICATE] == full
    assert bool(full) == ("tls" in settings)
    assert dissected(capture, port, keys, carried, "-Y", WRONG) == []


def test_keys_of_sessions_are_written_only_where_the_environment_asks_and_the_report_says_so(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_windows: None
) -> None:
    monkeypatch.delenv(KEY_LOG, raising=False)
    assert not tls_keys_logged()
    authority = _native.Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    tls = tls_of(authority)
    keys = tmp_path / "keys"
    server = start_http(body_bytes=100, tls=tls)
    options = ("--ca-file", tmp_path / "ca.pem", "--clients", "1", "--length", "0.5s")
    url = f"https://127.0.0.1:{server.port}/"
    try:
        told = home.here("load", url, *options, "--into", tmp_path / "told", **{KEY_LOG: str(keys)})
        assert told.returncode == 0, told.stderr
        assert KEY_LOG in told.stdout
        refused = home.here("load", url, *options, **{KEY_LOG: str(tmp_path / "absent" / "keys")})
        assert refused.returncode == 2, refused.stderr
        assert f"{KEY_LOG} names" in refused.stderr and "No such file or directory" in refused.stderr
    finally:
        server.stop()
    labels = {line.split(" ", 1)[0] for line in keys.read_text().splitlines()}
    assert {"CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"} <= labels
