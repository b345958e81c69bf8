"""The reference S3 server as a server under test: the default if no other object server is chosen."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar, Literal

from pydantic import Field

from serverdyno.plan.protocols.s3 import S3
from serverdyno.servers.base import Access, Settings
from serverdyno.servers.object_server import BUCKET, access_key_of
from serverdyno.servers.reference_files import ReferenceFiles, ReferenceFilesSettings
from serverdyno.servers.reference_model import SECRET_VARIABLE, S3Process, S3Serving
from serverdyno.servers.signed_request import ObjectClient

S3_PORT = 8333


class ReferenceS3Settings(S3Serving, ReferenceFilesSettings):
    protocol: ClassVar[str | None] = S3.name

    network: Literal["loopback"] = Field(
        default="loopback", description="Always loopback: a free port on 127.0.0.1."
    )
    volumes: Literal[1] = Field(default=1, description="Number of buckets: always one, volume1.")


class ReferenceS3(ReferenceFiles[ReferenceS3Settings]):
    """The driver of `dyno reference s3`."""

    name: ClassVar[str] = "reference-s3"
    summary: ClassVar[str] = "Serverdyno's own S3 server, in memory"
    settings_type: ClassVar[type[Settings]] = ReferenceS3Settings
    command_name: ClassVar[str] = "s3"
    usual_port: ClassVar[int] = S3_PORT
    in_memory: ClassVar[bool] = True
    """No PUT reaches a disk, and the report says so: see `run/durability.py`."""

    @property
    def url(self) -> str:
        """Return the URL of the bucket. It is valid after `prepare` and may change in `ready`."""
        return f"s3://{self.host}:{self.port}/{BUCKET}"

    def access(self) -> Access:
        """Return the bucket and the access key of this start. They are valid after `start`."""
        token = self.consent_token if self.shows_consent else None
        return Access(
            self.url,
            access_key=access_key_of(self.secret),
            region=self.settings.region,
            consent_token=token,
        )

    def process_options(self, here: dict[str, Any]) -> S3Process:
        settings = self.settings.model_dump(include=set(S3Serving.model_fields))
        return S3Process.model_validate(settings | here | {"access_key_id": access_key_of(self.secret)[0]})

    def environment(self) -> dict[str, str]:
        return {**super().environment(), SECRET_VARIABLE: access_key_of(self.secret)[1]}

    def notes(self) -> list[str]:
        honours = self.settings.flush == "honour"
        return [
            "An acknowledged PUT survives a restart of the service. Objects are only in memory, and are lost when the "
            "process ends."
            if honours
            else "A restart of the service loses all objects, acknowledged or not.",
            "Requests served: S3 requests by the server's own counters, also those that it refused.",
            *super().notes(),
        ]

    def answers_as_ours(self) -> bool:
        """Return whether the server lists its buckets to this start's access key, regardless of its region."""
        try:
            with ObjectClient(self.host, self.port, access_key_of(self.secret)) as client:
                return client.ask("GET", "/")[0] in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST)
        except OSError:
            return False
