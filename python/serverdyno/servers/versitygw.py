"""Versity S3 Gateway with its back end `posix`: objects are files of this machine, metadata extended attributes."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.servers.base import Settings
from serverdyno.servers.local import version_line
from serverdyno.servers.object_server import ObjectServer, ObjectSettings

ACCESS_LOG = "access.log"
SIDECAR = "sidecar"


class VersitygwSettings(ObjectSettings):
    metadata: Literal["xattr", "sidecar"] = Field(
        default="xattr",
        description="Where metadata and ETags are. xattr: in extended attributes of the files, which the file system "
        "must support. sidecar: in files of a second directory on the same disk (--sidecar).",
    )
    disable_otmp: bool = Field(
        default=False,
        description="--disableotmp: write an object to a named temporary file instead of an unnamed one (O_TMPFILE).",
    )
    access_log: bool = Field(
        default=False, description="Write an access log, whose lines are the count of requests. Default: off."
    )


class Versitygw(ObjectServer[VersitygwSettings]):
    name: ClassVar[str] = "versitygw"
    program_name: ClassVar[str] = "versitygw"
    summary: ClassVar[str] = "Versity S3 Gateway, on a directory"
    settings_type: ClassVar[type[Settings]] = VersitygwSettings

    @staticmethod
    def version_of(program: Path) -> str:
        return version_line(program, "--version")

    def arguments(self) -> list[str]:
        settings = self.settings
        log = ["--access-log", str(self.directory / ACCESS_LOG)] if settings.access_log else []
        sidecar = ["--sidecar", str(self.volumes.top / SIDECAR)] if settings.metadata == "sidecar" else []
        otmp = ["--disableotmp"] if settings.disable_otmp else []
        listening = ["--port", f"{self.host}:{self.port}", "--region", "us-east-1"]
        return [*listening, "--quiet", *log, "posix", *sidecar, *otmp, str(self.data.parent)]

    def beside(self) -> list[str]:
        return [f"mkdir -p '{self.volumes.top / SIDECAR}'"] if self.settings.metadata == "sidecar" else []

    def environment(self) -> dict[str, str]:
        """Return the access key, which a command line would reveal, and the number of threads."""
        key_id, secret, _ = self.key
        return {
            "ROOT_ACCESS_KEY": key_id,
            "ROOT_SECRET_KEY": secret,
            "GOMAXPROCS": str(self.processors),
            "HOME": str(self.directory),
        }

    def requests_served(self) -> int | None:
        """Return the lines of the access log, including the readiness check's; None without a log."""
        if not self.settings.access_log:
            return None
        try:
            with (self.directory / ACCESS_LOG).open("rb") as log:
                return sum(1 for _ in log)
        except OSError:
            return None

    def acknowledged(self) -> str:
        return (
            "A PUT is acknowledged once its file is written and has its name, without a sync: a power cut can lose it. "
            "versitygw has no setting for syncs."
        )
