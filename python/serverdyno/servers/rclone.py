"""rclone's S3 server on a directory of this machine: `rclone serve s3`, with its own, empty configuration."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from serverdyno.servers.base import Settings
from serverdyno.servers.local import version_line
from serverdyno.servers.object_server import ObjectServer, ObjectSettings

CONFIGURATION = "rclone.conf"
CACHE = ".rclone-cache"


class RcloneSettings(ObjectSettings):
    vfs_cache_mode: Literal["off", "minimal", "writes", "full"] = Field(
        default="off",
        description="--vfs-cache-mode: which files rclone keeps in its cache. With writes and full, a PUT is "
        "acknowledged when it is in the cache. The cache is on the same disk as the bucket.",
    )


class Rclone(ObjectServer[RcloneSettings]):
    name: ClassVar[str] = "rclone"
    program_name: ClassVar[str] = "rclone"
    summary: ClassVar[str] = "rclone serve s3, on a directory"
    settings_type: ClassVar[type[Settings]] = RcloneSettings

    @staticmethod
    def version_of(program: Path) -> str:
        return version_line(program, "version")

    def configuration(self) -> dict[str, str]:
        return {CONFIGURATION: "", **super().configuration()}

    def arguments(self) -> list[str]:
        return [
            "serve",
            "s3",
            str(self.volumes.top),
            "--addr",
            f"{self.host}:{self.port}",
            "--config",
            str(self.directory / CONFIGURATION),
            "--vfs-cache-mode",
            self.settings.vfs_cache_mode,
            "--cache-dir",
            str(self.volumes.top / CACHE),
        ]

    def environment(self) -> dict[str, str]:
        """Return the access key, which a command line would reveal, and the number of threads."""
        key_id, secret, _ = self.key
        return {"RCLONE_AUTH_KEY": f'"{key_id},{secret}"', "GOMAXPROCS": str(self.processors)}

    def acknowledged(self) -> str:
        where = (
            "written to its file"
            if self.settings.vfs_cache_mode in ("off", "minimal")
            else "in rclone's cache"
        )
        return f"A PUT is acknowledged once it is {where}. rclone has no setting for syncs."
