"""Messages about a bucket that can't be loaded: cause and remedy, with real errors."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from serverdyno import _native
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.objects import XML, error, keys, refused, set_key
from support.reference_servers import start_http, start_s3
from support.s3_proxy import Answer, Asked, s3_proxy
from support.users_web import nginx

pytestmark = pytest.mark.usefixtures("short_windows")
KEY_ID, SECRET = "AKIDTEST", "a-secret/that+nobody=shows"
SHORT = ("--clients", "1", "--length", "0.5s", "--size", "1000", "--objects", "2")
OFF_S = 20 * 60
MILLION = 1_000_000
CHANGING = ("Put", "Delete", "Copy", "Create", "Upload", "Complete")
MINE = {"mine": b"of the user"}
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(id, at);
  if (id == CLOCK_REALTIME) at->tv_sec += %d;
  return status;
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


@pytest.fixture(scope="module")
def server() -> Iterator[_native.ReferenceS3]:
    running = start_s3(access_key_id=KEY_ID, secret=SECRET, objects=MINE)
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_key(monkeypatch, tmp_path, KEY_ID, SECRET)


@pytest.mark.parametrize(
    ("changed", "bucket", "expected"),
    [
        (
            {"AWS_SECRET_ACCESS_KEY": "wrong"},
            "volume1",
            ("SignatureDoesNotMatch", "secret of the access key"),
        ),
        ({"AWS_ACCESS_KEY_ID": "NOBODY"}, "volume1", ("InvalidAccessKeyId", "does not know the access key")),
        ({"AWS_REGION": "eu-west-1"}, "volume1", ("AuthorizationHeaderMalformed", "another region")),
        ({}, "nothing", ("NoSuchBucket", "Create the bucket")),
    ],
)
def test_what_the_server_refuses_is_told_before_the_load_with_what_to_try(
    home: Home,
    server: _native.ReferenceS3,
    changed: dict[str, str],
    bucket: str,
    expected: tuple[str, str],
) -> None:
    url = f"s3://127.0.0.1:{server.port}/{bucket}"
    folder = home.temporary / "e"
    told = refused(home.here("objects", url, *SHORT, "--into", folder, **changed))
    assert all(words in told for words in expected), told
    assert SECRET not in told and not folder.exists()
    assert_unchanged(server)


def test_a_prefix_may_have_any_letters(home: Home) -> None:
    server = start_s3(access_key_id=KEY_ID, secret=SECRET, objects=MINE)
    try:
        url = f"s3://127.0.0.1:{server.port}/volume1/a b/ünï+c&=%25/x@y"
        level = ("--mix", "get=2,put=1,list=1,copy=1,head=1,delete_many=1")
        done = home.here("objects", url, *SHORT, *level)
        assert done.returncode == 0 and "No operation failed" in done.stdout, done.stderr
        assert server.requests()["PutObject"] > 0
    finally:
        server.stop()


def assert_unchanged(server: _native.ReferenceS3) -> None:
    """Check that the server received no request for a change."""
    changes = {name: count for name, count in server.requests().items() if name.startswith(CHANGING)}
    assert not any(changes.values()), changes


def test_requests_without_a_key_are_told_to_be_anonymous(
    home: Home, tmp_path: Path, server: _native.ReferenceS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    url = f"s3://127.0.0.1:{server.port}/volume1"
    told = refused(home.here("objects", url, *SHORT, "--into", tmp_path / "e"))
    assert "AccessDenied" in told and "not signed: export AWS_ACCESS_KEY_ID" in told
    assert_unchanged(server)


@pytest.mark.parametrize("off_s", [-OFF_S, OFF_S], ids=["late", "early"])
def test_a_clock_that_is_twenty_minutes_off_is_named(
    home: Home, tmp_path: Path, server: _native.ReferenceS3, off_s: int
) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "clock.c").write_text(CLOCK % off_s)
    library = tmp_path / "clock.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True, timeout=60
    )
    url = f"s3://127.0.0.1:{server.port}/volume1"
    options = ("--clients", "1", "--length", "1.2s", "--into", tmp_path / "e")
    told = refused(home.dyno("objects", url, *options, LD_PRELOAD=str(library)))
    assert "RequestTimeTooSkewed" in told and "differ by more than 15 minutes" in told
    assert_unchanged(server)


def test_a_bucket_that_is_full_fails_with_the_reason_and_keeps_the_users_objects(
    home: Home, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"objects": MINE, "capacity_mib": 1}
    small = start_s3(**options)
    try:
        url = f"s3://127.0.0.1:{small.port}/volume1"
        size = ("--clients", "1", "--length", "0.5s", "--size", "700000", "--objects", "4")
        told = refused(home.here("objects", url, *size, "--into", tmp_path / "e"))
        assert "no space left, or the bucket's quota is used up" in told
        assert set(small.requests()) >= {"PutObject"}
        assert keys(small.port) == ["mine"]
    finally:
        small.stop()


@pytest.mark.long
def test_a_million_other_objects_are_neither_listed_nor_touched(home: Home, tmp_path: Path) -> None:
    others = {f"other/{number:07}": b"" for number in range(MILLION)}
    crowded = start_s3(objects=others)
    try:
        url = f"s3://127.0.0.1:{crowded.port}/volume1"
        done = home.here("objects", url, *SHORT, "--mix", "put=1,list=1,delete=1", "--into", tmp_path / "e")
        assert done.returncode == 0, done.stderr
        pages = crowded.requests()["ListObjects"]
        assert pages < MILLION / 1000
        found, after = 0, ""
        while page := keys(crowded.port, f"list-type=2&start-after={after}"):
            assert all(key.startswith("other/") for key in page)
            found, after = found + len(page), page[-1]
        assert found == MILLION
    finally:
        crowded.stop()
    [record] = Experiment.open(tmp_path / "e").levels()
    assert record.operations and not record.errors


def test_a_web_server_is_told_from_an_s3_server(home: Home, tmp_path: Path) -> None:

    web = start_http({"/": b"hello"})
    try:
        told = refused(
            home.here("objects", f"s3://127.0.0.1:{web.port}/volume1", *SHORT, "--into", tmp_path / "e")
        )
        assert "hint:" in told
    finally:
        web.stop()


DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"


def forbid_deletes(asked: Asked) -> Answer:
    """Refuse deletions as S3 does, and pass on all other requests."""
    if asked.method == "DELETE" or "?delete" in asked.path:
        return 403, XML, DENIED
    return asked.passed_on()


def of_service(asked: Asked) -> Answer:
    """Answer like a server that takes the bucket in the host name for a part of its own name."""
    if asked.path.startswith("/?"):
        return 200, XML, b"<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"
    return 404, XML, b"<Error><Code>NoSuchBucket</Code></Error>"


def test_a_server_that_does_not_know_buckets_in_the_hosts_name_is_told(home: Home) -> None:
    with s3_proxy(0, of_service) as port:
        for host, words in (
            ("localhost", ("use --addressing path", "MINIO_DOMAIN")),
            ("127.0.0.1", ("the host must be a name, not an address",)),
        ):
            url = f"s3://{host}:{port}/volume1"
            told = refused(home.here("objects", url, *SHORT, "--addressing", "virtual"))
            assert all(word in told for word in words), told


def test_a_key_that_may_not_delete_is_told_and_what_stays_is_named(home: Home, tmp_path: Path) -> None:
    open_to_all = start_s3(objects=MINE)
    try:
        with s3_proxy(open_to_all.port, forbid_deletes) as port:
            url, options = f"s3://127.0.0.1:{port}/volume1", (*SHORT, "--mix", "put=1,delete=2")
            told = refused(home.here("objects", url, *options, "--into", tmp_path / "e"))
            left = [key for key in keys(open_to_all.port) if key != "mine"]
        assert len(left) < len(keys(open_to_all.port))
    finally:
        open_to_all.stop()
    assert "AccessDenied" in told and "permissions to put, get, list and delete objects" in told, told
    assert "some workspaces could not be removed" in told
    [below] = {key.partition("/")[0] for key in left}
    assert f"s3 rm --recursive s3://volume1/{below}/" in told, told


def enabled(asked: Asked) -> Answer:
    """Answer that the bucket has versioning."""
    if asked.path.endswith("?versioning="):
        xml = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        return 200, XML, xml
    return asked.passed_on()


def forbidden(asked: Asked) -> Answer:
    """Refuse the request for the versioning."""
    return (403, XML, DENIED) if asked.path.endswith("?versioning=") else asked.passed_on()


@pytest.mark.parametrize(("answered", "warnings"), [(enabled, 1), (forbidden, 0), (Asked.passed_on, 0)])
def test_a_bucket_with_versioning_is_warned_of_before_the_load(
    home: Home, tmp_path: Path, answered: Callable[[Asked], Answer], warnings: int
) -> None:
    open_to_all = start_s3()
    try:
        with s3_proxy(open_to_all.port, answered) as port:
            url = f"s3://127.0.0.1:{port}/volume1"
            done = home.here("objects", url, *SHORT, "--into", tmp_path / "e")
    finally:
        open_to_all.stop()
    said = " ".join(done.stderr.split())
    assert done.returncode == 0, said
    assert said.count("the bucket volume1 has versioning") == warnings, said


class Quota:
    """Accepts some objects, and then refuses each like a server whose bucket has a quota."""

    def __init__(self, code: str, status: int, objects: int) -> None:
        self.refusal = status, XML, f"<Error><Code>{code}</Code></Error>".encode()
        self.objects = objects

    def answered(self, asked: Asked) -> Answer:
        if asked.method != "PUT":
            return asked.passed_on()
        self.objects -= 1
        return asked.passed_on() if self.objects >= 0 else self.refusal


@pytest.mark.parametrize(("code", "status"), [("QuotaExceeded", 403), ("XMinioStorageFull", 507)])
def test_a_quota_that_is_used_up_under_load_is_told_and_what_was_put_is_removed(
    home: Home, tmp_path: Path, code: str, status: int
) -> None:
    open_to_all, quota = start_s3(objects=MINE), Quota(code, status, objects=20)
    try:
        with s3_proxy(open_to_all.port, quota.answered) as port:
            url, options = f"s3://127.0.0.1:{port}/volume1", ("--mix", "put=1", "--report", "--length", "3s")
            done = home.here("objects", url, *SHORT, *options, "--into", tmp_path / "e")
        assert keys(open_to_all.port) == ["mine"]
    finally:
        open_to_all.stop()
    told = " ".join((done.stdout + done.stderr).split())
    assert quota.objects < 0 and "Traceback" not in told
    assert f"the server's volume is full: status {status} {code}" in told, told


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("wrong-content=1", "differs from that of the acknowledged PUT"),
        ("torn-put=1", "differs from that of the acknowledged PUT"),
        ("wrong-etag=1", "A cache or proxy in front of the server may change it"),
    ],
)
def test_a_wrong_object_is_no_matter_of_permissions(
    home: Home, tmp_path: Path, fault: str, expected: str
) -> None:
    wrong = start_s3(access_key_id=KEY_ID, secret=SECRET, fault=fault)
    try:
        url, options = f"s3://127.0.0.1:{wrong.port}/volume1", ("--mix", "get=1", "--into", tmp_path / "e")
        told = refused(home.here("objects", url, *SHORT, *options))
    finally:
        wrong.stop()
    said = " ".join(told.split())
    assert said.count(expected) == 1, told
    assert not any(words in said for words in ("access key", "permission", "rights")), told


def test_a_web_server_is_told_as_one_that_does_not_speak_s3(home: Home, tmp_path: Path) -> None:
    with nginx(tmp_path, "server { listen 127.0.0.1:{port}; location / { return 404; } }") as port:
        done = home.here("objects", f"s3://127.0.0.1:{port}/bucket", *SHORT)
    assert done.returncode == 1 and "check that the URL is that of an S3 server" in done.stderr, done.stderr


def test_a_proxy_that_forbids_the_method_is_told_as_such(home: Home, tmp_path: Path) -> None:
    open_to_all = start_s3(objects=MINE)
    forbid = (
        "limit_except GET { deny all; } proxy_set_header Host $http_host; proxy_pass http://127.0.0.1:%d;"
    )
    server = "server { listen 127.0.0.1:{port}; location / { %s } }" % (forbid % open_to_all.port)
    try:
        with nginx(tmp_path, server) as port:
            told = refused(home.here("objects", f"s3://127.0.0.1:{port}/volume1", *SHORT))
    finally:
        open_to_all.stop()
    said = " ".join(told.split())
    assert "status 403 without an error document of S3" in said, told
    assert "a proxy in front of the server that forbids the method" in said and "permissions" not in said, (
        told
    )


def test_a_key_that_may_not_list_uploads_leaves_nothing_if_no_object_is_uploaded_in_parts(home: Home) -> None:
    asked_for_uploads: list[str] = []

    def forbid_lists(asked: Asked) -> Answer:
        if asked.method == "GET" and re.search("[?&]uploads", asked.path):
            asked_for_uploads.append(asked.path)
            return 403, XML, DENIED
        return asked.passed_on()

    open_to_all = start_s3()
    try:
        with s3_proxy(open_to_all.port, forbid_lists) as port:
            url = f"s3://127.0.0.1:{port}/volume1"
            done = home.here("objects", url, *SHORT, "--part-bytes", "5242880")
        assert keys(open_to_all.port) == []
    finally:
        open_to_all.stop()
    said = done.stderr
    assert done.returncode == 0 and "could not be removed" not in said, said
    assert asked_for_uploads and not any("serverdyno-clients-" in path for path in asked_for_uploads)


def refusing(status: int, content: bytes, headers: dict[str, str] | None = None, method: str = "PUT") -> Any:
    """Return a proxy's answers: a refusal of each request with this method, or of all if it is empty."""

    def answered(asked: Asked) -> Answer:
        if method in ("", asked.method):
            return status, XML | (headers or {}), content
        return asked.passed_on()

    return answered


