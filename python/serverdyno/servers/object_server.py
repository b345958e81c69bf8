"""The common part of the drivers of private object servers (S3): access key, bucket, and proof of identity.

The data are on a volume, as with file servers (`volume_server.py`). A subclass defines the program and its arguments.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import sys
import time
from abc import abstractmethod
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from serverdyno.errors import ServerEndedError, ServerError, refuse_contradictions
from serverdyno.plan.protocols.access import AccessKey
from serverdyno.plan.protocols.s3 import S3
from serverdyno.servers.base import Access, Installed
from serverdyno.servers.disk_settings import DiskSettings
from serverdyno.servers.local import POLL_S, START_TIMEOUT_S, find_program
from serverdyno.servers.signed_request import ObjectClient
from serverdyno.servers.volume_server import VolumeServer

BUCKET = "volume1"
SCRIPT = "run.sh"
PROOF_KEY = "serverdyno-proof"
INSTALL = "make servers-objects installs it; or name the program in the setting program."


def access_key_of(secret: str) -> AccessKey:
    """Return the access key of one start, which does not reveal the server's secret."""
    drawn = hashlib.sha256(f"access key {secret}".encode()).hexdigest()
    return f"DYNO{drawn[:16].upper()}", drawn[16:56], None


def count_lines(log: Path, pattern: str = "") -> int | None:
    """Return the number of lines in a log that match `pattern`; None if the log can't be read."""
    try:
        with log.open(errors="replace") as lines:
            return sum(1 for line in lines if re.search(pattern, line))
    except OSError:
        return None


class ObjectSettings(DiskSettings):
    protocol: ClassVar[str | None] = S3.name

    network: Literal["loopback"] = Field(
        default="loopback", description="Always loopback: a free port on 127.0.0.1."
    )
    volumes: Literal[1] = Field(default=1, description="Number of buckets: always one, volume1.")

    @model_validator(mode="after")
    def disk_makes_sense(self) -> Self:
        """Refuse contradictory disk settings in one error."""
        refuse_contradictions(self.wrong_disk())
        return self


ObjectSettingsT = TypeVar("ObjectSettingsT", bound=ObjectSettings)


