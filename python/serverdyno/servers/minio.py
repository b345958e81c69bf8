"""MinIO on one drive. `make servers-objects WITH=minio` builds the last version of its community edition."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from serverdyno.servers.base import Settings
from serverdyno.servers.local import version_line
from serverdyno.servers.object_server import ObjectServer, ObjectSettings


class Minio(ObjectServer[ObjectSettings]):
    name: ClassVar[str] = "minio"
    program_name: ClassVar[str] = "minio"
    summary: ClassVar[str] = "MinIO, on one drive"
    settings_type: ClassVar[type[Settings]] = ObjectSettings
    crash_words: ClassVar[re.Pattern[str] | None] = re.compile("^(panic|fatal error):")

    @staticmethod
    def version_of(program: Path) -> str:
        return f"MinIO {version_line(program, '--version').removeprefix('minio version ').partition(' ')[0]}"

    def prepare(self) -> None:
        if self.process is None:
            self._console_port = self.choose_port()
        super().prepare()

    def arguments(self) -> list[str]:
        return [
            "server",
            "--quiet",
            f"--address={self.host}:{self.port}",
            f"--console-address={self.host}:{self._console_port}",
            str(self.data),
        ]

    def environment(self) -> dict[str, str]:
        """Return the access key, which a command line would reveal, and disable web console and updates."""
        key_id, secret, _ = self.key
        return {
            "MINIO_ROOT_USER": key_id,
            "MINIO_ROOT_PASSWORD": secret,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "HOME": str(self.directory),
            "GOMAXPROCS": str(self.processors),
        }

    def acknowledged(self) -> str:
        return (
            "A PUT is acknowledged once each file of the object is synced and renamed. No directory is synced (seen "
            "with strace), so a power cut can lose it. Files of up to 4 KiB are opened with O_DSYNC in place of an "
            "fdatasync."
        )