def without_checksums(asked: Asked) -> Answer:
    """Refuse headers with checksums, as older servers do."""
    if any(name.lower().startswith("x-amz-checksum") for name in asked.headers):
        return 501, XML, b"<Error><Code>NotImplemented</Code><Message>A header you provided</Message></Error>"
    return asked.passed_on()


def without_delete_objects(asked: Asked) -> Answer:
    if asked.method == "POST" and urlsplit(asked.path).query == "delete=":
        return 501, XML, b"<Error><Code>NotImplemented</Code></Error>"
    return asked.passed_on()


def test_a_server_without_delete_objects_is_told_from_one_without_checksums(
    home: Home, server: _native.ReferenceS3
) -> None:
    with s3_proxy(server.port, without_delete_objects) as port:
        url = f"s3://127.0.0.1:{port}/volume1"
        told = refused(home.here("objects", url, *SHORT, "--mix", "get=1,put=2,delete_many=1"))
    assert "NotImplemented (in answer to DeleteObjects)" in " ".join(told.split()), told
    assert "leave delete_many out of --mix" in " ".join(told.split()) and "--checksum" not in told


def test_deletes_that_became_puts_are_told(home: Home, server: _native.ReferenceS3) -> None:
    url = f"s3://127.0.0.1:{server.port}/volume1"
    for mix, objects, is_told in (("delete=1", "1", True), ("get=1,put=1,delete=1", "50", False)):
        done = home.here("objects", url, *SHORT[:-1], objects, "--mix", mix)
        told = " ".join(done.stdout.split())
        assert done.returncode == 0, done.stderr
        assert (
            "operations were PUTs in place of delete, because a client had too few objects" in told
        ) is is_told


