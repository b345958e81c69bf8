"""boto3's operations on a bucket: each function carries out one kind, and checks every answer."""

from __future__ import annotations

import hashlib
import io
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from serverdyno.plan.protocols.access import AccessKey

PART_BYTES = 5 << 20
"""The smallest part that S3 permits, except for the last one."""
KEYS = ("plain", "a b/ü+&=~*'().bin", "x%2Fy?z#")
CONTENT = random.Random(3).randbytes(70_000)


def boto3_client(endpoint: str, key: AccessKey, authority: Path | None = None) -> Any:
    """Return a client with the SDK's defaults, except that it retries nothing and addresses buckets by path.

    `authority`: file with the authority of the server's certificate.
    """
    key_id, secret, token = key
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        aws_session_token=token,
        verify=None if authority is None else str(authority),
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


def etag_of(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def got(s3: Any, bucket: str, key: str, **options: Any) -> bytes:
    """Return an object; botocore compares it with its checksum, if the server has one."""
    answer = s3.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED", **options)
    content = answer["Body"].read()
    assert isinstance(content, bytes) and answer["ContentLength"] == len(content)
    return content


def code(done: Callable[[], object]) -> str:
    """Return the error code of the server's answer."""
    with pytest.raises(ClientError) as failed:
        done()
    return f"{failed.value.response['Error']['Code']}"


def put_get_head(s3: Any, bucket: str) -> None:
    for key in KEYS:
        for content in (b"", b"x", CONTENT):
            put = s3.put_object(Bucket=bucket, Key=key, Body=content)
            assert put["ETag"] == etag_of(content)
            assert got(s3, bucket, key) == content
            head = s3.head_object(Bucket=bucket, Key=key)
            assert (head["ContentLength"], head["ETag"]) == (len(content), put["ETag"])


def missing_keys(s3: Any, bucket: str) -> None:
    assert code(lambda: s3.get_object(Bucket=bucket, Key="none")) == "NoSuchKey"
    assert code(lambda: s3.head_object(Bucket=bucket, Key="none")) == "404"
    assert code(lambda: s3.get_object(Bucket="no-such-bucket", Key="none")) == "NoSuchBucket"


def ranges(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="ranges", Body=CONTENT)
    for asked, expected in {
        "bytes=0-9": CONTENT[:10],
        "bytes=69990-": CONTENT[-10:],
        "bytes=-7": CONTENT[-7:],
        "bytes=69999-80000": CONTENT[-1:],
    }.items():
        answer = s3.get_object(Bucket=bucket, Key="ranges", Range=asked)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert answer["Body"].read() == expected
        assert answer["ContentRange"].endswith(f"/{len(CONTENT)}")
    assert code(lambda: s3.get_object(Bucket=bucket, Key="ranges", Range="bytes=70000-")) == "InvalidRange"


def pages_of_lists(s3: Any, bucket: str) -> None:
    keys = sorted([*(f"list/{name}" for name in KEYS), *(f"list/n/{number:02}" for number in range(22))])
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    pages = list(
        s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix="list/", PaginationConfig={"PageSize": 10}
        )
    )
    assert [page["KeyCount"] for page in pages] == [10, 10, 5]
    found = [(each["Key"], each["Size"], each["ETag"]) for page in pages for each in page["Contents"]]
    assert found == [(key, len(key.encode()), etag_of(key.encode())) for key in keys]
    later = s3.list_objects_v2(Bucket=bucket, Prefix="list/n/", StartAfter="list/n/19")
    assert [each["Key"] for each in later["Contents"]] == ["list/n/20", "list/n/21"]
    folded = s3.list_objects_v2(Bucket=bucket, Prefix="list/", Delimiter="/")
    assert [each["Prefix"] for each in folded["CommonPrefixes"]] == ["list/a b/", "list/n/"]
    assert sorted(each["Key"] for each in folded["Contents"]) == ["list/plain", "list/x%2Fy?z#"]


def deletes(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="gone", Body=b"x")
    for _ in range(2):
        assert s3.delete_object(Bucket=bucket, Key="gone")["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert code(lambda: s3.get_object(Bucket=bucket, Key="gone")) == "NoSuchKey"


def multi_deletes(s3: Any, bucket: str) -> None:
    names = [*(f"many/{name}" for name in KEYS), "many/never-there"]
    for name in names[:-1]:
        s3.put_object(Bucket=bucket, Key=name, Body=b"x")
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names]})
    assert sorted(each["Key"] for each in done["Deleted"]) == sorted(names) and "Errors" not in done
    assert s3.list_objects_v2(Bucket=bucket, Prefix="many/")["KeyCount"] == 0