class ObjectServer(VolumeServer[ObjectSettingsT]):
    """An object server with one bucket. See `base.ServerDriver` for the contract."""

    debian_package: ClassVar[str | None] = None

    @classmethod
    def installed(cls) -> Installed | None:
        """Return the program in PATH, or the one that `make servers-objects` has put next to this Python."""
        beside = Path(sys.prefix) / "bin" / cls.program_name
        program = find_program(cls.program_name) or (beside if os.access(beside, os.X_OK) else None)
        return None if program is None else Installed(cls.version_of(program), program)

    @property
    def program(self) -> Path:
        found = self.in_use
        if found is None or found.program is None:
            raise ServerError(f"{self.name} is not installed", hint=INSTALL)
        return found.program

    @property
    def user(self) -> str:
        """Return the owner of the data: the user of this process, because the servers don't change theirs."""
        return pwd.getpwuid(os.geteuid()).pw_name

    @property
    def data(self) -> Path:
        """Return the directory of the bucket or of the server's data files, as the server sees it."""
        return self.volumes.top / BUCKET

    @property
    def url(self) -> str:
        """Return the URL of the bucket. It is valid after `prepare` and may change in `ready`."""
        return f"s3://{self.host}:{self.port}/{BUCKET}"

    @property
    def key(self) -> AccessKey:
        return access_key_of(self.secret)

    def access(self) -> Access:
        """Return the bucket and the access key of this start. They are valid after `start`."""
        token = self.consent_token if self.shows_consent else None
        return Access(self.url, access_key=self.key, consent_token=token)

    @abstractmethod
    def arguments(self) -> list[str]:
        """Return the program's arguments. They must not contain the access key, because reports disclose them."""

    def beside(self) -> list[str]:
        """Return shell lines that run before the program, once the volumes exist."""
        return []

    def command(self) -> list[str]:
        return ["/bin/sh", str(self.directory / SCRIPT)]

    def configuration(self) -> dict[str, str]:
        words = " ".join(f"'{word}'" for word in [str(self.program), *self.arguments()])
        lines = ["set -eu", self.wait_for_volumes, *self.beside(), f"exec {words}"]
        return {SCRIPT: "\n".join(lines) + "\n"}

    def check_paths(self) -> None:
        super().check_paths()
        self.check_place(self.program_name)

    def check_place(self, program: str) -> None:
        """Check that the place of the volumes exists. The server runs as this user, who can enter it."""
        del program
        place = self.volumes.root.parent if self.settings.data_directory else self.directory.parent
        if not place.is_dir():
            raise ServerError(
                f"data_directory does not exist: {place}", hint="Create this directory, or name another one."
            )

    def process_count(self) -> int:
        return 1

    def give_consent(self) -> None:
        """Do nothing, because the consent is an object, which `ready` puts once the server answers."""

    def answers_as_ours(self) -> bool:
        """Return whether the server accepts this start's access key, and refuses another key."""
        try:
            key_id, secret, _ = self.key
            with self.client(self.key) as ours, self.client((key_id, secret[::-1], None)) as other:
                return (
                    ours.ask("GET", "/")[0] == HTTPStatus.OK
                    and other.ask("GET", "/")[0] == HTTPStatus.FORBIDDEN
                )
        except OSError:
            return False

    def client(self, key: AccessKey) -> ObjectClient:
        return ObjectClient(self.host, self.port, key)

    def ready(self) -> None:
        """Wait for the proof, create the bucket, and check that an object is stored and read. Raises ServerError."""
        super().ready()
        self.until_done(self.make_bucket)
        self.until_done(self._store_and_remove)
        if self.shows_consent:
            self.put(f"serverdyno-{self.consent_token}", self.consent_document().encode())

    def outer_ports(self) -> list[int]:
        """Return the ports that this process connects to."""
        return [self.port]

    def make_bucket(self) -> None:
        """Create the bucket unless it exists, and configure it. Raises ServerError."""
        try:
            with self.client(self.key) as client:
                if client.ask("HEAD", f"/{BUCKET}")[0] == HTTPStatus.OK:
                    return
        except OSError as error:
            raise ServerError(f"{self.name}: HEAD /{BUCKET}: {error}") from error
        self.asked("PUT", f"/{BUCKET}")

    def put(self, key: str, content: bytes) -> None:
        """Put an object. Raises ServerError."""
        self.asked("PUT", f"/{BUCKET}/{key}", content)

    def asked(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the body of a successful answer. Raises ServerError."""
        try:
            with self.client(self.key) as client:
                status, answer = client.ask(method, path, body)
        except OSError as error:
            raise ServerError(f"{self.name}: {method} {path}: {error}") from error
        if status not in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
            raise ServerError(
                f"{self.name}: {method} {path}: status {status}: {answer[:500].decode(errors='replace')}"
            )
        return answer

    def _store_and_remove(self) -> None:
        path, content = f"/{BUCKET}/{PROOF_KEY}", self.consent_token.encode()
        self.asked("PUT", path, content)
        if self.asked("GET", path) != content:
            raise ServerError(f"{self.name}: GET {path} did not return the content that was stored")
        self.asked("DELETE", path)

    def until_done(self, attempt: Callable[[], object]) -> None:
        """Repeat an attempt until it succeeds, because some servers answer before they can store data.

        Raises ServerError.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            self.check()
            try:
                attempt()
                return
            except ServerEndedError:
                raise
            except ServerError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)

    def requests_served(self) -> int | None:
        return None

    def notes(self) -> list[str]:
        settings = self.settings
        notes = [
            self.acknowledged(),
            self.volumes.description(),
            f"Runs as the user {self.user}. Each start creates its own access key.",
            self.network_note(),
        ]
        if settings.fsync_delay_ms:
            notes.append(
                f"Each fsync and fdatasync of the server takes {settings.fsync_delay_ms:g} ms longer. The keeper "
                "adds this delay by seccomp notification; the disk does not cause it."
            )
        if limits := settings.write_back():
            named = ", ".join(f"vm.{name} = {value}" for name, value in limits.items())
            notes.append(
                f"While this server runs, these kernel settings apply to the whole machine: {named}."
            )
        return notes

    @abstractmethod
    def acknowledged(self) -> str:
        """Return a note on the meaning of an acknowledged PUT."""
