"""Options of `dyno load` that users of other tools expect; nginx's log shows the requests."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from serverdyno.plan.expand import levels
from serverdyno.plan.load import load_plan
from serverdyno.plan.quick import quick_plan, with_scheme
from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "2", "--length", "0.5s")
LOG = (
    "log_format line '$request_method $uri $status $http_cookie $http_x_api_key $request_length';"
    " access_log access line; client_max_body_size 100m; client_body_buffer_size 1m;"
)
HELLO = LOG + "server { listen 127.0.0.1:{port}; location / { return 200 hello; } }"


def lines(at: Path) -> list[list[str]]:
    return [line.split() for line in (at / "access").read_text().splitlines()]


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_a_number_of_requests_is_made_exactly_and_the_level_ends_with_the_last(
    version: str, home: Home, tmp_path: Path
) -> None:
    settings = HELLO if version == "1.1" else HELLO.replace("{port};", "{port} http2;")
    with nginx(tmp_path, settings) as port:
        counted = ("-n", "1003", "--clients", "1,4", "--http", version, "--into", tmp_path / "e")
        done = home.here("load", f"http://127.0.0.1:{port}/", *counted)
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
    records = Experiment.open(tmp_path / "e").levels()
    assert [record.operations for record in records] == [1003, 1003]
    assert all(0 < record.window_s == record.length_s < 60 for record in records)
    assert all(record.server_cpu_s is not None for record in records)
    assert len(lines(tmp_path)) == 2 * 1003 + 2


def test_a_number_of_requests_excludes_a_rate_and_ramps(home: Home) -> None:
    for options, words in (
        (("--rate", "10"), "not allowed with open load"),
        (("--ramp", "1s"), "not allowed with ramps"),
    ):
        done = home.here("load", "127.0.0.1:9/", "-n", "1000", *options)
        assert done.returncode == 2 and words in done.stderr, done.stderr


@pytest.mark.parametrize("options", [(), ("--http2",), ("--pipeline", "4"), ("--no-keep-alive",)])
def test_head_has_no_body_whatever_length_is_declared(
    options: tuple[str, ...], home: Home, tmp_path: Path
) -> None:
    listen = "{port} http2;" if options == ("--http2",) else "{port};"
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    settings = f"{LOG} server {{ listen 127.0.0.1:{listen} root {tmp_path}; }}"
    with nginx(tmp_path, settings) as port:
        done = home.here("load", f"http://127.0.0.1:{port}/file", "-X", "HEAD", *options, *SHORT)
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
    assert {(line[0], line[2]) for line in lines(tmp_path)} == {("HEAD", "200")}


def test_cookies_and_headers_from_the_environment_are_sent_and_the_latter_not_recorded(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API", "X-Api-Key: hidden-value")
    asked = ("-b", "lang=de", "-H", "X-B: c", "--header-from-env", "API", "-n", "4", "--into", tmp_path / "e")
    with nginx(tmp_path, HELLO) as port:
        done = home.here("load", f"127.0.0.1:{port}/", *asked, *SHORT)
    assert done.returncode == 0, done.stderr
    assert {tuple(line[3:5]) for line in lines(tmp_path)} == {("lang=de", "hidden-value")}
    kept = b"".join(path.read_bytes() for path in (tmp_path / "e").rglob("*") if path.is_file())
    assert b"lang=de" in kept and b"hidden-value" not in kept and b"hidden-value" not in done.stdout.encode()


@contextmanager
def noting(heads: list[list[str]], address: str = "127.0.0.1") -> Iterator[int]:
    """Run a server that notes the lines of each request's head, and closes after its answer."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        if head := connection.recv(65536):
                            heads.append(head.decode().split("\r\n\r\n")[0].split("\r\n"))
                            connection.sendall(
                                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na"
                            )

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (("-b", "a=1", "-b", "b=2"), {"Cookie: a=1; b=2"}),
        (("-H", "Cookie: a=1", "--cookie", "b=2"), {"Cookie: a=1; b=2"}),
        (("-H", "TE: trailers"), {"TE: trailers", "Connection: TE"}),
        (("-H", "TE: trailers", "--no-keep-alive"), {"TE: trailers", "Connection: close, TE"}),
    ],
)
def test_cookies_are_one_line_and_te_is_sent_as_a_field_of_the_connection(
    options: tuple[str, ...], lines: set[str], home: Home
) -> None:
    heads: list[list[str]] = []
    with noting(heads) as port:
        done = home.here("load", f"127.0.0.1:{port}/", "--clients", "1", "-n", "2", *options)
    assert done.returncode == 0, done.stderr
    asked = [head for head in heads if any("Cookie" in line or "TE:" in line for line in head)]
    assert asked
    for head in asked:
        found = [line for line in head if line.startswith(("Cookie", "TE", "Connection"))]
        assert set(found) == lines and len(found) == len(lines)


