"""Versity S3 Gateway with its back end `posix`: objects are files here, and metadata are extended attributes."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.servers.base import Settings
from serverdyno.servers.local import version_line
from serverdyno.servers.object_server import ObjectServer, ObjectSettings, count_lines

ACCESS_LOG = "access.log"
SIDECAR = "sidecar"


class VersitygwSettings(ObjectSettings):
    metadata: Literal["xattr", "sidecar"] = Field(
        default="xattr",
        description="Where metadata and ETags are stored. xattr: in extended attributes of the files, which the file "
        "system must support. sidecar: in files of a second directory on the same disk (--sidecar).",
    )
    disable_otmp: bool = Field(
        default=False,
        description="--disableotmp: write an object to a named temporary file instead of an unnamed one (O_TMPFILE).",
    )
    keep_alive: bool = Field(
        default=True,
        description="--keep-alive: keep connections open after an answer, as the other servers do. versitygw's default "
        "is to close them.",
    )
    access_log: bool = Field(
        default=False, description="Write an access log, from which the requests are counted. Default: off."
    )


class Versitygw(ObjectServer[VersitygwSettings]):
    name: ClassVar[str] = "versitygw"
    program_name: ClassVar[str] = "versitygw"
    summary: ClassVar[str] = "Versity S3 Gateway, on a directory"
    settings_type: ClassVar[type[Settings]] = VersitygwSettings

    @staticmethod
    def version_of(program: Path) -> str:
        return f"versitygw {version_line(program, '--version').partition(':')[2].strip()}"

    def arguments(self) -> list[str]:
        settings = self.settings
        options = {
            "--quiet": True,
            "--keep-alive": settings.keep_alive,
            f"--access-log={self.directory / ACCESS_LOG}": settings.access_log,
        }
        of_posix = {
            f"--sidecar={self._sidecar}": settings.metadata == "sidecar",
            "--disableotmp": settings.disable_otmp,
        }
        return [
            f"--port={self.host}:{self.port}",
            *(option for option, is_set in options.items() if is_set),
            "posix",
            *(option for option, is_set in of_posix.items() if is_set),
            str(self.data),
        ]

    @property
    def _sidecar(self) -> Path:
        return self.volumes.top / SIDECAR

    def beside(self) -> list[str]:
        return [f"mkdir -p '{self._sidecar}'"] if self.settings.metadata == "sidecar" else []

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
        """Return the number of lines in the access log, including the readiness check's; None without a log."""
        return count_lines(self.directory / ACCESS_LOG) if self.settings.access_log else None

    def acknowledged(self) -> str:
        return (
            "A PUT is acknowledged once its file is written and has its name, without a sync: a power cut can lose it. "
            "versitygw has no setting for syncs."
        )
