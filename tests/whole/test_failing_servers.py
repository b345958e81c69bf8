"""Servers that refuse most requests, or are away for a while: the report says so, without blaming the generator."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.dyno_process import Home
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
LIMITED = (
    "limit_req_zone $binary_remote_addr zone=all:1m rate=20r/s; limit_req_status 429;"
    "server { listen 127.0.0.1:{port}; root {root}; location / { limit_req zone=all burst=5 nodelay; } }"
)

SUITE = """
name = "s"
title = "s"
source = "of our own"
workload = "url"
clients = [2]
length_s = 1.0
ramp_up_s = 0.4
"""


@pytest.mark.parametrize(
    "options",
    [
        ("--clients", "1,4", "--length", "0.5s"),
        ("--clients", "8", "--length", "1s", "--rate", "400"),
        ("--clients", "8", "--length", "1s", "--objective", "p99<50ms", "--rate", "400,800"),
    ],
)
def test_a_server_that_refuses_most_requests_is_said_to_do_so_first(
    home: Home, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "index.html").write_text("hello")
    with nginx(tmp_path, LIMITED.replace("{root}", f"{tmp_path}")) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *options)
    told = " ".join(done.stdout.split())
    assert done.returncode == 0 and "of the requests failed at" in told, done.stdout + done.stderr
    assert told.count("The server limits the rate of requests: send fewer requests with --rate") == 1
    assert "What limits the speed: errors." in told
    assert "generator-limited" not in told and "load generator" not in told
    verdict = told.partition("How sure")[0]
    assert "kept up" not in verdict and "peaks at" not in verdict
    assert "--objective" in options or "requests to target failed with" in verdict


def test_a_server_that_fails_before_the_window_is_why_there_is_no_comparison(
    home: Home, tmp_path: Path
) -> None:
    settings = LIMITED.replace("{root}", f"{tmp_path}").removesuffix("}") + "location = /free.html { } }"
    for name in ("index.html", "free.html"):
        (tmp_path / name).write_text("hello")
    suite = tmp_path / "s.toml"
    suite.write_text(SUITE)
    with nginx(tmp_path, settings) as port:
        servers = "".join(
            f'[[servers]]\nserver = "external"\nname = "{name}"\nurl = "http://127.0.0.1:{port}/{name}.html"\n'
            for name in ("index", "free")
        )
        plan = tmp_path / "p.toml"
        plan.write_text(f'name = "p"\nsuite = "./s.toml"\nrepetitions = 1\n{servers}')
        done = home.here("run", plan, "--into", tmp_path / "e")
    told = " ".join(done.stdout.split())
    assert told.startswith("No comparison: index completed no request (the server answered"), told
    assert "limits the speed: index: errors; free: " in told
    assert "before the window, in which no operation ended); the server answered" in told


class Answers(BaseHTTPRequestHandler):
    """Ends its server after `left` answers, unless it is None."""

    protocol_version = "HTTP/1.1"
    left: int | None = 200

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if self.left is not None:
            type(self).left = self.left - 1
            self.close_connection = self.left <= 0
            if self.left == 0:
                threading.Thread(target=self.server.shutdown).start()

    def log_message(self, *_: object) -> None: ...


class Staying(Answers):
    left = None


@contextmanager
def restarting() -> Iterator[int]:
    """Run a server that is away for 0.3 s after 200 answers."""
    first = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    stopped = threading.Event()

    def serve() -> None:
        with first:
            first.serve_forever(poll_interval=0.01)
        stopped.wait(0.3)
        with ThreadingHTTPServer(first.server_address, Staying) as second:
            second.timeout = 0.1
            while not stopped.is_set():
                second.handle_request()

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        yield first.server_port
    finally:
        stopped.set()
        first.shutdown()
        serving.join()


def test_a_server_that_was_away_is_said_to_have_been(home: Home) -> None:
    with restarting() as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", "--clients", "2", "--length", "2s")
    told = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    assert "The server was down, restarted or refused connections at 1 load level" in told, told
    assert "What limits the speed: errors." in told and "load generator" not in told
