"""S3, the protocol of object servers: how clients sign and check requests, and how leftover objects are removed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, model_validator

from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.files import CLIENTS_DIRECTORY
from serverdyno.plan.protocols.look import Look
from serverdyno.plan.protocols.model import SectionModel
from serverdyno.plan.protocols.objects import OBJECTS
from serverdyno.plan.protocols.options import Option

Payload = Literal["unsigned", "signed", "chunked"]
Checksum = Literal["none", "crc32", "crc32c", "crc64nvme"]
PAYLOADS: dict[str, str] = {
    "unsigned": "with unsigned payloads",
    "signed": "with signed payloads (SHA-256)",
    "chunked": "with payloads in chunks (aws-chunked), followed by the checksum",
}
TLS = "s3s"
"""URL scheme of S3 over TLS."""
CLEAR_PORT, TLS_PORT = 80, 443


class S3Settings(SectionModel):
    """How a client signs its requests, and which checksum it sends with an object."""

    payload: Annotated[Payload, Option()] = Field(
        default="unsigned",
        description="Signature of an object's content. unsigned: only the head is signed. signed: the head and the "
        "content's SHA-256 are signed. chunked: aws-chunked, with the checksum after the content.",
    )
    checksum: Annotated[Checksum, Option()] = Field(
        default="crc32",
        description="Checksum that clients send with an object, which the server verifies. SDKs send crc32.",
    )

    @model_validator(mode="after")
    def _has_a_checksum_behind_its_chunks(self) -> Self:
        if self.payload == "chunked" and self.checksum == "none":
            raise ValueError('payload "chunked" requires a checksum, which follows the content')
        return self


class BucketLook:
    """A check of the bucket, signed as the load's requests are."""

    has_shares = False
    directory: Path | None = None

    def __init__(self, url: str) -> None:
        self.port: int | None = TLS_PORT if urlsplit(url).scheme == TLS else CLEAR_PORT

    def ask(self, target: Any) -> None:
        """Query the bucket once. `run/ask.py` evaluates its state."""
        target.look(0)

    def version(self) -> str | None:
        """Return None, because S3 does not report the version of the server's program."""
        return None

    def notes(self) -> list[str]:
        return ["Whether an acknowledged PUT is on a disk there is unknown."]


class S3Protocol(Protocol[S3Settings]):
    """S3 over HTTP/1.1, with or without TLS, with Signature Version 4."""

    name = "s3"
    title = "S3"
    schemes = ("s3", TLS)
    example_url = "s3://127.0.0.1:8333/bucket"
    no_parameters = "write ? in a prefix as %3F; region and addressing are options, or settings of the server"
    work = OBJECTS
    section = "s3"
    settings_type = S3Settings
    clients_directory = CLIENTS_DIRECTORY
    volume = "bucket"
    has_access_keys = True
    secure_scheme = TLS

    def target_section(self, access: Access, settings: S3Settings) -> dict[str, Any]:
        """Return the bucket's URL, its region, and how requests are addressed, signed and checked."""
        return {
            "url": access.url,
            "region": access.region,
            "addressing": access.addressing,
            "trust": access.trust,
            **settings.model_dump(),
        }

    def server_problem(
        self, settings: S3Settings, work_settings: Any, url: str | None, server_settings: Mapping[str, Any]
    ) -> str | None:
        """Return a problem if the URL of a user's server names no bucket."""
        del settings, work_settings, server_settings
        if url is None or bucket_of(url):
            return None
        return (
            "names no bucket: write s3://HOST:PORT/BUCKET, or s3s:// for TLS, as in "
            "s3s://s3.eu-central-1.amazonaws.com/BUCKET"
        )

    def described(self, settings: S3Settings, timeout: str) -> str:
        """Describe signatures, checksum, connections and the absence of retries."""
        checksum = (
            "no checksum" if settings.checksum == "none" else f"the checksum {settings.checksum.upper()}"
        )
        return (
            f"S3 over HTTP/1.1 on kept-alive connections, Signature Version 4 {PAYLOADS[settings.payload]}, "
            f"{checksum}; in a load level, no request is sent again after an error; timeout {timeout}."
        )

    def remove_command(self, access: Access, share: str, directory: str) -> str:
        """Return AWS CLI commands that remove the objects of a prefix, and its unfinished multipart uploads.

        A prefix that ends with `*` stands for each prefix that begins with the text before it.
        """
        aws = f"aws --endpoint-url {shlex.quote(endpoint_of(access.url))}"
        prefix = directory.removesuffix("*")
        below = prefix if prefix != directory else f"{prefix}/"
        chosen = shlex.quote(f"s3://{share}/{below}")
        if prefix != directory:
            base, _, name = prefix.rpartition("/")
            where = shlex.quote(f"s3://{share}/{base}/" if base else f"s3://{share}/")
            chosen = f"{where} --exclude '*' --include {shlex.quote(f'{name}*')}"
        bucket = shlex.quote(share)
        uploads = (
            f"{aws} s3api list-multipart-uploads --bucket {bucket} --prefix {shlex.quote(below)} "
            "--query 'not_null(Uploads, `[]`)[].[Key,UploadId]' --output text"
        )
        abort = f'{aws} s3api abort-multipart-upload --bucket {bucket} --key "$key" --upload-id "$id"'
        return f"{aws} s3 rm --recursive {chosen} && {uploads} | while read -r key id; do {abort}; done"

    def look(self, url: str) -> Look:
        return BucketLook(url)


def bucket_of(url: str) -> str:
    """Return the bucket that a URL names, or an empty text."""
    return unquote(urlsplit(url).path.strip("/").partition("/")[0])


def endpoint_of(url: str) -> str:
    """Return the URL of the server in the form that the AWS CLI expects."""
    parts = urlsplit(url)
    return f"{'https' if parts.scheme == TLS else 'http'}://{parts.netloc}"


S3 = S3Protocol()