LOCKED = b"<Error><Code>AccessDenied</Code><Message>Denied \x1b[1mby object lock.</Message></Error>"
REGION = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>moon-1</Region></Error>"
CLEAR = b"<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>"
NAMED = b"<Error><Code>InvalidBucketName</Code></Error>"
EMPTY = {"Content-Length": "0"}


OLD = error("InvalidRequest", "Please use AWS2-HMAC-SHA1.")
UNSIGNED = error("InvalidRequest", "UNSIGNED-PAYLOAD is only allowed over TLS")
COLD = error("InvalidObjectState", "cold")
PAYER = error("AccessDenied", "Bucket is requester pays")
TOKEN = error("InvalidTokenId", "The security token is invalid")


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (refusing(413, b"<html></html>"), ("status 413", "client_max_body_size", "--part-bytes")),
        (refusing(403, b"<html></html>"), ("status 403 without an error document of S3", "limit_except")),
        (refusing(405, b"", method=""), ("status 405 without", "is not that of an S3 endpoint")),
        (refusing(501, b"<!DOCTYPE HTML>Unsupported method ('PUT')"), ("status 501 without", "limit_except")),
        (without_checksums, ("NotImplemented: A header you provided", "--checksum none")),
        (refusing(403, LOCKED), ("AccessDenied: Denied [1mby object lock.", "retention")),
        (refusing(400, REGION, method=""), ("region is moon-1", "give --region")),
        (refusing(301, b"", {"x-amz-bucket-region": "moon-2"}, ""), ("region is moon-2", "give --region")),
        (refusing(400, CLEAR, method=""), ("status 400: plain HTTP request", "use s3s://")),
        (refusing(400, NAMED, method=""), ("InvalidBucketName", "3 to 63 characters")),
        (refusing(400, OLD, method=""), ("InvalidRequest: Please use AWS2", "only Signature Version 2")),
        (refusing(400, UNSIGNED), ("InvalidRequest: UNSIGNED-PAYLOAD", "try --payload signed")),
        (refusing(403, COLD, method=""), ("status 403: InvalidObjectState: cold",)),
        (refusing(403, PAYER, method=""), ("AccessDenied: Bucket is requester pays",)),
        (refusing(403, TOKEN, method=""), ("InvalidTokenId: The security", "unset AWS_SESSION_TOKEN")),
        (refusing(429, b"<html></html>", method=""), ("status 429", "give --max-rate below the limit")),
        (
            refusing(405, b"", EMPTY, method="HEAD"),
            ("status 405 (in answer to HeadObject)", "leave head out of --mix"),
        ),
    ],
)
def test_a_refusal_is_told_with_what_its_server_says(
    home: Home, answered: Callable[[Asked], Answer], expected: tuple[str, ...]
) -> None:
    open_to_all = start_s3()
    try:
        with s3_proxy(open_to_all.port, answered) as port:
            told = refused(home.here("objects", f"s3://127.0.0.1:{port}/volume1", *SHORT))
    finally:
        open_to_all.stop()
    said = " ".join(told.split())
    assert all(words in said for words in expected), told
    assert "\x1b" not in told and "permissions to put" not in said
    assert "--checksum" not in said or answered is without_checksums


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_REGION"])
def test_a_carriage_return_in_a_variable_is_named(home: Home, name: str) -> None:
    told = refused(home.here("objects", "s3://127.0.0.1:1/volume1", *SHORT, **{name: "hidden\r"}))
    assert f"the variable {name} has a blank or a line break" in told and "hidden" not in told, told


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://volume1/a", "volume1 was taken for the host: a bucket is s3://HOST:PORT/volume1/a"),
        ("s3://127.0.0.1:1/volume1/a//b", "the prefix has an empty part (//)"),
        ("s3://127.0.0.1:1/volume1/a/../b", "the prefix has a part . or .."),
        (f"s3://127.0.0.1:1/volume1/{'a' * 513}", "the prefix is longer than 512 bytes"),
        ("s3://127.0.0.1:1/volume1/a#b", "write # in a name as %23"),
        ("s3://127.0.0.1:1/volume1/a?b", "write ? in a prefix as %3F"),
    ],
)
def test_a_url_that_means_another_place_is_refused(home: Home, url: str, expected: str) -> None:
    told = refused(home.here("objects", url, *SHORT))
    assert expected in " ".join(told.split()), told
