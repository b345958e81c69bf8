"""Settings of the disk below a private file server: volumes, file system, write-back, and sync delay.

`volume_server.py` implements them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from typing import Literal

from pydantic import Field, field_validator

from serverdyno.servers.base import MAX_VOLUMES
from serverdyno.servers.file_server import FileServerSettings

XFS_LEAST_MIB = 300  # mkfs.xfs refuses a smaller file system
# The options are passed to mount(8) unchanged.
MOUNT_OPTIONS = re.compile(r"([a-z0-9_]+(=[a-z0-9_]+)?(,[a-z0-9_]+(=[a-z0-9_]+)?)*)?")


class DiskSettings(FileServerSettings):
    volumes: int = Field(
        default=1,
        ge=1,
        le=MAX_VOLUMES,
        description="Number of shares: volume1, volume2 ..., each with its own directory.",
    )
    data_directory: str | None = Field(
        default=None,
        description="Directory for the volumes, on the disk to be measured. The volumes are removed at the "
        "end. Default: TMPDIR, which may be in memory.",
    )
    file_system: Literal["none", "ext4", "xfs"] = Field(
        default="none",
        description="Type of a new file system for the volumes, in an image on a loop device (needs root). "
        "none: use the directory's file system.",
    )
    mount_options: str = Field(
        default="",
        description='Mount options of the new file system, such as "noatime,data=writeback". Empty: its defaults.',
    )
    image_mib: int = Field(
        default=4096,
        ge=64,
        le=2**20,
        description="Size of the image in MiB. The disk space is allocated when the image is created.",
    )
    vm_dirty_ratio: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="vm.dirty_ratio of the machine in %, restored at the end (needs root).",
    )
    vm_dirty_background_ratio: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="vm.dirty_background_ratio of the machine in %, restored at the end (needs root).",
    )
    vm_dirty_expire_centisecs: int | None = Field(
        default=None,
        ge=0,
        le=10_000_000,
        description="vm.dirty_expire_centisecs of the machine in units of 10 ms, restored at the end (needs "
        "root).",
    )
    vm_dirty_writeback_centisecs: int | None = Field(
        default=None,
        ge=0,
        le=10_000_000,
        description="vm.dirty_writeback_centisecs of the machine in units of 10 ms, restored at the end "
        "(needs root).",
    )
    fsync_delay_ms: float = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Simulate a slow disk: each fsync and fdatasync of the server takes at least this much "
        "longer (seccomp notification, Linux 5.5). Every system call costs a few more "
        "instructions. 0: no delay.",
    )

    @field_validator("mount_options")
    @classmethod
    def plain_mount_options(cls, value: str) -> str:
        if not MOUNT_OPTIONS.fullmatch(value):
            raise ValueError(
                'must be a list of options with commas between them, such as "noatime,data=writeback"'
            )
        return value

    def wrong_disk(self) -> dict[str, bool]:
        """Return each possible mistake in the disk settings, and whether it was made."""
        background, dirty = self.vm_dirty_background_ratio, self.vm_dirty_ratio
        return {
            "mount_options requires file_system": bool(self.mount_options) and self.file_system == "none",
            f"xfs requires an image_mib of {XFS_LEAST_MIB} or more": (
                self.file_system == "xfs" and self.image_mib < XFS_LEAST_MIB
            ),
            "vm_dirty_background_ratio must be below vm_dirty_ratio": (
                background is not None and dirty is not None and background >= dirty
            ),
        }

    def free_bytes(self) -> int | None:
        """Return the size of the image, or the free space where the volumes will be."""
        if self.file_system != "none":
            return self.image_mib * 2**20
        try:
            return shutil.disk_usage(self.data_directory or tempfile.gettempdir()).free
        except OSError:
            return None  # the error is reported when the server starts

    def write_back(self) -> dict[str, int]:
        """Return the write-back limits to change, by their names below /proc/sys/vm."""
        names = [name for name in type(self).model_fields if name.startswith("vm_")]
        values = {name.removeprefix("vm_"): getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}
