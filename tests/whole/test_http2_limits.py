"""HTTP/2 at the limits that real servers set: windows for uploads, and concurrent streams."""

from __future__ import annotations

import base64
import html
import http.server
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benches.levels import http_target, web_level

from serverdyno import _native
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home
from support.users_web import caddy, nginx

UPLOAD_BYTES = 4 << 20
STREAMS = 8
REFUSED = "HTTP/2 stream refused (REFUSED_STREAM)"


class Reader(http.server.BaseHTTPRequestHandler):
    """Reads each body to its end before it answers."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        rest = int(self.headers["Content-Length"])
        while rest and (part := self.rfile.read(min(rest, 1 << 16))):
            rest -= len(part)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        pass


class Readers(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


@contextmanager
def reading() -> Iterator[int]:
    """Yield the port of a server that reads the bodies of requests."""
    with Readers(("127.0.0.1", 0), Reader) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@contextmanager
def handing_on(server: str, at: Path, to: int) -> Iterator[int]:
    """Yield the port of a proxy that forwards requests to another port."""
    if server == "caddy":
        with caddy(at, f"reverse_proxy 127.0.0.1:{to}", "servers {\n protocols h1 h2 h2c\n }") as port:
            yield port
    else:
        proxy = f"client_max_body_size 0; location / {{ proxy_pass http://127.0.0.1:{to}; }}"
        with nginx(at, f"server {{ listen 127.0.0.1:{{port}} http2; {proxy} }}") as port:
            yield port


@pytest.mark.parametrize("server", ["caddy", "nginx"])
def test_large_uploads_succeed_on_all_streams_at_once(server: str, tmp_path: Path) -> None:
    # Caddy answers each read by two WINDOW_UPDATEs, thousands before a response. nginx opens its windows to 2 GiB.
    with reading() as upstream, handing_on(server, tmp_path, upstream) as port:
        request = {
            "method": "POST",
            "headers": [],
            "body": base64.b64encode(b"\7" * UPLOAD_BYTES).decode(),
            "status": [200],
            "bytes": 2,
        }
        target = http_target(f"http://127.0.0.1:{port}/")
        load = web_level(
            target,
            workload="url",
            http_version="2",
            clients=1,
            threads=STREAMS,
            streams=STREAMS,
            request=request,
            length_s=0.5,
            ramp_up_s=0.0,
            ramp_down_s=0.0,
            timeout_s=PATIENCE_S,
        ).start()
        assert load.wait(PATIENCE_S), "the level does not end"
        result = load.result()
    assert result["errors"] == []
    assert result["operations_total"] >= STREAMS
    assert result["connections"] == 1


@pytest.mark.usefixtures("short_windows")
def test_no_client_leaves_a_server_that_allows_fewer_streams_than_are_asked_for(tmp_path: Path) -> None:
    # nginx refuses streams that were sent before its limit was known, and none after that.
    limit, streams, clients = 4, 50, 4
    authority = _native.Authority()
    certificate, key = authority.certify("ecdsa-p256", ["127.0.0.1"])
    (tmp_path / "cert.pem").write_text(certificate)
    (tmp_path / "key.pem").write_text(key)
    (tmp_path / "ca.pem").write_text(authority.pem)
    (tmp_path / "home").mkdir()
    home, folder = Home(tmp_path / "home"), tmp_path / "experiment"
    settings = (
        f"ssl_certificate {tmp_path}/cert.pem; ssl_certificate_key {tmp_path}/key.pem; server {{ "
        f"listen 127.0.0.1:{{port}} ssl http2; http2_max_concurrent_streams {limit}; "
        'location / { return 200 "ok"; } }'
    )
    plan = tmp_path / "plan.toml"
    with nginx(tmp_path, settings) as port:
        (tmp_path / "suite.toml").write_text(SUITE.format(streams=streams, clients=clients))
        plan.write_text(PLAN.format(port=port, ca=tmp_path / "ca.pem"))
        done = home.here("run", plan, "--into", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    with Experiment.open(folder) as experiment:
        [record] = experiment.levels()
    assert record.errors == []
    assert not any(row.left_at_s for row in record.by_client)
    counts = {row.request: row.count for row in record.requests}
    assert 0 < counts[REFUSED] <= clients * (streams - limit)
    # nginx ends each connection after 1,000 requests; on the next one the client knows its limit from the first stream.
    again = counts[REFUSED] + counts.get("HTTP/2 stream above GOAWAY", 0)
    assert counts["HTTP/2 stream"] == record.operations_total + again
    assert record.connections >= clients
    home.here("report", folder)
    page = html.unescape(re.sub("<[^>]*>", " ", (folder / "report" / "report.html").read_text()))
    report = " ".join(page.split())
    assert f"Refused unprocessed: {counts[REFUSED]:,} by REFUSED_STREAM" in report


SUITE = """
name = "limited"
title = "More streams than allowed"
source = "a test"
workload = "url"
clients = [{clients}]
threads = {streams}
length_s = 1
leave_after_errors = 1
[http]
version = "2"
streams = {streams}
"""
PLAN = """
name = "limited"
title = "More streams than allowed"
suite = "./suite.toml"
repetitions = 1
[[servers]]
server = "external"
url = "https://127.0.0.1:{port}/"
settings = {{ trust = "{ca}" }}
"""
