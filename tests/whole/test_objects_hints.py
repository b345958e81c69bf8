"""What is said of a bucket that can't be loaded: the cause and what to try, with the real error of a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from support.dyno_process import Home
from support.reference_servers import start_http, start_s3
from support.s3_proxy import Answer, Asked, s3_proxy

pytestmark = pytest.mark.usefixtures("short_windows")
KEY_ID, SECRET = "AKIDTEST", "a-secret/that+nobody=shows"
SHORT = ("--clients", "1", "--length", "0.5s", "--size", "1000", "--objects", "2")
LATE_S = 20 * 60
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(id, at);
  if (id == CLOCK_REALTIME) at->tv_sec -= %d;
  return status;
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


@pytest.fixture(scope="module")
def server() -> Iterator[_native.ReferenceS3]:
    running = start_s3(access_key_id=KEY_ID, secret=SECRET, objects={"mine": b"of the user"})
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


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


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def test_requests_without_a_key_are_told_to_be_anonymous(
    home: Home, tmp_path: Path, server: _native.ReferenceS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    url = f"s3://127.0.0.1:{server.port}/volume1"
    told = refused(home.here("objects", url, *SHORT, "--into", tmp_path / "e"))
    assert "AccessDenied" in told and "not signed: give an access key" in told


def test_a_clock_that_is_twenty_minutes_late_is_named(
    home: Home, tmp_path: Path, server: _native.ReferenceS3
) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "clock.c").write_text(CLOCK % LATE_S)
    library = tmp_path / "clock.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True, timeout=60
    )
    url = f"s3://127.0.0.1:{server.port}/volume1"
    options = ("--clients", "1", "--length", "1.2s", "--into", tmp_path / "e")
    told = refused(home.dyno("objects", url, *options, LD_PRELOAD=str(library)))
    assert "RequestTimeTooSkewed" in told and "differ by more than 15 minutes" in told


def test_a_bucket_that_is_full_fails_with_the_reason_and_keeps_the_users_objects(
    home: Home, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"objects": {"mine": b"of the user"}, "capacity_mib": 1}
    small = start_s3(**options)
    try:
        url = f"s3://127.0.0.1:{small.port}/volume1"
        size = ("--clients", "1", "--length", "0.5s", "--size", "700000", "--objects", "4")
        told = refused(home.here("objects", url, *size, "--into", tmp_path / "e"))
        assert "no space left, or the bucket's quota is used up" in told
        assert set(small.requests()) >= {"PutObject"}
    finally:
        small.stop()


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
    """Pass all requests on but those that delete, which are refused as S3 does."""
    if asked.method == "DELETE" or "?delete" in asked.path:
        return 403, {"Content-Type": "application/xml"}, DENIED
    return asked.passed_on()


def test_a_key_that_may_not_delete_is_told_and_what_stays_is_named(home: Home, tmp_path: Path) -> None:
    open_to_all = start_s3()
    try:
        with s3_proxy(open_to_all.port, forbid_deletes) as port:
            url, options = f"s3://127.0.0.1:{port}/volume1", (*SHORT, "--mix", "put=1,delete=2")
            told = refused(home.here("objects", url, *options, "--into", tmp_path / "e"))
    finally:
        open_to_all.stop()
    assert "AccessDenied" in told and "permissions to put, get, list and delete objects" in told, told
    assert "some workspaces could not be removed" in told and "s3 rm --recursive s3://volume1/" in told
