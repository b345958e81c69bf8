"""boto3 and rclone read and write the objects of our client, through a proxy."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serverdyno.plan.protocols.access import AccessKey
from support.dyno_process import PATIENCE_S
from support.s3_exchanges import got
from support.s3_proxy import Answer, Asked

Read = Callable[[list[str]], dict[str, bytes]]
"""A function that returns the contents of keys."""


def unchunked(body: bytes) -> bytes:
    """Return the content of a body that is aws-chunked."""
    content = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        if not (length := int(size.partition(b";")[0], 16)):
            return content
        content, body = content + body[:length], body[length + 2 :]


class Readers:
    """Answers of a proxy. Other clients read the objects that ours has put, before it deletes them."""

    def __init__(self, bucket: str, *reads: Read) -> None:
        self._bucket, self._reads = bucket, reads
        self._put, self._parts = dict[str, bytes](), dict[str, dict[int, bytes]]()
        self.equal, self.other = 0, list[str]()

    def answered(self, asked: Asked) -> Answer:
        path, _, query = asked.path.partition("?")
        if asked.method == "POST" and query.startswith("delete"):
            self._compare(re.findall("<Key>(.*?)</Key>", asked.body.decode()))
        answer = asked.passed_on()
        headers = {name.lower(): value for name, value in asked.headers.items()}
        chunked = "aws-chunked" in headers.get("content-encoding", "")
        key = path.removeprefix(f"/{self._bucket}/")
        if asked.method == "PUT" and answer[0] == 200:
            content = unchunked(asked.body) if chunked else asked.body
            if "partNumber=" in query:
                number = int(dict(each.split("=", 1) for each in query.split("&"))["partNumber"])
                self._parts.setdefault(key, {})[number] = content
            else:
                self._put[key] = content
        if asked.method == "POST" and "uploadId=" in query and answer[0] == 200:
            parts = self._parts.pop(key)
            self._put[key] = b"".join(parts[number] for number in sorted(parts))
        return answer

    def _compare(self, keys: list[str]) -> None:
        expected = {key: self._put[key] for key in keys}
        for read in self._reads:
            found = read(keys)
            self.equal += sum(found.get(key) == content for key, content in expected.items())
            self.other += [key for key, content in expected.items() if found.get(key) != content]


def read_by_boto3(s3: Any, bucket: str) -> Read:
    return lambda keys: {key: got(s3, bucket, key) for key in keys}


class RcloneClient:
    """rclone as a client. `folder`: for the objects that it reads."""

    def __init__(self, program: Path, port: int, key: AccessKey, bucket: str, folder: Path) -> None:
        self._program, self._bucket, self._folder = str(program), f":s3:{bucket}", folder
        self._variables = {
            "RCLONE_CONFIG": os.devnull,
            "RCLONE_S3_PROVIDER": "Other",
            "RCLONE_S3_ENDPOINT": f"http://127.0.0.1:{port}",
            "RCLONE_S3_ACCESS_KEY_ID": key[0],
            "RCLONE_S3_SECRET_ACCESS_KEY": key[1],
            "RCLONE_S3_REGION": "us-east-1",
            "RCLONE_S3_NO_CHECK_BUCKET": "true",
        }

    def _run(self, *words: str, given: bytes = b"") -> None:
        subprocess.run(
            [self._program, *words],
            input=given,
            env={**os.environ, **self._variables},
            timeout=PATIENCE_S,
            check=True,
        )

    def read(self, keys: list[str]) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            read, wanted = Path(name, "read"), Path(name, "keys")
            wanted.write_text("\n".join(keys))
            self._run("copy", self._bucket, str(read), "--files-from-raw", str(wanted))
            return {key: (read / key).read_bytes() for key in keys}

    def write(self, key: str, content: bytes) -> None:
        self._run("rcat", f"{self._bucket}/{key}", given=content)
