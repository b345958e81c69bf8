"""The check before load sends the load's own requests, as few as possible, and stops only what can never work."""

from __future__ import annotations

import json
import selectors
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.reference_servers import start_smb
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
    assert len(lines(tmp_path)) == 3 + 2  # before the runs, and at the start of the run


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
        'split_clients "$request_id" $fails { 20% yes; * no; }'
        "server { listen 127.0.0.1:{port}; if ($fails = yes) { return 500; } return 200 hello; }"
    )
    with nginx(tmp_path, settings) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    assert " errors (" in json.dumps(json.loads(done.stdout)), done.stdout


@contextmanager
def failing_first(failures: int) -> Iterator[int]:
    """Run a server whose first requests fail, like one that is still starting."""
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
        # The check before the runs gets the first failure; the checks of the run get two.
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT)
    assert done.returncode == 0, done.stderr
    assert "No request failed" in done.stdout
    with failing_first(5) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT)
    assert done.returncode == 1 and "status 503 (5 of 5 requests)" in done.stderr, done.stderr


class FirstOfEachConnection(BaseHTTPRequestHandler):
    """Refuses the first request of each connection, like a server that has to wake its back end."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def do_GET(self) -> None:
        self.asked += 1
        self.send_response(503 if self.asked == 1 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_server_that_refuses_the_first_request_of_each_connection_is_measured(home: Home) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), FirstOfEachConnection) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            done = home.here("load", f"http://127.0.0.1:{server.server_port}/", *SHORT)
        finally:
            server.shutdown()
            serving.join()
    assert done.returncode == 0 and "1 error (1 on the server side)" in done.stdout, done.stdout + done.stderr


@contextmanager
def cutting(port: int, cuts: int) -> Iterator[int]:
    """Run a proxy that cuts its first connections once they carry load."""
    left = cuts

    def carry(theirs: socket.socket) -> None:
        nonlocal left
        with (
            theirs,
            socket.create_connection(("127.0.0.1", port)) as ours,
            selectors.DefaultSelector() as ready,
        ):
            ways, carried = {theirs: ours, ours: theirs}, 0
            for each in ways:
                ready.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    carried += len(data)
                    if not data or (carried > 100_000 and left > 0):
                        left -= carried > 100_000
                        return
                    ways[key.fileobj].sendall(data)  # type: ignore[index]

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    pool.submit(carry, listening.accept()[0])

        serving = pool.submit(serve)
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.result()


PLAN = """
name = "p"
title = "P"
suite = "small.toml"
repetitions = 1
[[servers]]
server = "external"
name = "target"
url = "smb://127.0.0.1:{port}/"
settings = {{ shares = ["volume1"] }}
"""
SUITE = """
name = "small"
title = "Small"
description = "d"
source = "a test"
workload = "diskmix"
clients = [1]
length_s = 0.5
"""


def test_a_file_server_that_loses_a_connection_is_asked_again_and_measured(home: Home) -> None:
    (home.temporary / "small.toml").write_text(SUITE)
    server = start_smb()
    try:
        with cutting(server.port, 1) as port:
            (home.temporary / "plan.toml").write_text(PLAN.format(port=port))
            done = home.here("run", "plan.toml")
        assert done.returncode == 0, done.stderr
        assert "a request failed in the check before the load" in done.stderr, done.stderr
        with cutting(server.port, 1000) as port:
            (home.temporary / "plan.toml").write_text(PLAN.format(port=port))
            done = home.here("run", "plan.toml")
        assert done.returncode == 1 and "FAILED" in done.stderr, done.stderr
    finally:
        server.stop()


def test_five_wrong_answers_of_five_stop_a_run_before_the_load(home: Home, tmp_path: Path) -> None:
    settings = LOG + "server { listen 127.0.0.1:{port}; location / { return 500; } }"
    with nginx(tmp_path, settings) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT)
    assert done.returncode == 1 and "status 500 (5 of 5 requests)" in done.stderr, done.stderr
    moments = [float(line[0]) for line in lines(tmp_path)]
    assert len(moments) == 5
    # One request may be late and the next on time, so their distance may be shorter than the pause.
    assert moments[-1] - moments[0] >= 4 * 0.19


def test_the_version_of_a_users_server_is_what_it_says_in_the_check(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, LOG + "server { listen 127.0.0.1:{port}; return 200 hello; }") as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT, "--into", tmp_path / "e")
    assert done.returncode == 0, done.stderr
    disclosed = Experiment.open(tmp_path / "e").disclosure()
    assert disclosed["servers"]["target"]["version"].startswith("nginx/")


def test_a_path_of_a_list_that_fails_each_time_is_named_before_and_after_the_load(
    home: Home, tmp_path: Path
) -> None:
    (home.temporary / "urls").write_text("/good 9\n/bad 1\n")
    settings = LOG + "server { listen 127.0.0.1:{port}; location /good { return 200 hello; } }"
    with nginx(tmp_path, settings) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/", *SHORT, "--urls", "urls", "-n", "400")
    assert done.returncode == 0, done.stderr
    assert "/bad: the server answered with a status that is not a success: status 404" in done.stderr
    assert "failed each time: GET /bad (" in " ".join(done.stdout.split()), done.stdout


@pytest.mark.parametrize("counted", [(), ("-n", "2")])
def test_a_level_that_is_shorter_than_an_answer_is_told_before_the_load(
    home: Home, counted: tuple[str, ...]
) -> None:
    class Slow(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            threading.Event().wait(1.0)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            done = home.here("load", f"http://127.0.0.1:{server.server_port}/", *SHORT, *counted)
        finally:
            server.shutdown()
            serving.join()
    assert done.returncode == 1 and "no request succeeded at any load level" in done.stderr, done.stderr
    assert "an answer took 1.0 s, but a load level lasts only 0.5 s" in done.stderr, done.stderr
    assert "--length 1" in done.stderr
