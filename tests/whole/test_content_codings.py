"""Bodies in a content coding that the load accepts: a sample is decoded, and a broken body is an error."""

from __future__ import annotations

import gzip
import html
import http.server
import re
import socketserver
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from serverdyno.store.experiment import Experiment
from serverdyno.store.records import LevelRecord
from support.dyno_process import Home
from support.users_web import caddy, h2o, nginx

pytestmark = pytest.mark.usefixtures("short_windows")
SHORT = ("--clients", "2", "--length", "0.5s")
TEXT = b"<p>Each answer is checked. " * 400
MOST_DECODED = 2 * 51
"""Most bodies decoded in half a second: one per 10 ms for each of at most two generator threads."""
SMALL_BR = b"\x0b\x02\x80hello\x03"
"""`hello` (RFC 7932)."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


@contextmanager
def answering(coding: str, *bodies: bytes) -> Iterator[str]:
    """Yield the URL of a server whose bodies have the right length.

    It sends the first body while one connection is open, and the last while more are open.
    """
    opened: set[Any] = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            opened.add(self)

        def finish(self) -> None:
            opened.discard(self)
            super().finish()

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Encoding", coding)
            self.send_header("Content-Length", str(len(bodies[0])))
            self.end_headers()

        def do_GET(self) -> None:
            body = bodies[0 if len(opened) == 1 else -1]
            self.send_response(200)
            self.send_header("Content-Encoding", coding)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


def loaded(home: Home, url: str, accepted: str | None, *options: str) -> LevelRecord:
    """Return the record of a load that accepts these codings."""
    asked = () if accepted is None else ("-H", f"Accept-Encoding: {accepted}")
    folder = home.temporary / "e"
    done = home.here("load", url, *SHORT, *asked, *options, "--into", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    with Experiment.open(folder) as experiment:
        [record] = experiment.levels()
    assert record.errors == [] and record.operations > 0
    return record


def counts_of(record: LevelRecord) -> dict[str, int]:
    return {row.request: row.count for row in record.requests if row.request.startswith("body ")}


@contextmanager
def live(server: str, at: Path) -> Iterator[str]:
    """Yield the URL of a document that a server compresses."""
    (at / "text.html").write_bytes(TEXT)
    if server == "nginx":
        settings = f"gzip on; server {{ listen 127.0.0.1:{{port}}; root {at}; }}"
        with nginx(at, settings) as port:
            yield f"http://127.0.0.1:{port}/text.html"
    elif server == "caddy":
        with caddy(at, f"root * {at}\n encode gzip zstd\n file_server") as port:
            yield f"http://127.0.0.1:{port}/text.html"
    else:
        with h2o(at, "compress: ON") as port:
            yield f"http://127.0.0.1:{port}/text.html"


@pytest.mark.parametrize(
    ("server", "accepted", "counted"),
    [
        ("nginx", "gzip", "body decoded (gzip)"),
        ("caddy", "gzip", "body decoded (gzip)"),
        ("h2o", "br", "body decoded (br)"),
        ("caddy", "zstd", "body not decoded (another content coding)"),
    ],
)
def test_a_sample_of_the_bodies_that_live_servers_code_is_decoded(
    server: str, accepted: str, counted: str, home: Home, tmp_path: Path
) -> None:
    with live(server, tmp_path) as url:
        record = loaded(home, url, accepted)
    counts = counts_of(record)
    assert list(counts) == [counted]
    assert 0 < counts[counted] <= MOST_DECODED
    assert record.by_operation[0].bytes_read < record.operations * len(TEXT) / 4


@pytest.mark.parametrize("streams", [(), ("--http2", "--streams", "5")], ids=["HTTP/1.1", "HTTP/2"])
def test_the_report_says_how_many_bodies_were_decoded(
    streams: tuple[str, ...], home: Home, tmp_path: Path
) -> None:
    folder = home.temporary / "e"
    with h2o(tmp_path, "compress: ON") as port:
        (tmp_path / "text.html").write_bytes(TEXT)
        record = loaded(home, f"http://127.0.0.1:{port}/text.html", "gzip", *streams)
    [count] = counts_of(record).values()
    home.here("report", folder)
    page = html.unescape(re.sub("<[^>]*>", " ", (folder / "report" / "report.html").read_text()))
    report = " ".join(page.split())
    assert f"Compressed bodies that clients decoded to check them: {count:,} gzip." in report


def test_nothing_is_decoded_that_was_not_asked_for(home: Home, tmp_path: Path) -> None:
    with answering("gzip", gzip.compress(TEXT)[:-20]) as url:
        for accepted in (None, "identity"):
            assert counts_of(loaded(Home(fresh(tmp_path, accepted)), url, accepted)) == {}


def fresh(at: Path, name: str | None) -> Path:
    (made := at / f"of-{name}").mkdir()
    return made


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(TEXT)[:-1]),
        ("gzip", gzip.compress(TEXT)[:40]),
        ("gzip", b""),
        ("deflate", zlib.compress(TEXT)[:-4]),
        ("br", SMALL_BR[:-1]),
    ],
    ids=["gzip by a byte", "gzip within", "gzip to nothing", "deflate", "br"],
)
def test_a_body_that_is_cut_short_is_an_error_although_all_of_its_length_came(
    coding: str, body: bytes, home: Home
) -> None:
    with answering(coding, body) as url:
        done = home.here(
            "load", url, *SHORT, "-H", f"Accept-Encoding: {coding}", "--into", home.temporary / "e"
        )
    assert done.returncode != 0
    assert f"damaged or truncated {coding}" in done.stderr, done.stderr


def test_a_plain_body_that_is_labelled_gzip_is_told_from_a_damaged_one(home: Home) -> None:
    with answering("gzip", TEXT) as url:
        done = home.here("load", url, *SHORT, "-H", "Accept-Encoding: gzip")
    said = " ".join(done.stderr.split())
    assert "it is not gzip, although Content-Encoding says so" in said, said
    assert "leave out Content-Encoding where it is set" in said, said


def test_an_answer_to_head_has_no_body_to_decode(home: Home) -> None:
    with answering("gzip", gzip.compress(TEXT)) as url:
        done = home.here("load", url, *SHORT, "-X", "HEAD", "-H", "Accept-Encoding: gzip")
    assert done.returncode == 0, done.stderr
    assert "decoded" not in done.stderr


def test_bodies_that_are_cut_short_under_load_are_counted_by_name(home: Home) -> None:
    # The checks before load use one connection, so they get the complete body.
    folder = home.temporary / "e"
    right = gzip.compress(TEXT)
    with answering("gzip", right, right[:-1]) as url:
        home.here("load", url, *SHORT, "-H", "Accept-Encoding: gzip", "--into", folder)
    with Experiment.open(folder) as experiment:
        [record] = experiment.levels()
    [error] = record.errors
    assert (error.side, error.fault) == ("check", "broken_coding")
    assert error.example == "the response's body can't be decoded: damaged or truncated gzip"
    assert 0 < error.count <= MOST_DECODED