def test_the_users_rate_is_the_limit_even_if_a_window_has_two_requests(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, HELLO) as port:
        done = home.here("load", f"127.0.0.1:{port}/", "--max-rate", "1", "--clients", "2", "--length", "3s")
    assert done.returncode == 0, done.stderr
    assert "What limits the speed: the plan's rate." in done.stdout


def test_a_header_that_looks_secret_is_refused_with_the_option_to_use(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for header in ("Authorization: Bearer x", "X-Api-Key: x", "X-Auth-Token: x", "Proxy-Authorization: x"):
        done = home.here("load", "127.0.0.1:9/", "-H", header)
        assert done.returncode == 2 and "--header-from-env" in done.stderr and ": x" not in done.stderr
    monkeypatch.setenv("WRONG", "no header")
    for variable, words in (("NOT_SET", "is not set"), ("WRONG", "does not contain a header")):
        done = home.here("load", "127.0.0.1:9/", "--header-from-env", variable)
        assert done.returncode == 2 and words in done.stderr, done.stderr


def test_the_name_of_a_header_in_place_of_a_variable_is_told(home: Home) -> None:
    for option in ("--header-from-env", "--auth-variable"):
        done = home.here("load", "127.0.0.1:9/", option, "X-Api-Key")
        assert done.returncode == 2 and "must be the name of an environment variable" in done.stderr


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_proxy_protocol_names_the_connections_own_addresses(
    version: str, home: Home, tmp_path: Path
) -> None:
    settings = (
        "log_format own '$proxy_protocol_addr $proxy_protocol_port $remote_addr $remote_port'; access_log access own;"
        "server { listen 127.0.0.1:{port} proxy_protocol; return 200 hello; }"
    )
    with nginx(tmp_path, settings) as port:
        asked = ("--proxy-protocol", version, "--no-keep-alive", "-n", "50")
        done = home.here("load", f"127.0.0.1:{port}/", *asked, *SHORT)
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
    assert len(lines(tmp_path)) == 52
    assert all(line[:2] == line[2:] for line in lines(tmp_path))


def test_a_body_above_16_mib_is_sent_whole(home: Home, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(bytes(20 << 20))
    settings = LOG + (
        f"server {{ listen 127.0.0.1:{{port}}; location / {{ proxy_pass http://unix:{tmp_path}/s; }} }}"
        f"server {{ listen unix:{tmp_path}/s; access_log off; return 200 hello; }}"
    )
    with nginx(tmp_path, settings) as port:
        done = home.here(
            "load",
            f"127.0.0.1:{port}/",
            "-p",
            tmp_path / "body",
            "-n",
            "2",
            "--clients",
            "2",
            "--length",
            "30s",
        )
    assert done.returncode == 0 and "No request failed" in done.stdout, done.stderr
    assert all(int(line[-1]) > 20 << 20 for line in lines(tmp_path))


def test_clients_that_think_start_apart(home: Home, tmp_path: Path) -> None:
    plan, suite, _ = quick_plan("127.0.0.1:9", {"think": "2s", "length": "10s"})
    assert plan.servers[0].url == "http://127.0.0.1:9"
    assert [level.delay_s for level in levels(suite)] == [2.0] * 4
    with nginx(tmp_path, HELLO) as port:
        asked = ("--clients", "200", "--think", "1s", "--length", "4s", "--into", tmp_path / "e")
        done = home.here("load", f"127.0.0.1:{port}/", *asked)
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(tmp_path / "e").levels()
    by_second = [row.operations for row in record.by_second[:4]]
    # In lockstep, all 200 would send only at the beginning of each second.
    assert all(150 <= operations <= 250 for operations in by_second), by_second


def test_a_time_limit_and_ramps_are_options() -> None:
    _, suite, _ = quick_plan("http://127.0.0.1:9/", {"timeout": "5s", "ramp": "2s", "length": "10s"})
    assert (suite.timeout_s, suite.ramp_up_s, suite.ramp_down_s) == (5, 2, 2)


@pytest.mark.parametrize(
    ("given", "clients"),
    [("1-64", [1, 2, 4, 8, 16, 32, 64]), ("3-20", [3, 6, 12, 20]), ("1,4-9,100", [1, 4, 8, 9, 100])],
)
def test_a_range_of_clients_is_doubled(given: str, clients: list[int]) -> None:
    _, suite, _ = quick_plan("http://127.0.0.1:9/", {"clients": given})
    assert suite.clients == clients


def test_a_range_of_statuses_is_each_of_them() -> None:
    _, suite, text = quick_plan("http://127.0.0.1:9/", {"expect_status": "200-204,404"})
    assert "200-204,404" in text
    assert suite.parameters()["http.request"]["status"] == [200, 201, 202, 203, 204, 404]  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("localhost:8080/a", "http://localhost:8080/a"),
        ("example.test", "http://example.test"),
        ("example.test:443/a?b", "https://example.test:443/a?b"),
        ("[::1]:80/", "http://[::1]:80/"),
        ("http://h/", "http://h/"),
        ("ftp://h/", "ftp://h/"),
        ("host:/export", "host:/export"),
        ("/path", "/path"),
    ],
)
def test_a_url_without_a_scheme_is_one_of_http(given: str, url: str) -> None:
    assert with_scheme(given) == url


