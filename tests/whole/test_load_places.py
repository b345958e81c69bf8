"""Where `dyno load` connects (a Unix socket, another address), pipelined requests, and its result as JSON.

Against nginx, whose own log shows the requests that arrived.
"""

from __future__ import annotations

import errno
import json
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from benches.levels import http_target

from serverdyno.plan.protocols import normal_url
from serverdyno.plan.quick_http import HttpOptions
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home
from support.reference_servers import start_http

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "2", "--length", "0.5s")
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
CONFIGURATION = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 256; }}
http {{
  log_format line '$connection $connection_requests $host $request_method $uri $status';
  access_log {folder}/access line;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{ listen unix:{folder}/s; listen 127.0.0.1:{port};
    location / {{ keepalive_requests 500; return 200 "hello"; }} }}
}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


class Nginx:
    """A user's nginx that listens on a port and on a Unix socket."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.path = folder / "s"

    def log(self) -> list[list[str]]:
        return [line.split() for line in (self.folder / "access").read_text().splitlines()]


@contextmanager
def nginx() -> Iterator[Nginx]:
    if NGINX is None:
        pytest.skip("nginx is not installed")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The path of a Unix socket has at most 107 bytes.
    folder = Path(
        subprocess.run(
            ["mktemp", "-d", "/tmp/ngXXXXXX"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    (folder / "conf").write_text(CONFIGURATION.format(folder=folder, port=port))
    with subprocess.Popen([NGINX, "-c", folder / "conf", "-e", folder / "error"]) as process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not _listens(port):
                assert process.poll() is None and time.monotonic() < deadline, "nginx does not start"
                time.sleep(0.02)
            yield Nginx(folder, port)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            shutil.rmtree(folder)


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_socket_in_the_file_system_is_loaded_as_the_host_of_the_url(home: Home) -> None:
    with nginx() as server:
        done = home.here(
            *("load", "http://shop.example/x", *SHORT, "--unix-socket", server.path),
            *("--into", home.temporary / "e"),
        )
        log = server.log()
    assert done.returncode == 0, done.stderr
    with Experiment.open(home.temporary / "e") as experiment:
        [record] = experiment.levels()
    assert record.operations > 0 and not record.errors
    load = [line for line in log if line[4] == "/x"]
    assert {tuple(line[2:]) for line in load} == {("shop.example", "GET", "/x", "200")}
    # A level without enough CPU time is repeated, so there may be more.
    assert len(load) >= record.operations_total
    for place, said in (("/tmp/absent/socket", "does not exist"), (__file__, "is not a Unix socket")):
        refused = home.here("load", "http://shop.example/", *SHORT, "--unix-socket", place)
        assert refused.returncode == 2 and f"{place} {said}" in refused.stderr, refused.stderr


def test_a_socket_where_nobody_listens_is_named(home: Home, tmp_path: Path) -> None:
    stale = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(stale))
    done = home.here("load", "http://shop.example/", *SHORT, "--unix-socket", stale)
    assert done.returncode == 1 and f"target at {stale}: nothing answers HTTP" in done.stderr, done.stderr
    assert "nothing listens on it" in done.stderr and "the port" not in done.stderr


def test_a_socket_of_a_plan_that_can_not_be_used_is_told_by_its_cause(home: Home, tmp_path: Path) -> None:
    suite = 'name = "s"\ntitle = "s"\nsource = "own"\nworkload = "url"\nclients = [1]\nlength_s = 1\n'
    (tmp_path / "s.toml").write_text(suite)
    datagrams = tmp_path / "datagrams"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(datagrams))
        for place, said in (
            (tmp_path / "absent", "The socket's file does not exist"),
            (datagrams, "not a stream socket (SOCK_STREAM)"),
        ):
            (tmp_path / "p.toml").write_text(
                'name = "p"\nsuite = "./s.toml"\nrepetitions = 1\n[[servers]]\nserver = "external"\n'
                f'url = "http://shop.example/"\nsettings = {{ connect_to = "{place}" }}\n'
            )
            checked = home.here("plan", "check", tmp_path / "p.toml")
            assert (f"{place} does not exist" in checked.stdout + checked.stderr) == (place != datagrams)
            done = home.here("run", tmp_path / "p.toml")
            assert done.returncode == 1 and said in done.stderr, done.stderr
            assert "nothing listens there" not in done.stderr


def test_a_name_is_resolved_as_the_option_says_and_elsewhere_needs_bounds_and_consent(home: Home) -> None:
    with nginx() as server:
        url = f"http://shop.example:{server.port}/y"
        place = f"shop.example:{server.port}:127.0.0.1"
        done = home.here("load", url, *SHORT, "--resolve", place, "--into", home.temporary / "e")
        hosts = Counter(line[2] for line in server.log() if line[4] == "/y")
    assert done.returncode == 0, done.stderr
    assert set(hosts) == {"shop.example"} and hosts["shop.example"] > 100
    for wrong, said in (
        (f"other.example:{server.port}:127.0.0.1", "is not the URL's host"),
        (f"shop.example:{server.port + 1}:127.0.0.1", "is not the URL's host"),
        ("shop.example:127.0.0.1", "is not HOST:PORT:ADDRESS"),
        (f"shop.example:{server.port}:here", "is not an IP address"),
        (f"shop.example:{server.port}:192.0.2.1", "--max-rate: required"),
    ):
        refused = home.here("load", url, *SHORT, "--resolve", wrong)
        assert refused.returncode == 2 and said in refused.stderr, refused.stderr


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_a_url_without_a_port_is_resolved_at_that_of_its_scheme(scheme: str, port: int) -> None:
    options = HttpOptions(resolve=f"shop.example:{port}:127.0.0.1")
    assert list(options.problems(f"{scheme}://shop.example/")) == []


def test_an_address_elsewhere_is_asked_for_consent_though_the_url_names_this_machine() -> None:
    with pytest.raises(PermissionError, match="is not this machine"):
        http_target("http://127.0.0.1:9/", connect_to="192.0.2.1")
    for place in ("here", "relative/socket", ""):
        with pytest.raises(ValueError, match=r"target\.connect_to"):
            http_target("http://h/", connect_to=place)


def test_a_name_of_this_machine_is_found_by_a_look_up(home: Home) -> None:
    for host, said in (
        ("127.1", None),
        ("nowhere.invalid", "nowhere.invalid has no address"),
        ("http//127.0.0.1", "URL: the colon is missing: http://127.0.0.1"),
        ("b\u00fccher.invalid", "write the host as xn--bcher-kva.invalid"),
        ("[fe80::1%25lo]", "names an interface (%25lo), which is not supported: use another address"),
        ("127.0.0.1/a b", "write http://127.0.0.1/a%20b"),
    ):
        done = home.here("load", f"http://{host}:9/", *SHORT)
        assert "--max-rate" not in done.stderr, done.stderr
        assert (said or "nothing accepted the connection") in done.stderr, done.stderr


def test_a_url_is_taken_in_every_legal_form(home: Home) -> None:
    with nginx() as server:
        host = f"127.0.0.1:{server.port}"
        for url in (f"HTTP://{host}", f"http://{host}?x=1"):
            done = home.here("load", url, *SHORT, "-n", "2")
            assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
        assert {line[4] for line in server.log()} == {"/"}
    assert normal_url("Https://h:/a") == "https://h/a"
    assert normal_url("SMB://h/Share?x") == "smb://h/Share?x"
    assert normal_url("file:///a?b") == "file:///a?b"
    assert normal_url("file:/a/b") == "file:///a/b"
    assert normal_url("no url") == "no url"


def test_requests_that_are_sent_ahead_are_answered_though_nginx_closes_connections_between_them(
    home: Home,
) -> None:
    with nginx() as server:
        done = home.here(
            *("load", f"http://127.0.0.1:{server.port}/z", *SHORT, "--pipeline", "8"),
            *("--into", home.temporary / "e"),
        )
        log = [line for line in server.log() if line[4] == "/z"]
    assert done.returncode == 0, done.stderr
    assert "with pipelined requests" in done.stderr
    with Experiment.open(home.temporary / "e") as experiment:
        [record] = experiment.levels()
    # nginx closes a connection after 500 requests; those that it has not answered are sent again.
    assert record.operations_total > 0 and not record.errors
    connections = len({line[0] for line in log})
    assert connections > 2
    assert len(log) >= record.operations_total


def test_the_result_as_json_is_all_of_standard_output(home: Home) -> None:
    server = start_http(body_bytes=100)
    try:
        url = f"http://127.0.0.1:{server.port}/"
        done = home.here("load", url, *SHORT, "--json", "--into", home.temporary / "e")
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    [configuration] = document["configurations"]
    assert configuration["name"] == "target"
    assert document["schema_version"] == 1
    assert "To write the report" in done.stderr


def test_the_habits_of_other_tools_are_understood_or_answered(home: Home, tmp_path: Path) -> None:
    (tmp_path / "body").write_text("a=b")
    for habit, said in (
        (("-c64", "-n", "10"), "--requests: must be at least 64, one per connection"),
        (("-z", "10s"), "--length"),
        (("-i",), "--method HEAD"),
        (("-q", "10"), "--rate"),
        (("-q",), "Leave ab's -q out"),
        (("-v",), "dyno --version"),
        (("-u", "body"), "--method PUT --data-file"),
        (("-u", "me:secret"), "DYNO_AUTHORIZATION"),
        (("-x", "http://proxy:3128"), "dyno uses no proxy"),
        (("-I",), "--method HEAD"),
        (("-L",), "dyno does not follow redirects"),
        (("--cacert", "ca.pem"), "--ca-file"),
        (("--concurrency", "10"), "--clients"),
        (("--http3",), "does not speak HTTP/3"),
        (("--compressed",), "Accept-Encoding"),
        (("--tlsv1.2",), "--tls-min"),
        (("-w",), "--report"),
        (("-s", "script.lua"), "--session"),
        (("-A", "me:secret"), "DYNO_AUTHORIZATION"),
        (("--latency",), "always shows"),
        (("-X", "proxy:1"), "--method: must be"),
        (("-m", "10"), "--streams"),
        (("-k",), "unlike ab -k"),
    ):
        done = home.here("load", "http://127.0.0.1:9/", *habit)
        assert done.returncode == 2 and said in done.stderr, (habit, done.stderr)
    for letter in "BefgiIlPqrsSuvVwxyzZA":  # options of ab
        option = f"-{letter}"
        done = home.here("load", "http://127.0.0.1:9/", option, "1")
        assert done.returncode == 2 and f"{option}: " in done.stderr, done.stderr
        assert "No such option" not in done.stderr
    for option in (
        "--connections",
        "--duration",
        "--script",
        "--latency",
        "--version",
    ):  # options of wrk
        done = home.here("load", "http://127.0.0.1:9/", option, "1")
        assert done.returncode == 2 and "No such option" not in done.stderr, done.stderr
    posted = ("-p", tmp_path / "body", "-T", "application/x-www-form-urlencoded", "-H", "X-A: -n")
    done = home.here("load", "http://127.0.0.1:9/", *posted, "-c", "2", "-t", "1", "-d", "0.5s")
    assert "nothing accepted the connection" in done.stderr, done.stderr


@pytest.mark.parametrize(("here", "other"), [("127.0.0.1", "::1"), ("::1", "127.0.0.1")])
def test_a_name_of_loopback_is_loaded_wherever_the_server_listens(home: Home, here: str, other: str) -> None:
    with alone(here, other) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            for name in ("localhost", "shop.localhost"):
                done = home.here("load", f"http://{name}:{server.server_port}/", *SHORT)
                assert done.returncode == 0, done.stderr
        finally:
            server.shutdown()
            serving.join()


@contextmanager
def alone(here: str, other: str) -> Iterator[ThreadingHTTPServer]:
    """Yield a server whose port no other process can use on the other loopback address.

    Otherwise another test's server could have the same port there, and a loopback name would also mean that server.
    """

    class There(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in here else socket.AF_INET

    with socket.socket(socket.AF_INET6 if ":" in other else socket.AF_INET) as kept_free:
        while True:
            server = There((here, 0), Quick)
            with server:
                try:
                    kept_free.bind((other, server.server_port))
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                    continue
                yield server
                return


class Quick(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...
