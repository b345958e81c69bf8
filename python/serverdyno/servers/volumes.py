"""The volumes of a file server's shares: one directory per share, optionally on a new file system.

The file system is an image on a loop device. This module creates the image. The keeper mounts it (see
`host_changes.py`), so that it is unmounted even if dyno is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from serverdyno.errors import ServerError
from serverdyno.probes import abandoned
from serverdyno.servers.host_changes import Mount
from serverdyno.servers.local import find_program, make_private
from serverdyno.units import MIB

MAKE_TIMEOUT_S = 300.0
# Write the inode tables now, so that the kernel does not write them in the background during the first
# levels.
MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}
PACKAGES = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}


@dataclass(frozen=True, slots=True)
class Volumes:
    """`count` directories below the private `root`. With `file_system` "none", they are on that of `root`."""

    root: Path
    count: int
    file_system: Literal["none", "ext4", "xfs"]
    mount_options: str
    image_mib: int

    @property
    def top(self) -> Path:
        """Return the parent of the volumes' directories, as the server sees it."""
        return self.root / "volumes"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"volume{number}" for number in range(1, self.count + 1))

    @property
    def mount(self) -> Mount | None:
        if self.file_system == "none":
            return None
        return Mount(
            image=str(self._image),
            at=str(self.top),
            file_system=self.file_system,
            options=self.mount_options,
        )

    @property
    def _image(self) -> Path:
        return self.root / "image"

    def check(self) -> None:
        """Raise ServerError if the file system is not possible on this machine."""
        if self.file_system == "none":
            return
        if os.geteuid() != 0:
            raise ServerError(
                f"skipped: file_system {self.file_system!r} requires root, because only root may mount",
                hint='Run as root, or set file_system = "none".',
            )
        program = MAKE[self.file_system][0]
        if find_program(program) is None or find_program("mount") is None:
            raise ServerError(
                f"skipped: file_system {self.file_system!r} needs {program}, which is not installed",
                hint=f"apt-get install {PACKAGES[self.file_system]}",
            )
        free_bytes = shutil.disk_usage(self.root.parent if not self.root.exists() else self.root).free
        if self.image_mib * MIB > free_bytes:
            raise ServerError(
                f"skipped: an image of {self.image_mib} MiB does not fit into the "
                f"{free_bytes // MIB} MiB of free space at {self.root.parent}",
                hint="Set a smaller image_mib, or a data_directory on a larger disk.",
            )

    def make_root(self) -> None:
        """Create the directory, and the image if there is one. Raises ServerError.

        Directories that killed runs have left next to it are removed first.
        """
        abandoned.sweep(self.root.parent)
        make_private(self.root)
        abandoned.mark(self.root)
        make_private(self.top)
        if self.file_system == "none":
            return
        try:
            with self._image.open("xb") as image:
                os.posix_fallocate(image.fileno(), 0, self.image_mib * MIB)
            program, *options = MAKE[self.file_system]
            done = subprocess.run(
                [str(find_program(program)), *options, str(self._image)],
                capture_output=True,
                text=True,
                timeout=MAKE_TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServerError(f"can't create the image {self._image}: {error}") from error
        if done.returncode != 0:
            raise ServerError(f"{program}: {done.stderr.strip()}", hint="Set a larger image_mib.")

    def make(self, top: Path, owner: tuple[int, int]) -> None:
        """Create the directories of the volumes below `top`. Raises OSError."""
        for name in self.names:
            directory = top / name
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
            os.chown(directory, *owner)

    def description(self) -> str:
        place = file_system_of(self.root.parent)
        if self.file_system == "none":
            return f"Data volumes: directories of {place}."
        return (
            f"Data volumes: directories of one {self.file_system} file system, mounted with "
            f"{self.mount_options or 'its default options'}, in an image of {self.image_mib} MiB on a loop device, "
            f"on {place}."
        )


def file_system_of(path: Path) -> str:
    """Describe the mount of an existing path: `ext4 (rw,relatime) on /dev/sda1`."""
    resolved = path.resolve()
    mounts = [
        mount for mount in psutil.disk_partitions(all=True) if resolved.is_relative_to(mount.mountpoint)
    ]
    if not mounts:
        return "unknown file system"
    # If several file systems are mounted at one path, the last one hides the others.
    deepest = max(enumerate(mounts), key=lambda each: (len(each[1].mountpoint), each[0]))[1]
    return f"{deepest.fstype} ({deepest.opts}) on {deepest.device}"