def test_each_address_of_a_name_has_a_row_of_its_own(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = "server { listen 127.0.0.1:{port}; listen 127.0.0.2:{port}; return 200 $server_addr; }"
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{last}", 0)) for last in (1, 2)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    settings = "log_format to '$server_addr $host'; access_log access to;" + both
    with nginx(tmp_path, settings) as port:
        asked = ("--addresses", "all", "--max-rate", "500", "--into", tmp_path / "e")
        done = home.here("load", f"http://twice.test:{port}/", *asked, *SHORT)
    assert done.returncode == 0, done.stderr
    assert "target-127.0.0.1" in done.stdout and "target-127.0.0.2" in done.stdout
    served = Counter(map(tuple, lines(tmp_path)))
    assert set(served) == {("127.0.0.1", "twice.test"), ("127.0.0.2", "twice.test")}


@pytest.mark.parametrize("address", ["::1", "127.0.0.1"])
def test_the_addresses_of_localhost_are_those_on_which_something_listens(
    address: str, home: Home, tmp_path: Path
) -> None:
    with noting([], address) as port:
        asked = ("--addresses", "all", "--into", tmp_path / "e")
        done = home.here("load", f"http://localhost:{port}/", *asked, *SHORT)
    assert done.returncode == 0, done.stderr
    head = Experiment.open(tmp_path / "e").head
    assert [each.settings["connect_to"] for each in head.configurations] == [address]


def test_settings_of_load_are_settings_of_suites(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'name = "own"\nsource = "a test"\nworkload = "url"\nclients = [1]\nlength_s = 10\noperations = 5\n'
        '[http]\nproxy_protocol = "v2"\nmax_head_bytes = 400000\nmax_head_fields = 2000\n'
        '[http.tls]\ncertificate = "client.pem"\nkey = "client.key"\n'
        '[http.request]\nmethod = "HEAD"\nheaders_from_env = ["API"]\n'
    )
    (tmp_path / "plan.toml").write_text(
        'name = "p"\nsuite = "own.toml"\n[[servers]]\nserver = "external"\nname = "t"\nurl = "https://127.0.0.1:9/"\n'
    )
    [suite] = load_plan(
        tmp_path / "plan.toml", {name: driver.settings_type for name, driver in DRIVERS.items()}
    ).suites
    assert suite.operations == 5
