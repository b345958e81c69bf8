"""The reference S3 server under its driver, from the command line, and with a client other than ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from serverdyno.plan.protocols.access import AccessKey
from serverdyno.servers.rclone import Rclone
from serverdyno.servers.reference_model import SECRET_VARIABLE
from serverdyno.servers.reference_s3 import ReferenceS3
from serverdyno.servers.registry import create
from serverdyno.servers.running import started
from serverdyno.servers.signed_request import ObjectClient
from support.file_server import PATIENCE_S
from support.reference_servers import start_s3

KEY: AccessKey = ("id", "secret", None)


def client_of(port: int, key: AccessKey | None = KEY) -> ObjectClient:
    return ObjectClient("127.0.0.1", port, key, PATIENCE_S)


@contextmanager
def serving(**options: Any) -> Iterator[_native.ReferenceS3]:
    """Run the reference server on threads of this process."""
    server = start_s3(**options)
    try:
        yield server
    finally:
        server.stop()


def test_the_driver_starts_it_with_a_key_and_counts_its_requests() -> None:
    server = create("reference-s3", {"flush": "ignore", "threads": 2}, documents=Path(os.devnull))
    assert isinstance(server, ReferenceS3)
    with started(server):
        access = server.access()
        assert access.access_key is not None and access.access_key[1] not in repr(server.describe())
        before = server.operations_served() or {}
        with client_of(server.port, access.access_key) as client:
            for number in range(5):
                assert client.ask("PUT", f"/volume1/{number}", b"x")[0] == HTTPStatus.OK
            assert client.ask("GET", "/volume1/3") == (HTTPStatus.OK, b"x")
        after = server.operations_served() or {}
        assert after["PutObject"] - before["PutObject"] == 5
        assert after["GetObject"] - before["GetObject"] == 1
        assert server.requests_served() == sum(after.values())
    assert not server.directory.exists()


def test_only_a_right_signature_of_the_right_region_is_accepted() -> None:
    with serving(access_key={"id": "id", "secret": "secret"}) as server:
        for key, code in [
            (None, "AccessDenied"),
            (("id", "wrong", None), "SignatureDoesNotMatch"),
            (("other", "secret", None), "InvalidAccessKeyId"),
        ]:
            with client_of(server.port, key) as client:
                status, answer = client.ask("PUT", "/volume1/k", b"x")
            assert status == HTTPStatus.FORBIDDEN and code.encode() in answer
        with client_of(server.port) as client:
            assert client.ask("PUT", "/volume1/a b+ä~&=", b"x")[0] == HTTPStatus.OK
            assert client.ask("GET", "/volume1/a b+ä~&=") == (HTTPStatus.OK, b"x")
    with serving(access_key={"id": "id", "secret": "secret"}, region="eu-west-1") as server:
        with client_of(server.port) as client:
            status, answer = client.ask("PUT", "/volume1/k", b"x")
        assert status == HTTPStatus.BAD_REQUEST and b"<Region>eu-west-1</Region>" in answer


def test_the_command_prints_its_port_and_a_signal_restarts_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "serverdyno", "reference", "s3", "--flush", "ignore"]
    options = ["--access-key-id", "id", "--outage-s", "0", "--counts", f"{tmp_path / 'counts'}"]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, text=True, env={**os.environ, SECRET_VARIABLE: "secret"}
    )
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        with client_of(port) as client:
            assert client.ask("PUT", "/volume1/k", b"x")[0] == HTTPStatus.OK
        process.send_signal(signal.SIGHUP)
        assert json.loads(process.stdout.readline()) == {"lost_objects": 1}
        with client_of(port) as client:
            assert client.ask("GET", "/volume1/k")[0] == HTTPStatus.NOT_FOUND
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
    without = {name: value for name, value in os.environ.items() if name != SECRET_VARIABLE}
    done = subprocess.run(
        [*command, "--access-key-id", "id"], capture_output=True, text=True, env=without, check=False
    )
    assert done.returncode != 0 and SECRET_VARIABLE in done.stderr


def test_rclone_copies_a_tree_to_it_and_finds_the_same(tmp_path: Path) -> None:
    found = Rclone.installed()
    if found is None:
        pytest.skip("rclone is not installed here: run make servers-objects")
    tree = tmp_path / "tree"
    for name, size in {"a b/ä+&.bin": 100_000, "c/empty": 0, "large": 12 << 20}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(os.urandom(size))
    with serving(access_key={"id": "id", "secret": "secret"}) as server:
        variables = {
            "RCLONE_CONFIG": os.devnull,
            "RCLONE_S3_PROVIDER": "Other",
            "RCLONE_S3_ENDPOINT": f"http://127.0.0.1:{server.port}",
            "RCLONE_S3_ACCESS_KEY_ID": "id",
            "RCLONE_S3_SECRET_ACCESS_KEY": "secret",
            "RCLONE_S3_UPLOAD_CUTOFF": "5M",
            "RCLONE_S3_CHUNK_SIZE": "5M",
        }
        for command in (["copy"], ["check", "--download"]):
            done = subprocess.run(
                [str(found.program), *command, str(tree), ":s3:volume1/x"],
                capture_output=True,
                text=True,
                env={**os.environ, **variables},
                timeout=PATIENCE_S * 4,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        assert server.requests()["CompleteMultipartUpload"] == 1


def test_each_fault_is_named_with_its_meaning() -> None:
    named = dict(_native.reference_faults("s3"))
    assert {"lost-put=10", "stale-read=10", "truncated-list=10", "slow-down=10"} <= set(named)
    with pytest.raises(ValueError, match="lost-put"):
        start_s3(fault="sulk")
