"""boto3 and rclone read our client's objects from real servers, and it reads theirs.

A server that is not installed is skipped: `make servers-objects` installs all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from serverdyno.servers.object_server import BUCKET, ObjectServer
from serverdyno.servers.rclone import Rclone
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.object_servers import running
from support.s3_exchanges import PART_BYTES, boto3_client
from support.s3_proxy import Answer, Asked, s3_proxy
from support.s3_readers import RcloneClient, Readers, read_by_boto3

SERVERS = ("garage", "minio", "seaweedfs", "versitygw")
"""Without rclone's own server, because several of its defects concern PUTs."""
PAYLOADS = ("unsigned", "signed", "chunked")
REFUSED = {("garage", "chunked")}
"""Garage's signature of the trailer differs from Amazon's documentation: see docs/objects-method.md."""
SHORT = ("--clients", "2", "--length", "0.6s", "--objects", "2")
SIZES = {
    "small": ("--size", "3000"),
    "parts": ("--size", f"{PART_BYTES + 100_000}", "--part-bytes", f"{PART_BYTES}", "--parts-in-flight", "2"),
}
pytestmark = pytest.mark.usefixtures("short_windows")


@dataclass
class Clients:
    """A server, with clients other than ours."""

    server: ObjectServer[Any]
    boto3: Any
    rclone: RcloneClient

    def loaded(self, home: Home, port: int, into: Path, *options: str) -> None:
        """Load the server through a proxy, without errors."""
        key_id, secret, _ = self.server.key
        url = f"s3://127.0.0.1:{port}/{BUCKET}"
        variables = {"AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": secret}
        done = home.here("objects", url, *SHORT, *options, "--into", into, **variables)
        # The objects put before the level suffice, because on a slow machine its window may be empty.
        assert [record.errors for record in Experiment.open(into).levels()] == [[]], done.stderr


@contextmanager
def clients_of(name: str, folder: Path) -> Iterator[Clients]:
    found = Rclone.installed()
    if found is None or found.program is None:
        pytest.skip("rclone is not installed here: run make servers-objects")
    with running(name, {}) as server:
        yield Clients(
            server,
            boto3_client(f"http://127.0.0.1:{server.port}", server.key),
            RcloneClient(found.program, server.port, server.key, BUCKET, folder),
        )


@pytest.mark.parametrize("name", SERVERS)
def test_boto3_and_rclone_read_what_our_client_put(home: Home, tmp_path: Path, name: str) -> None:
    with clients_of(name, tmp_path) as clients:
        for size, options in SIZES.items():
            for payload in [each for each in PAYLOADS if (name, each) not in REFUSED]:
                readers = Readers(BUCKET, read_by_boto3(clients.boto3, BUCKET), clients.rclone.read)
                with s3_proxy(clients.server.port, readers.answered) as port:
                    into = tmp_path / f"{size}-{payload}"
                    clients.loaded(home, port, into, *options, "--mix", "put=1", "--payload", payload)
                assert readers.other == [] and readers.equal >= 8


@pytest.mark.parametrize("name", SERVERS)
def test_our_client_reads_what_boto3_and_rclone_put(home: Home, tmp_path: Path, name: str) -> None:
    put: list[str] = []
    with clients_of(name, tmp_path) as clients:

        def answered(asked: Asked) -> Answer:
            if asked.method != "PUT":
                return asked.passed_on()
            key = asked.path.removeprefix(f"/{BUCKET}/")
            put.append(key)
            if len(put) % 2:
                clients.rclone.write(key, asked.body)
            else:
                clients.boto3.put_object(Bucket=BUCKET, Key=key, Body=asked.body)
            return 200, {"Etag": clients.boto3.head_object(Bucket=BUCKET, Key=key)["ETag"]}, b""

        with s3_proxy(clients.server.port, answered) as port:
            clients.loaded(
                home, port, tmp_path / "e", "--size", "3000", "--mix", "get=3,head=1,list=1", "--objects", "4"
            )
    assert len(put) >= 8
