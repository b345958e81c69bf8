"""`dyno load` with any request: it sends what was specified, and counts what was defined as right."""

from __future__ import annotations

import base64
import http.server
import json
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native, wording
from serverdyno.store.experiment import Experiment
from serverdyno.units import mbit_per_s
from support.dyno_process import Home
from support.reference_servers import start_http, tls_of

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "2", "--length", "0.5s")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


class Asked:
    """The requests that a server received."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.headers: list[dict[str, str]] = []
        self.bodies: set[bytes] = set()
        self.status = 200


@contextmanager
def listening() -> Iterator[tuple[str, Asked]]:
    asked = Asked()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.requests[self.command, self.path] += 1
            asked.headers.append(dict(self.headers))
            asked.bodies.add(body)
            self.send_response(asked.status)
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"abc")

        def log_message(self, *_: Any) -> None:
            pass

    for method in ("GET", "POST", "PUT"):
        setattr(Handler, f"do_{method}", Handler.answer)

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/x", asked
        finally:
            server.shutdown()


def loaded(home: Home, url: str, *options: str | Path, **environment: str) -> Experiment:
    folder = home.temporary / "e"
    done = home.here("load", url, *SHORT, "--into", folder, *options, **environment)
    assert done.returncode == 0, done.stderr
    return Experiment.open(folder)


def test_a_post_carries_its_headers_its_body_and_the_secret_from_the_environment(
    home: Home, tmp_path: Path
) -> None:
    (tmp_path / "body").write_bytes(b'{"a": 1}\0\xff')
    with listening() as (url, asked):
        asked.status = 201
        options = (
            "-H",
            "Content-Type: application/json",
            "--data-file",
            tmp_path / "body",
            "--auth",
            "basic",
        )
        expected = ("--expect-status", "201", "--expect-bytes", "3")
        with loaded(home, url, *options, *expected, DYNO_AUTHORIZATION="me:secret") as experiment:
            [record] = experiment.levels()
            kept = [path.read_bytes() for path in experiment.folder.rglob("*") if path.is_file()]
    assert record.operations > 0 and not record.errors
    assert [row.operation for row in record.by_operation] == ["POST url"]
    load = [headers for headers in asked.headers if "Content-Type" in headers]
    encoded = base64.b64encode(b"me:secret").decode()
    assert {headers["Authorization"] for headers in load} == {f"Basic {encoded}"}
    assert {headers["Content-Type"] for headers in load} == {"application/json"}
    assert asked.bodies - {b""} == {b'{"a": 1}\0\xff'}
    assert not any(b"secret" in content or encoded.encode() in content for content in kept)


def test_what_an_upload_sends_stands_beside_what_it_receives(home: Home, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(bytes(100_000))
    with listening() as (url, _):
        upload = ("--data-file", tmp_path / "body", "-X", "put", "--json")
        done = home.here("load", url, *SHORT, *upload, "--into", home.temporary / "e")
    with Experiment.open(home.temporary / "e") as experiment:
        [record] = experiment.levels()
    sent = wording.significant(mbit_per_s(record.bytes_out, record.window_s))
    assert record.bytes_out > record.operations * 100_000
    assert [row.operation for row in record.by_operation] == ["PUT url"]
    assert f"Mbit/s received, {sent} Mbit/s sent) with" in f"{json.loads(done.stdout)}", done.stdout
    assert f"{sent} Mbit/s sent." in json.loads(done.stdout)["answer"]["times"]


def test_another_status_or_length_than_stated_is_an_error(home: Home) -> None:
    for options, fault in (
        (("--expect-status", "204"), "error_status"),
        (("--expect-bytes", "4"), "wrong_length"),
    ):
        with listening() as (url, _):
            done = home.here("load", url, *SHORT, "--into", home.temporary / fault, *options)
        assert done.returncode != 0
        assert ("status 200" if fault == "error_status" else "received 3 bytes, expected 4") in done.stderr


def test_paths_of_a_file_are_asked_for_by_weight_and_counted_by_themselves(
    home: Home, tmp_path: Path
) -> None:
    (tmp_path / "urls").write_text("# weights\n/a 3\n\n/b?c=d\n/never 0\n")
    with listening() as (url, asked), loaded(home, url, "--urls", tmp_path / "urls") as experiment:
        [record] = experiment.levels()
    counts = {row.operation: row.count for row in record.by_operation}
    assert set(counts) == {"GET /a", "GET /b?c=d", "GET /never"}
    assert counts["GET /never"] == 0
    assert counts["GET /a"] > counts["GET /b?c=d"] > 0
    assert asked.requests["GET", "/never"] == 0


def test_https_is_loaded_with_an_authority_of_ones_own_or_anybodys_word(home: Home, tmp_path: Path) -> None:
    authority = _native.Authority()
    # A bundle's comments may have any encoding, as in curl's.
    (tmp_path / "ca.pem").write_text(
        f"F\u0151tan\u00fas\u00edtv\u00e1ny\n===\n{authority.pem}", encoding="utf-8"
    )
    settings = tls_of(authority, "rsa-2048")
    server = start_http(body_bytes=100, tls=settings)
    url = f"https://127.0.0.1:{server.port}/"
    try:
        refused = home.here("load", url, *SHORT, "--into", home.temporary / "no")
        assert refused.returncode != 0 and "no trusted authority" in refused.stderr
        options = (
            "--ca-file",
            tmp_path / "ca.pem",
            "--tls-max",
            "1.2",
            "--no-keep-alive",
            "--resumption",
            "1",
        )
        with loaded(home, url, *options) as experiment:
            [record] = experiment.levels()
        assert {(row.version, row.key) for row in record.handshakes} == {("TLS 1.2", "RSA 2048")}
        assert sum(row.count for row in record.handshakes if row.resumed) > 0
        told = home.here("load", url, *SHORT, "--into", home.temporary / "any", "-k")
        assert told.returncode == 0
        assert "The clients accepted any certificate of target" in " ".join(told.stdout.split())
    finally:
        server.stop()


def test_mistaken_options_are_told_at_once(home: Home) -> None:
    done = home.here(
        *("load", "http://127.0.0.1:9/", "-k", "-H", "Authorization: Bearer x", "--method", "CONNECT"),
        *("--expect-status", "all", "--resumption", "2", "-c", "4", "-d", "5s"),
    )
    for said in (
        "--insecure and --ca-file",
        "--header-from-env",
        "--method",
        "--expect-status",
        "--resumption",
    ):
        assert said in done.stderr, said


def test_a_long_url_is_asked_for_and_reported(home: Home, tmp_path: Path) -> None:
    query = "a" * 4000
    with listening() as (url, asked):
        done = home.here("load", f"{url}/?q={query}", *SHORT, "--into", tmp_path / "e")
    assert (done.returncode, {path for _, path in asked.requests}) == (0, {f"/x/?q={query}"}), done.stderr
    assert home.here("report", tmp_path / "e").returncode == 0


def test_a_url_or_a_number_of_levels_beyond_our_bounds_is_refused_in_words(home: Home) -> None:
    many = ",".join(map(str, range(1, 2001)))
    done = home.here("load", f"http://127.0.0.1:9/{'a' * 70_000}", "--clients", many, "--repetitions", "9")
    assert done.returncode == 2
    assert "URL: has 70,019 characters, more than 65,536" in done.stderr
    done = home.here("load", "http://127.0.0.1:9/", "--clients", many, "--repetitions", "9")
    assert "--clients: 9 runs of 2,000 load levels are 18,000 in all; the limit is 10,000" in done.stderr
