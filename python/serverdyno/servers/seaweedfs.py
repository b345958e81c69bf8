"""SeaweedFS as one process with master, volume server, filer and S3 gateway, plus volume servers for copies.

Its data files and the filer's database are on the volume. Nothing in ~/.seaweedfs or /etc/seaweedfs is read:
SeaweedFS runs in its private directory, and telemetry is off.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from serverdyno.errors import ServerError
from serverdyno.servers.base import Settings
from serverdyno.servers.local import version_line
from serverdyno.servers.object_server import BUCKET, ObjectServer, ObjectSettings
from serverdyno.servers.signed_request import ObjectClient

IDENTITIES = "s3.json"
FILER_CONFIGURATION = "/etc/seaweedfs/filer.conf"
PARTS = ("master", "volume", "filer", "s3")
"""The parts of the process. Each listens on a port for HTTP and one for gRPC."""
VOLUME_MIB = 1024
MOST_VOLUMES = 64
"""Maximum number of volumes per volume server. Buckets take seven at a time; without any left, objects are refused."""
MOST_COPIES = 3


class SeaweedfsSettings(ObjectSettings):
    fsync: bool = Field(
        default=False,
        description="Sync each object's data before the PUT is acknowledged (fs.configure -fsync for the "
        "bucket). By default, SeaweedFS does not sync it. The filer's database is not synced "
        "in either case.",
    )
    copies: int = Field(
        default=1,
        ge=1,
        le=MOST_COPIES,
        description="Number of volume servers that store each object (replication 000, 001 or 002). All run on this "
        "machine, on the same disk.",
    )


class Seaweedfs(ObjectServer[SeaweedfsSettings]):
    name: ClassVar[str] = "seaweedfs"
    program_name: ClassVar[str] = "weed"
    summary: ClassVar[str] = "SeaweedFS with its S3 gateway"
    settings_type: ClassVar[type[Settings]] = SeaweedfsSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("^(panic|fatal error):")

    @staticmethod
    def version_of(program: Path) -> str:
        return "SeaweedFS " + version_line(program, "version").removeprefix("version ")

    def prepare(self) -> None:
        if self.process is None:
            self._ports = [
                self.choose_port() for _ in range(2 * len(PARTS) - 1 + 2 * (self.settings.copies - 1))
            ]
        super().prepare()

    def _places(self) -> dict[str, tuple[int, int]]:
        """Return the ports of each part, for HTTP and for gRPC."""
        ports = iter([*self._ports])
        places = {part: (next(ports), next(ports)) for part in PARTS[:-1]}
        return {**places, "s3": (self.port, next(ports))}

    def arguments(self) -> list[str]:
        ports = [
            option
            for part, (port, grpc) in self._places().items()
            for option in (f"-{part}.port={port}", f"-{part}.port.grpc={grpc}")
        ]
        return [
            f"-logdir={self.directory}",
            "server",
            f"-dir={self.data}",
            f"-ip={self.host}",
            f"-ip.bind={self.host}",
            *ports,
            "-master.telemetry=false",
            f"-master.volumeSizeLimitMB={VOLUME_MIB}",
            f"-volume.max={MOST_VOLUMES}",
            f"-master.defaultReplication=00{self.settings.copies - 1}",
            "-filer",
            f"-filer.localSocket={self.directory / 'filer.sock'}",
            "-s3",
            f"-s3.config={self.directory / IDENTITIES}",
            f"-s3.localSocket={self.directory / 's3.sock'}",
            "-s3.iam=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]

    def beside(self) -> list[str]:
        """Return shell lines that enter the private directory and start a volume server for each further copy."""
        ports = self._ports[2 * len(PARTS) - 1 :]
        lines = [f"cd '{self.directory}'"]
        for number in range(1, self.settings.copies):
            port, grpc = ports[2 * number - 2 : 2 * number]
            place = self.data / f"copy{number}"
            master = f"{self.host}:{self._places()['master'][0]}.{self._places()['master'][1]}"
            words = [
                str(self.program),
                f"-logdir={self.directory}",
                "volume",
                f"-dir={place}",
                f"-ip={self.host}",
                f"-ip.bind={self.host}",
                f"-port={port}",
                f"-port.grpc={grpc}",
                f"-master={master}",
                f"-max={MOST_VOLUMES}",
            ]
            lines += [f"mkdir -p '{place}'", f"{' '.join(map(_quoted, words))} &"]
        return lines

    def furnish(self) -> None:
        """Write the access key into a private file, which no report discloses."""
        super().furnish()
        key_id, secret, _ = self.key
        identity = {
            "name": "dyno",
            "credentials": [{"accessKey": key_id, "secretKey": secret}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        path = self.directory / IDENTITIES
        path.touch(mode=0o600)
        path.write_text(json.dumps({"identities": [identity]}))

    def environment(self) -> dict[str, str]:
        """Return variables that keep SeaweedFS's own files in the private directory, and the number of threads."""
        return {"HOME": str(self.directory), "GOMAXPROCS": str(self.processors)}

    def process_count(self) -> int:
        return self.settings.copies

    def outer_ports(self) -> list[int]:
        return [self.port, self._places()["filer"][0]]

    def make_bucket(self) -> None:
        """Create the bucket, and store the filer's configuration of syncs, as `fs.configure -fsync` does."""
        super().make_bucket()
        if not self.settings.fsync:
            return
        rule = {"locationPrefix": f"/buckets/{BUCKET}/", "fsync": True}
        body = json.dumps({"version": 0, "locations": [rule]}).encode()
        try:
            with ObjectClient(self.host, self._places()["filer"][0], None) as filer:
                status, told = filer.ask("PUT", FILER_CONFIGURATION, body)
        except OSError as error:
            raise ServerError(f"{self.name}: the filer can't be configured: {error}") from error
        if status != HTTPStatus.CREATED:
            raise ServerError(f"{self.name}: the filer can't be configured: {status} {told[:200]!r}")

    def acknowledged(self) -> str:
        copies = f", on each of {self.settings.copies} volume servers," if self.settings.copies > 1 else ""
        if self.settings.fsync:
            return (
                f"A PUT is acknowledged once the object's data are synced{copies} and its entry is written to the "
                "filer's database, which is not synced."
            )
        return f"A PUT is acknowledged once the object is written{copies} without a sync: a power cut can lose it."

    def notes(self) -> list[str]:
        return [*super().notes(), "Telemetry is off. GOMAXPROCS is the number of CPUs of the server."]


def _quoted(word: str) -> str:
    return f"'{word}'"
