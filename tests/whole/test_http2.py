"""HTTP/2: our client's counts equal the servers', and other clients understand our server.

Against nginx, Apache and lighttpd, curl and nghttp. Hostile servers are in the tests of the data plane.
"""

from __future__ import annotations

import html
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benches.levels import http_target, web_level

from serverdyno import _native
from serverdyno.plan.protocols.access import authorities
from serverdyno.plan.validate import check_plan
from serverdyno.servers.base import RunningServer
from serverdyno.servers.registry import DRIVERS, settings_types
from serverdyno.servers.running import running
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home, wait_until
from support.reference_servers import start_http, tls_of

LEVEL: dict[str, Any] = {
    "http_version": "2",
    "clients": 2,
    "threads": 12,
    "streams": 6,
    "length_s": 0.3,
    "ramp_up_s": 0.0,
    "ramp_down_s": 0.0,
    "timeout_s": 20.0,
}
CONNECTIONS = 4
SERVERS: list[tuple[str, dict[str, Any]]] = [
    ("nginx", {"tls": "ecdsa-p256"}),
    ("nginx", {"tls": "rsa-2048", "tls_max_version": "1.2", "keep_alive_requests": 50}),
    ("apache", {}),
    ("apache", {"tls": "ecdsa-p256", "mpm": "worker", "workers": 128}),
    ("lighttpd", {}),
    ("lighttpd", {"tls": "ecdsa-p256"}),
    ("reference", {}),
    ("reference", {"tls": "ecdsa-p256"}),
]


@contextmanager
def reference(*, secure: bool, tmp_path: Path, **options: Any) -> Iterator[tuple[str, Any, str]]:
    """Run the reference server with HTTP/2; yield its URL, itself, and the file of its authority."""
    authority = _native.Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    tls = tls_of(authority)
    server = start_http(http2=True, tls=tls if secure else None, **options)
    try:
        scheme = "https" if secure else "http"
        yield f"{scheme}://127.0.0.1:{server.port}/", server, str(tmp_path / "ca.pem")
    finally:
        server.stop()


def result_of(target: _native.Target, **level: Any) -> dict[str, Any]:
    """Run a level to its end."""
    load = web_level(target, **({"workload": "webbench-static"} | LEVEL | level)).start()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def streams_of(result: dict[str, Any]) -> int:
    """Return the number of streams, without those that the server refused and that were sent again."""
    counts: dict[str, int] = {row["request"]: row["count"] for row in result["requests"]}
    return 2 * counts["HTTP/2 stream"] - sum(counts.values())


def connections_logged(server: RunningServer) -> int:
    """Return the number of HTTP/2 connections in lighttpd's log."""
    server.requests_served()  # this waits for the log
    log: str = (server.directory / "access.log").read_text()  # type: ignore[attr-defined]
    return log.count("PRI * ")


@pytest.mark.parametrize(("name", "settings"), SERVERS, ids=str)
def test_the_servers_own_counts_of_requests_and_connections_are_ours(
    name: str, settings: dict[str, Any]
) -> None:
    if DRIVERS[name].installed() is None:
        pytest.skip(f"{name} is not installed here: run tools/install-servers.sh")
    log = {} if name == "reference" else {"access_log": True}
    with running(name, {**settings, "http2": True, **log}) as server:
        access = server.access()
        target = http_target(access.url, trust=access.trust)
        before = server.requests_served()
        result = result_of(target, length_s=1.5 if "keep_alive_requests" in settings else 0.3)
        after = server.requests_served()
        assert not result["errors"], result["errors"]
        assert before is not None and after is not None
        assert after - before == result["operations_total"] == streams_of(result)
        assert result["connections"] >= CONNECTIONS
        if name == "nginx" and "keep_alive_requests" in settings:
            assert result["connections"] > CONNECTIONS
        if name == "reference":
            assert result["connections"] == CONNECTIONS
            return
        lines = (server.directory / "access.log").read_text().splitlines()  # type: ignore[attr-defined]
        ours = [line for line in lines if "HTTP/2.0" in line and "PRI * " not in line]
        assert len(ours) == result["operations_total"]
        if name == "nginx":
            first = [line for line in ours if line.rsplit(" ", 1)[1] == "1"]
            assert len(first) == result["connections"]
        if name == "lighttpd":  # it logs a line per connection, once it has closed it
            wait_until(lambda: connections_logged(server) == result["connections"], "its lines")


