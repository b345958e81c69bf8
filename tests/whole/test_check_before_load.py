"""The check before load asks as the load does, as seldom as the question allows, and stops only what can never work."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "1", "--length", "0.5s")
LOG = "log_format line '$msec $request_method $uri $server_protocol $status $http_x_a $host'; access_log access line;"


def lines(at: Path) -> list[list[str]]:
    return [line.split() for line in (at / "access").read_text().splitlines()]


def test_a_server_that_speaks_http2_in_the_clear_alone_is_measured(home: Home, tmp_path: Path) -> None:
    settings = LOG + "server { listen 127.0.0.1:{port} http2; return 200 hello; }"
    with nginx(tmp_path, settings) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", "--http2", *SHORT)
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
    assert {line[3] for line in lines(tmp_path)} == {"HTTP/2.0"}


def test_the_check_has_the_method_the_headers_and_the_host_of_the_load_and_asks_once_each_time(
    home: Home, tmp_path: Path
) -> None:
    settings = LOG + (
        "server { listen 127.0.0.1:{port} default_server; return 444; }"
        'server { listen 127.0.0.1:{port}; server_name www.test; if ($http_x_a != "b") { return 403; }'
        " if ($request_method != POST) { return 405; } return 200 hello; }"
    )
    with nginx(tmp_path, settings) as port:
        asked = ("-H", "Host: www.test", "-H", "X-A: b", "--data", "x", "-n", "3")
        done = home.here("load", f"http://127.0.0.1:{port}/", *asked, *SHORT)
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
    assert {tuple(line[1:]) for line in lines(tmp_path)} == {
        ("POST", "/", "HTTP/1.1", "200", "b", "www.test")
    }
    assert len(lines(tmp_path)) == 3 + 2  # before the runs, and at the beginning of the run


def test_a_server_that_limits_the_rate_is_measured_at_a_rate_below_that(home: Home, tmp_path: Path) -> None:
    settings = LOG + (
        "limit_req_zone $binary_remote_addr zone=all:1m rate=50r/s; limit_req_status 429;"
        "limit_req zone=all burst=20 nodelay;"
        f"server {{ listen 127.0.0.1:{{port}}; root {tmp_path}; }}"
    )
    (tmp_path / "index.html").write_text("hello")
    with nginx(tmp_path, settings) as port:
        rate = ("--rate", "30", "--arrivals", "uniform", "--clients", "8", "--length", "2s")
        done = home.here("load", f"http://127.0.0.1:{port}/", *rate)
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stdout + done.stderr
    assert len(lines(tmp_path)) <= 2 * 30 + 2 + 8


def test_a_server_that_fails_now_and_then_is_measured_and_its_errors_are_counted(
    home: Home, tmp_path: Path
) -> None:
    settings = LOG + (
        'split_clients "$request_id" $fails { 50% yes; * no; }'
        "server { listen 127.0.0.1:{port}; if ($fails = yes) { return 500; } return 200 hello; }"
    )
    with nginx(tmp_path, settings) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    assert " errors (" in json.dumps(json.loads(done.stdout)), done.stdout


@contextmanager
def failing_first(failures: int) -> Iterator[int]:
    """A server whose first requests fail, as of one that is still warming up."""
    left = failures

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            nonlocal left
            left -= 1
            self.send_response(503 if left >= 0 else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join()


def test_a_bad_answer_in_the_check_is_a_warning_if_another_is_right(home: Home) -> None:
    with failing_first(1 + 2) as port:
        # The question before the runs meets the first; those of the run meet two.
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT)
    assert done.returncode == 0, done.stderr
    assert "No request failed" in done.stdout
    with failing_first(5) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT)
    assert done.returncode == 1 and "status 503 (5 of 5 requests)" in done.stderr, done.stderr


def test_five_wrong_answers_of_five_stop_a_run_before_the_load(home: Home, tmp_path: Path) -> None:
    settings = LOG + "server { listen 127.0.0.1:{port}; location / { return 500; } }"
    with nginx(tmp_path, settings) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT)
    assert done.returncode == 1 and "status 500 (5 of 5 requests)" in done.stderr, done.stderr
    moments = [float(line[0]) for line in lines(tmp_path)]
    assert len(moments) == 5
    assert min(after - before for before, after in itertools.pairwise(moments)) >= 0.19


def test_the_version_of_a_users_server_is_what_it_says_in_the_check(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, LOG + "server { listen 127.0.0.1:{port}; return 200 hello; }") as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT, "--into", tmp_path / "e")
    assert done.returncode == 0, done.stderr
    disclosed = Experiment.open(tmp_path / "e").disclosure()
    assert disclosed["servers"]["target"]["version"].startswith("nginx/")
