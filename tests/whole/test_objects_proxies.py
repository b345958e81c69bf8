"""What is said of a bucket behind a proxy or cache that changes, refuses or remembers answers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from support.dyno_process import Home
from support.objects import XML, error, refused, set_key
from support.reference_servers import start_s3
from support.s3_proxy import Answer, Asked, s3_proxy
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
KEY_ID, SECRET = "AKIDTEST", "a-secret/that+nobody=shows"
SHORT = ("--clients", "1", "--length", "0.5s", "--size", "1000", "--objects", "2")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_key(monkeypatch, tmp_path, KEY_ID, SECRET)


def test_a_server_without_chunks_is_told_from_a_wrong_secret(home: Home) -> None:
    def without_chunks(asked: Asked) -> Answer:
        if any(value.startswith("STREAMING") for value in asked.headers.values()):
            return 403, XML, b"<Error><Code>SignatureDoesNotMatch</Code></Error>"
        return asked.passed_on()

    open_to_all = start_s3()
    try:
        with s3_proxy(open_to_all.port, without_chunks) as port:
            url = f"s3://127.0.0.1:{port}/volume1"
            told = refused(home.here("objects", url, *SHORT, "--payload", "chunked"))
    finally:
        open_to_all.stop()
    said = " ".join(told.split())
    assert "may not support payloads in chunks" in said and "Check the secret" not in said, told


class Hesitant:
    """Refuses the first requests, as a server whose token bucket is empty, and serves all others."""

    def __init__(self, refusals: int) -> None:
        self.left = refusals

    def answered(self, asked: Asked) -> Answer:
        self.left -= 1
        return (
            asked.passed_on() if self.left < 0 else (503, XML | {"Retry-After": "1"}, error("SlowDown", ""))
        )


def test_a_server_that_refuses_the_first_requests_is_asked_again(home: Home) -> None:
    open_to_all = start_s3()
    try:
        for refusals, is_served in ((4, True), (10**9, False)):
            hesitant = Hesitant(refusals)
            with s3_proxy(open_to_all.port, hesitant.answered) as port:
                url = f"s3://127.0.0.1:{port}/volume1"
                done = home.here("objects", url, *SHORT, "--max-rate", "100")
            assert (done.returncode == 0) is is_served, done.stderr
        assert 10**9 - hesitant.left < 20 and "give --max-rate below" in " ".join(done.stderr.split())
    finally:
        open_to_all.stop()


def test_a_server_that_limits_the_rate_is_checked_slowly(home: Home) -> None:
    """nginx's limit_req, which answers 429 to all but the first requests."""
    prepared: list[str] = []
    got: list[str] = []

    def limited(asked: Asked) -> Answer:
        if asked.method == "PUT":
            prepared.append(asked.path)
        if asked.method == "GET" and "?" not in asked.path:
            got.append(asked.path)
            if len(got) > 3:
                return 429, {}, b"<html></html>"
        return asked.passed_on()

    open_to_all = start_s3()
    try:
        with s3_proxy(open_to_all.port, limited) as port:
            done = home.here("objects", f"s3://127.0.0.1:{port}/volume1", *SHORT, "--mix", "get=1")
    finally:
        open_to_all.stop()
    said = " ".join((done.stdout + done.stderr).split())
    assert "status 429" in said and "give --max-rate below the limit" in said, said
    # Both objects in a quick and a slow attempt, in the level, and in two attempts after a level without a success.
    assert len(prepared) <= 10, prepared


CACHE = (
    "proxy_cache_path cache keys_zone=z:1m; server { listen 127.0.0.1:{port}; location / { proxy_cache z; "
    "proxy_cache_valid 200 60s; %s proxy_set_header Host $http_host; proxy_pass http://127.0.0.1:%d; } }"
)
TOLD_APART = "proxy_cache_convert_head off; proxy_cache_key $request_method$request_uri;"


def through_nginx(home: Home, tmp_path: Path, settings: str, mix: str) -> str:
    """Return what is said of a load with the right access key through nginx with a cache."""
    behind = start_s3(access_key_id=KEY_ID, secret=SECRET)
    try:
        with nginx(tmp_path, CACHE % (settings, behind.port)) as port:
            url, options = f"s3://127.0.0.1:{port}/volume1", (*SHORT, "--mix", mix, "--into", tmp_path / "e")
            done = home.here("objects", url, *options)
    finally:
        behind.stop()
    return " ".join((done.stdout + done.stderr).split())


def test_old_answers_of_a_cache_are_told_as_such_however_old_they_are(home: Home, tmp_path: Path) -> None:
    said = through_nginx(home, tmp_path, TOLD_APART, "get=1,put=2")
    assert "an object has the content or ETag from before its last PUT" in said, said
    assert "cache in front of the server" in said and "--part-bytes" not in said, said
    assert "differs from the one that its PUT returned" not in said, said


def test_a_proxy_that_turns_head_into_get_is_told_from_a_missing_permission(
    home: Home, tmp_path: Path
) -> None:
    said = through_nginx(home, tmp_path, "", "head=1,put=2")
    assert "status 403 (in answer to HeadObject)" in said and "proxy_cache_convert_head off" in said, said


def weak(asked: Asked) -> Answer:
    status, headers, content = asked.passed_on()
    return status, headers | {name: f"W/{headers[name]}" for name in headers if name == "Etag"}, content


def zipped(asked: Asked) -> Answer:
    """Compress contents that nobody asked to be compressed."""
    status, headers, content = asked.passed_on()
    if asked.method == "GET" and "?" not in asked.path:
        return status, headers | {"Content-Encoding": "gzip"}, gzip.compress(content)
    return status, headers, content


@pytest.mark.parametrize(
    ("answered", "method", "expected"),
    [
        (weak, "GET", ("has a weak ETag", "turn compression off")),
        (zipped, "GET", ("has a Content-Encoding that nobody asked for", "gzip off")),
    ],
)
def test_a_proxy_that_changes_answers_is_named_by_what_it_adds(
    home: Home, answered: Callable[[Asked], Answer], method: str, expected: tuple[str, ...]
) -> None:
    def changed(asked: Asked) -> Answer:
        return answered(asked) if asked.method == method else asked.passed_on()

    open_to_all = start_s3()
    try:
        with s3_proxy(open_to_all.port, changed) as port:
            told = refused(home.here("objects", f"s3://127.0.0.1:{port}/volume1", *SHORT, "--mix", "get=1"))
    finally:
        open_to_all.stop()
    said = " ".join(told.split())
    assert all(words in said for words in expected) and "--part-bytes" not in said, told