@pytest.mark.parametrize("secure", [False, True])
def test_curl_and_nghttp_get_whole_documents_of_the_reference_server(*, secure: bool, tmp_path: Path) -> None:
    with reference(secure=secure, tmp_path=tmp_path, body_bytes=300_000) as (url, server, authority):
        how = ["--http2", "--cacert", authority] if secure else ["--http2-prior-knowledge"]
        write = [
            "--write-out",
            "%{http_version} %{response_code} %{size_download}\n",
            "--output",
            "/dev/null",
        ]
        for path in ("", "b?c"):
            curl = subprocess.run(
                ["curl", "--silent", "--show-error", *how, *write, url + path],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=True,
            )
            assert curl.stdout == "2 200 300000\n"
        nghttp = subprocess.run(
            ["nghttp", "--null-out", "--stat", "--no-verify-peer", "--multiply=20", url],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        assert len(re.findall(r" 200 +\d+K? ", nghttp.stdout)) == 20, nghttp.stdout
        assert server.requests == 22


def test_whole_bodies_come_in_all_sizes_and_buffers(tmp_path: Path) -> None:
    for secure in (False, True):
        for body_bytes, buffer_bytes in ((0, 256), (1, 65536), (70_001, 300), (5_000_000, 65536)):
            with reference(secure=secure, tmp_path=tmp_path, body_bytes=body_bytes) as (
                url,
                server,
                authority,
            ):
                trust = authorities(Path(authority).read_text())
                target = http_target(url, trust=trust if secure else None)
                result = result_of(
                    target, workload="url", clients=1, length_s=0.2, receive_buffer_bytes=buffer_bytes
                )
                assert not result["errors"], result["errors"]
                assert result["bytes_read"] == body_bytes * result["operations"]
                assert server.requests == result["operations_total"] == streams_of(result) > 0


def test_a_server_that_speaks_no_http2_is_told_by_that_name(tmp_path: Path) -> None:
    authority = _native.Authority()
    tls = tls_of(authority)
    leaving = {"leave_after_errors": 1, "length_s": 30.0, "ramp_down_s": 29.8, "threads": 1}
    for options, scheme in (({"tls": tls}, "https"), ({}, "http")):
        server = start_http(**options)
        try:
            trust = authorities(authority.pem) if options else None
            result = result_of(http_target(f"{scheme}://127.0.0.1:{server.port}/", trust=trust), **leaving)
        finally:
            server.stop()
        faults = {error["fault"] for error in result["errors"]}
        # OpenSSL, rustls and others refuse the handshake if no protocol is common, as they may (RFC 7301).
        assert faults <= {"not_http2", "nothing_in_common"} and faults, result["errors"]
        assert {error["side"] for error in result["errors"]} == {"server"}
        advices = [error["advice"] for error in result["errors"] if error["fault"] == "not_http2"]
        assert all("--http2" in (advice or "") for advice in advices)


def test_a_suite_over_http2_wants_servers_that_speak_it(tmp_path: Path) -> None:
    plan = {"name": "p", "title": "p", "suite": "quick-h2", "servers": [{"server": "reference"}]}
    settings: dict[str, Any] = {"tls": "ecdsa-p256"}
    plan["servers"] = [{"server": "reference", "settings": settings}]
    _, problems = check_plan(plan, settings_types())
    assert any("http2 = true" in problem.message for problem in problems)
    settings["http2"] = True
    _, problems = check_plan(plan, settings_types())
    assert problems == []


def test_settings_that_a_server_could_not_keep_are_refused() -> None:
    types = settings_types()
    with pytest.raises(ValueError, match="http2 requires tls"):
        types["nginx"].model_validate({"http2": True})
    with pytest.raises(ValueError, match="http2 needs mpm"):
        types["apache"].model_validate({"http2": True, "mpm": "prefork"})


@pytest.mark.parametrize("secure", [False, True])
def test_load_speaks_http2_and_the_report_says_how_and_on_how_many_connections(
    *, secure: bool, tmp_path: Path, short_windows: None
) -> None:
    (tmp_path / "home").mkdir()
    home, folder = Home(tmp_path / "home"), tmp_path / "experiment"
    with reference(secure=secure, tmp_path=tmp_path, body_bytes=1000) as (url, _, authority):
        trust = ("--ca-file", authority) if secure else ()
        options = ("--http2", "--streams", "5", "--clients", "1,3", "--length", "0.5s", *trust)
        done = home.here("load", url, *options, "--into", str(folder))
        assert done.returncode == 0, done.stdout + done.stderr
    records = list(Experiment.open(folder).levels())
    assert [record.connections for record in records] == [1, 3]
    streams = sum(row.count for record in records for row in record.requests)
    assert streams == sum(record.operations_total for record in records) > 0
    home.here("report", folder)
    report = html.unescape(re.sub("<[^>]*>", " ", (folder / "report" / "report.html").read_text()))
    how = "by ALPN" if secure else "with prior knowledge"
    assert f"Protocol: HTTP/2 {how}; {streams:,} streams on 4 connections" in " ".join(report.split())


def test_load_refuses_what_http2_has_not(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    home = Home(tmp_path / "home")
    for options in (("--streams", "5"), ("--http2", "--no-keep-alive")):
        done = home.here("load", "http://127.0.0.1:9/", *options)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "version" in done.stderr or "streams" in done.stderr
