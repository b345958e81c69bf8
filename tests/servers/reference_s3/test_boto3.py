"""boto3, the SDK that most programs use, against the reference S3 server, and against objects that our client puts."""

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
from support.s3_exchanges import EXCHANGES, PART_BYTES, boto3_client, etag_of, got
from support.s3_proxy import Answer, Asked, s3_proxy

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


def unchunked(body: bytes) -> bytes:
    """Return the content of a body that is aws-chunked."""
    content = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        if not (length := int(size.partition(b";")[0], 16)):
            return content
        content, body = content + body[:length], body[length + 2 :]


class Reader:
    """A proxy that reads with boto3 each object that a client has put, and compares it with the client's request."""

    def __init__(self, s3: Any) -> None:
        self._s3, self._parts = s3, dict[str, dict[int, bytes]]()
        self.equal, self.other = 0, list[str]()

    def answered(self, asked: Asked) -> Answer:
        answer = asked.passed_on()
        path, _, query = asked.path.partition("?")
        headers = {name.lower(): value for name, value in asked.headers.items()}
        chunked = "aws-chunked" in headers.get("content-encoding", "")
        if asked.method == "PUT" and answer[0] == 200:
            content = unchunked(asked.body) if chunked else asked.body
            if "partNumber=" in query:
                number = int(dict(each.split("=", 1) for each in query.split("&"))["partNumber"])
                self._parts.setdefault(path, {})[number] = content
            else:
                self._compare(path, content)
        if asked.method == "POST" and "uploadId=" in query and answer[0] == 200:
            parts = self._parts.pop(path)
            self._compare(path, b"".join(parts[number] for number in sorted(parts)))
        return answer

    def _compare(self, path: str, content: bytes) -> None:
        key = path.removeprefix(f"/{BUCKET}/")
        if content and got(self._s3, BUCKET, key) == content:
            self.equal += 1
        else:
            self.other.append(key)


@pytest.mark.usefixtures("short_windows")
@pytest.mark.parametrize("payload", ["unsigned", "signed", "chunked"])
@pytest.mark.parametrize("size", [("--size", "3000"), PARTS], ids=["small", "parts"])
def test_boto3_reads_what_our_client_put(
    home: Home, tmp_path: Path, payload: str, size: tuple[str, ...]
) -> None:
    server = start_s3()
    reader = Reader(boto3_client(f"http://127.0.0.1:{server.port}", KEY))
    try:
        with s3_proxy(server.port, reader.answered) as port:
            url = f"s3://127.0.0.1:{port}/{BUCKET}"
            mix = ("--mix", "put=1", "--payload", payload)
            done = home.here("objects", url, *FEW, *size, *mix, "--into", tmp_path / "e")
    finally:
        server.stop()
    # The objects that are put before the level suffice: on a slow machine, its window may be empty.
    errors = [record.errors for record in Experiment.open(tmp_path / "e").mixes()]
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
    [record] = Experiment.open(tmp_path / "e").mixes()
    assert not record.errors, record.errors
    assert record.bytes_checked
    assert counted["PutObject"] == len(put) >= 6
