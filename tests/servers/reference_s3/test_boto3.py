"""boto3, the most common SDK, with the reference S3 server and with objects from our client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest

from serverdyno import _native
from serverdyno.plan.protocols.access import AccessKey
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.reference_servers import start_s3
from support.s3_exchanges import EXCHANGES, PART_BYTES, boto3_client, etag_of
from support.s3_proxy import Answer, Asked, s3_proxy
from support.s3_readers import Readers, read_by_boto3

KEY: AccessKey = ("id", "secret", None)
BUCKET = "volume1"
LARGE_BYTES = PART_BYTES + 100_000
FEW = ("--clients", "2", "--length", "0.6s", "--objects", "3")
PARTS = ("--size", f"{LARGE_BYTES}", "--part-bytes", f"{PART_BYTES}", "--parts-in-flight", "2")


@contextmanager
def talking(scheme: str, at: Path) -> Iterator[Any]:
    """Yield a boto3 client of the reference server, which speaks TLS for `https`."""
    options: dict[str, Any] = {"access_key": {"id": KEY[0], "secret": KEY[1]}}
    authority = None
    if scheme == "https":
        issued = _native.Authority()
        certificate, private = issued.certify("ecdsa-p256", ["127.0.0.1"])
        for name, text in (("ca", issued.pem), ("server", certificate), ("key", private)):
            (at / f"{name}.pem").write_text(text)
        options |= {"tls_certificate": at / "server.pem", "tls_key": at / "key.pem"}
        authority = at / "ca.pem"
    server = start_s3(**options)
    try:
        yield boto3_client(f"{scheme}://127.0.0.1:{server.port}", KEY, authority)
    finally:
        server.stop()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each.__name__)
def test_boto3_gets_from_the_reference_server_what_s3_promises(
    exchange: Callable[[Any, str], None], scheme: str, tmp_path: Path
) -> None:
    with talking(scheme, tmp_path) as s3:
        exchange(s3, BUCKET)


def test_the_checksum_of_boto3_is_a_header_and_over_tls_a_trailer(tmp_path: Path) -> None:
    sent: list[AWSPreparedRequest] = []
    for scheme in ("http", "https"):
        with talking(scheme, tmp_path) as s3:
            s3.meta.events.register("before-send.s3.PutObject", lambda request, **_: sent.append(request))
            s3.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    plain, secure = (request.headers for request in sent)
    assert "x-amz-checksum-crc32" in plain and "x-amz-trailer" not in plain
    assert secure["x-amz-trailer"] == b"x-amz-checksum-crc32" and secure["Content-Encoding"] == b"aws-chunked"
    assert secure["X-Amz-Content-SHA256"] == b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@pytest.mark.usefixtures("short_windows")
@pytest.mark.parametrize("payload", ["unsigned", "signed", "chunked"])
@pytest.mark.parametrize("size", [("--size", "3000"), PARTS], ids=["small", "parts"])
def test_boto3_reads_what_our_client_put(
    home: Home, tmp_path: Path, payload: str, size: tuple[str, ...]
) -> None:
    server = start_s3()
    reader = Readers(BUCKET, read_by_boto3(boto3_client(f"http://127.0.0.1:{server.port}", KEY), BUCKET))
    try:
        with s3_proxy(server.port, reader.answered) as port:
            url = f"s3://127.0.0.1:{port}/{BUCKET}"
            mix = ("--mix", "put=1", "--payload", payload)
            done = home.here("objects", url, *FEW, *size, *mix, "--into", tmp_path / "e")
    finally:
        server.stop()
    # The objects put before the level suffice, because on a slow machine its window may be empty.
    errors = [record.errors for record in Experiment.open(tmp_path / "e").levels()]
    assert errors == [[]], done.stderr
    assert reader.other == [] and reader.equal >= 6


@pytest.mark.usefixtures("short_windows")
def test_our_client_reads_what_boto3_put(home: Home, tmp_path: Path) -> None:
    put: list[str] = []
    server = start_s3()
    s3 = boto3_client(f"http://127.0.0.1:{server.port}", KEY)

    def answered(asked: Asked) -> Answer:
        if asked.method != "PUT":
            return asked.passed_on()
        key = asked.path.removeprefix(f"/{BUCKET}/")
        put.append(key)
        answer = s3.put_object(Bucket=BUCKET, Key=key, Body=asked.body)
        assert answer["ETag"] == etag_of(asked.body)
        return 200, {"Etag": answer["ETag"]}, b""

    try:
        with s3_proxy(server.port, answered) as port:
            url = f"s3://127.0.0.1:{port}/{BUCKET}"
            mix = ("--size", "3000", "--mix", "get=3,head=1,list=1")
            done = home.here("objects", url, *FEW, *mix, "--into", tmp_path / "e")
        counted = server.requests()
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(tmp_path / "e").levels()
    assert not record.errors, record.errors
    assert record.bytes_checked
    assert counted["PutObject"] == len(put) >= 6
