"""The removal of objects and unfinished uploads from a server that lists them with empty pages."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from serverdyno import _native
from support.dyno_process import PATIENCE_S, Home, wait_for_line, wait_until
from support.experiments import Listener, carried_out
from support.objects import PARTS, bucket, created, keys, planned, tiny
from support.reference_servers import start_s3
from support.s3_proxy import Answer, Asked, s3_proxy

pytestmark = pytest.mark.usefixtures("short_windows")
XML = {"Content-Type": "application/xml"}
EMPTY = "<{0}><IsTruncated>true</IsTruncated>{1}</{0}>"
FOREVER = 1 << 30


class EmptyPages:
    """Keeps uploads of the level unfinished, and begins each list with empty pages that are not the last."""

    def __init__(self, objects: int, uploads: int) -> None:
        self.objects, self.uploads = objects, uploads
        self.holds, self.over, self.begins = threading.Event(), threading.Event(), threading.Event()

    def answered(self, asked: Asked) -> Answer | None:
        query = dict(parse_qsl(urlsplit(asked.path).query, keep_blank_values=True))
        if "partNumber" in query and self.holds.is_set():
            self.over.wait(PATIENCE_S)
            return None
        if self.begins.is_set() and asked.method == "GET":
            if "uploads" in query:
                return self.uploads_page(asked, query)
            if "list-type" in query:
                return self.objects_page(asked, query)
        return asked.passed_on()

    def objects_page(self, asked: Asked, query: dict[str, str]) -> Answer:
        number = int(query.pop("continuation-token", 0))
        if number < self.objects:
            token = f"<NextContinuationToken>{number + 1}</NextContinuationToken>"
            return 200, XML, EMPTY.format("ListBucketResult", token).encode()
        return passed_on(asked, query)

    def uploads_page(self, asked: Asked, query: dict[str, str]) -> Answer:
        number = int(query.pop("key-marker", 0))
        query.pop("upload-id-marker", None)
        if number < self.uploads:
            markers = f"<NextKeyMarker>{number + 1}</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>"
            return 200, XML, EMPTY.format("ListMultipartUploadsResult", markers).encode()
        return passed_on(asked, query)


def passed_on(asked: Asked, query: dict[str, str]) -> Answer:
    asked.path = f"{urlsplit(asked.path).path}?{urlencode(query)}"
    return asked.passed_on()


@contextmanager
def loaded(folder: Path, pages: EmptyPages) -> Iterator[int]:
    """Create an experiment on a bucket behind `pages`, and yield the port of the bucket's server."""
    server = start_s3()
    try:
        with s3_proxy(server.port, pages.answered) as port:
            suite = tiny([2], length_s=60, shape={"timeout_s": 10}, **PARTS)
            planned(folder, suite, [bucket(f"s3://127.0.0.1:{port}/volume1")])
            yield server.port
    finally:
        server.stop()


@pytest.mark.parametrize(("objects", "uploads"), [(0, 2), (2, 0), (FOREVER, 0), (0, FOREVER)], ids=str)
def test_empty_pages_end_no_list_and_delay_no_end(
    home: Home, tmp_path: Path, objects: int, uploads: int
) -> None:
    pages = EmptyPages(objects, uploads)
    with loaded(tmp_path / "e", pages) as port, home.started("resume", tmp_path / "e") as dyno:
        wait_for_line(dyno, "starting")
        wait_until(lambda: len(keys(port)) == 2, "each client has put its object")
        pages.holds.set()
        wait_until(lambda: len(keys(port, "uploads")) == 2, "two uploads are under way")
        pages.begins.set()
        dyno.terminate()
        _, told = dyno.communicate(timeout=PATIENCE_S)
        pages.over.set()
        assert "Traceback" not in told
        if FOREVER in (objects, uploads):
            assert "some workspaces could not be removed" in told and "abort-multipart-upload" in told, told
        else:
            assert (keys(port), keys(port, "uploads")) == ([], []), told


def test_an_upload_alone_that_a_killed_load_left_is_named_and_stays(tmp_path: Path) -> None:
    key = f"{_native.Workspaces.DIRECTORY}-0/0/0/p0000/o00000000"
    server, listener = start_s3(), Listener()
    try:
        url = f"http://127.0.0.1:{server.port}/volume1/{key}?uploads"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=PATIENCE_S):
            pass
        folder = created(tmp_path / "e", f"s3://127.0.0.1:{server.port}/volume1", clients=[1])
        assert carried_out(folder, listener), listener.failures
        [notice] = listener.notices
        assert "already exists on bucket volume1, from a load that was killed" in notice
        assert (keys(server.port), keys(server.port, "uploads")) == ([], [key])
    finally:
        server.stop()


def test_no_such_upload_is_no_leftover(home: Home, tmp_path: Path) -> None:
    asked_for = 0

    def no_such_upload(asked: Asked) -> Answer:
        """Answer lists of uploads as rclone does if there are none."""
        nonlocal asked_for
        if asked.method == "GET" and "uploads" in urlsplit(asked.path).query:
            asked_for += 1
            return 404, XML, b"<Error><Code>NoSuchUpload</Code></Error>"
        return asked.passed_on()

    server = start_s3()
    try:
        with s3_proxy(server.port, no_such_upload) as port:
            options = ("--clients", "2", "--length", "0.6s", "--size", "2000", "--into", tmp_path / "e")
            done = home.here("objects", f"s3://127.0.0.1:{port}/volume1", *options)
        assert keys(server.port) == []
    finally:
        server.stop()
    told = done.stdout + done.stderr
    assert asked_for >= 2 and done.returncode == 0, told
    assert "could not be removed" not in told and "abort-multipart-upload" not in told, told


def test_a_server_that_deletes_only_single_objects_keeps_none(home: Home, tmp_path: Path) -> None:
    refused = 0

    def deletes_one_by_one(asked: Asked) -> Answer:
        nonlocal refused
        if asked.method == "POST" and urlsplit(asked.path).query == "delete=":
            refused += 1
            return 501, XML, b"<Error><Code>NotImplemented</Code></Error>"
        return asked.passed_on()

    server = start_s3()
    try:
        with s3_proxy(server.port, deletes_one_by_one) as port:
            options = ("--clients", "2", "--length", "0.6s", "--size", "2000", "--into", tmp_path / "e")
            done = home.here("objects", f"s3://127.0.0.1:{port}/volume1", *options)
        assert keys(server.port) == []
    finally:
        server.stop()
    assert refused >= 2 and done.returncode == 0, done.stdout + done.stderr