def copies(s3: Any, bucket: str) -> None:
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=CONTENT)
        done = s3.copy_object(Bucket=bucket, Key=f"copy of {key}", CopySource={"Bucket": bucket, "Key": key})
        assert done["CopyObjectResult"]["ETag"] == etag_of(CONTENT)
        assert got(s3, bucket, f"copy of {key}") == CONTENT
    source = {"Bucket": bucket, "Key": "none"}
    assert code(lambda: s3.copy_object(Bucket=bucket, Key="k", CopySource=source)) == "NoSuchKey"


def multipart_uploads(s3: Any, bucket: str) -> None:
    contents = [os.urandom(PART_BYTES), os.urandom(PART_BYTES), b"the end"]
    created = s3.create_multipart_upload(Bucket=bucket, Key="parts", ChecksumAlgorithm="CRC32")
    upload, parts = created["UploadId"], []
    for number in (2, 1, 3):
        put = s3.upload_part(
            Bucket=bucket, Key="parts", UploadId=upload, PartNumber=number, Body=contents[number - 1]
        )
        assert put["ETag"] == etag_of(contents[number - 1])
        parts.append({name: put[name] for name in ("ETag", "ChecksumCRC32")} | {"PartNumber": number})
    parts.sort(key=lambda part: part["PartNumber"])
    assert code(lambda: s3.head_object(Bucket=bucket, Key="parts")) == "404"
    done = s3.complete_multipart_upload(
        Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    digests = b"".join(hashlib.md5(each, usedforsecurity=False).digest() for each in contents)
    assert done["ETag"] == etag_of(digests)[:-1] + '-3"'
    assert got(s3, bucket, "parts") == b"".join(contents)
    assert s3.head_object(Bucket=bucket, Key="parts")["ETag"] == done["ETag"]


def aborted_uploads(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="aborted")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="aborted", UploadId=upload, PartNumber=1, Body=CONTENT)
    uploads = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [(each["Key"], each["UploadId"]) for each in uploads] == [("aborted", upload)]
    s3.abort_multipart_upload(Bucket=bucket, Key="aborted", UploadId=upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    complete = {"Bucket": bucket, "Key": "aborted", "UploadId": upload, "MultipartUpload": parts}
    assert code(lambda: s3.complete_multipart_upload(**complete)) == "NoSuchUpload"


def transfers_in_threads(s3: Any, bucket: str) -> None:
    content = os.urandom(3 * PART_BYTES + 1)
    parts = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)
    s3.upload_fileobj(io.BytesIO(content), bucket, "transfer", Config=parts)
    read = io.BytesIO()
    s3.download_fileobj(bucket, "transfer", read, Config=parts)
    assert read.getvalue() == content


def checksums(s3: Any, bucket: str) -> None:
    for algorithm in ("CRC32", "SHA256"):
        put = s3.put_object(Bucket=bucket, Key="sum", Body=CONTENT, ChecksumAlgorithm=algorithm)
        head = s3.head_object(Bucket=bucket, Key="sum", ChecksumMode="ENABLED")
        assert put[f"Checksum{algorithm}"] == head[f"Checksum{algorithm}"]
        assert got(s3, bucket, "sum") == CONTENT
    wrong = {"Bucket": bucket, "Key": "sum", "Body": b"other", "ChecksumCRC32": "AAAAAA=="}
    assert code(lambda: s3.put_object(**wrong)) == "BadDigest"
    assert got(s3, bucket, "sum") == CONTENT


def user_metadata(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="meta", Body=b"x", Metadata={"a": "b"}, ContentType="text/x-y")
    head = s3.head_object(Bucket=bucket, Key="meta")
    assert (head["Metadata"], head["ContentType"]) == ({"a": "b"}, "text/x-y")


EXCHANGES: tuple[Callable[[Any, str], None], ...] = (
    put_get_head,
    missing_keys,
    ranges,
    pages_of_lists,
    deletes,
    multi_deletes,
    copies,
    multipart_uploads,
    aborted_uploads,
    transfers_in_threads,
    checksums,
    user_metadata,
)
