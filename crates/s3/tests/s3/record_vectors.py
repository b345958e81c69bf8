"""Record signatures of botocore as `vectors.json`: run with a Python that has botocore, without arguments."""

import json
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import botocore
import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEY = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
DATES = (1369353600, 1709251199, 1709251200)
HOSTS = ("examplebucket.s3.amazonaws.com", "127.0.0.1:8333", "[::1]:9000")
# Method, escaped path, query, headers, payload.
REQUESTS = (
    ("GET", "/", [("list-type", "2"), ("max-keys", "1000"), ("prefix", "a b/ü+&=~*'()")], [], EMPTY),
    ("GET", "/", [("continuation-token", "1/+=="), ("list-type", "2"), ("prefix", "")], [], EMPTY),
    ("GET", "/b/test.txt", [], [("range", "bytes=0-9")], EMPTY),
    ("PUT", "/b/a%20b/%C3%BC%2B%26%3D~%2A", [], [], "UNSIGNED-PAYLOAD"),
    ("PUT", "/b/o", [], [("x-amz-copy-source", "/b/a%20b")], EMPTY),
    ("POST", "/b/o", [("uploads", "")], [("x-amz-checksum-algorithm", "CRC32")], EMPTY),
    ("PUT", "/b/o", [("partNumber", "1"), ("uploadId", "x/y+z==")], [], "UNSIGNED-PAYLOAD"),
    (
        "PUT",
        "/b/o",
        [],
        [
            ("content-encoding", "aws-chunked"),
            ("x-amz-decoded-content-length", "66560"),
            ("x-amz-sdk-checksum-algorithm", "CRC32"),
            ("x-amz-trailer", "x-amz-checksum-crc32"),
        ],
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    ),
    ("POST", "/b/", [("delete", "")], [("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")], EMPTY),
    ("DELETE", "/b/o", [("uploadId", "1")], [], EMPTY),
    ("HEAD", "/b/o", [], [], EMPTY),
)


def signed(host, token, region, unix_s, request):
    """Return one vector: a request, and the header with botocore's signature."""
    method, path, query, headers, payload = request
    made = AWSRequest(method=method, url=f"http://{host}{path}", params=query, headers={"host": host})
    for name, value in headers:
        made.headers[name] = value
    made.headers["X-Amz-Content-SHA256"] = payload
    auth = botocore.auth.S3SigV4Auth(Credentials(*KEY, token), "s3", region)
    now = datetime.fromtimestamp(unix_s, UTC)
    with (
        mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)),
        mock.patch.object(auth, "payload", return_value=payload),
    ):
        made.context["timestamp"] = now.strftime("%Y%m%dT%H%M%SZ")
        auth.add_auth(made)
    return {
        "method": method,
        "path": path,
        "query": query,
        "host": host,
        "headers": headers,
        "payload": payload,
        "token": token,
        "region": region,
        "unix_s": unix_s,
        "authorization": made.headers["Authorization"],
    }


def main():
    vectors = [
        signed(
            HOSTS[place % 3],
            ("a/token+of==" if place % 2 else None),
            ("us-east-1", "eu-west-3")[date % 2],
            date,
            request,
        )
        for date in DATES
        for place, request in enumerate(REQUESTS)
    ]
    lines = ",\n".join(json.dumps(vector, ensure_ascii=False) for vector in vectors)
    head = f'{{"botocore": "{botocore.__version__}", "key": {json.dumps(KEY)}, "vectors": [\n'
    Path(__file__).with_name("vectors.json").write_text(f"{head}{lines}\n]}}\n", encoding="utf-8")


main()
