"""What the files of a server lie on, from its file system down: what a sync can reach at all, and with which options.

Read from proc(5) as the server's processes have it, in their own mount namespace. A file system in an image is
followed through its loop device, and one laid over others to the layer that is written. Not for judging it: see
`analysis/medium.py`. What can't be followed ends the list; nothing is guessed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK_DEVICES = Path("/sys/dev/block")
MOST_LAYERS = 8
ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Layer:
    """A mounted file system. `options`: of the mount, then of the file system, each once. `device`: its source,
    a block device by the kernel's own name ("loop0").
    """

    file_system: str
    options: tuple[str, ...]
    device: str


@dataclass(frozen=True, slots=True)
class _Mount:
    layer: Layer
    number: str


def medium(directory: Path, pid: int) -> list[Layer]:
    """The file system that `directory`, as we can open it, is on as the process `pid` has it mounted, and those below
    it. Empty: not known.
    """
    return list(_layers(directory, Path(f"/proc/{pid}/mountinfo")))


def _layers(path: Path, mountinfo: Path) -> Iterator[Layer]:
    for _ in range(MOST_LAYERS):
        try:
            mount = _mount_of(path, mountinfo)
        except OSError:
            return
        if mount is None:
            return
        yield mount.layer
        below = _upper_directory(mount.layer) or _image(mount.number)
        if below is None:
            return
        path, mountinfo = below, Path("/proc/self/mountinfo")


def _mount_of(path: Path, mountinfo: Path) -> _Mount | None:
    """By the number that the kernel itself gives the mount of an open file. Raises OSError."""
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        told = Path(f"/proc/self/fdinfo/{opened}").read_text()
    finally:
        os.close(opened)
    found = re.search(r"^mnt_id:\s+(\d+)$", told, re.MULTILINE)
    for line in mountinfo.read_text(errors="surrogateescape").splitlines() if found else ():
        if found and line.split(" ", 1)[0] == found[1]:
            return _parsed(line)
    return None


def _parsed(line: str) -> _Mount:
    """`36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue` (proc(5))."""
    before, after = line.split(" - ", 1)
    _, _, number, _, _, own = before.split(" ")[:6]
    file_system, source, common = after.split(" ")[:3]
    options = dict.fromkeys((*own.split(","), *common.split(",")))
    device = _block_device(number) or _plain(source)
    return _Mount(Layer(file_system, tuple(map(_plain, options)), device), number)


def _plain(text: str) -> str:
    r"""Spaces and the like are written as `\040` there."""
    return ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def _block_device(number: str) -> str | None:
    device = BLOCK_DEVICES / number
    return device.resolve().name if device.exists() else None


def _image(number: str) -> Path | None:
    """The file behind a loop device."""
    try:
        text = (BLOCK_DEVICES / number / "loop" / "backing_file").read_text()
    except OSError:
        return None
    return Path(text.removesuffix("\n"))


def _upper_directory(layer: Layer) -> Path | None:
    """Where an overlay writes; in a container that is often a place which can't be seen from here."""
    for option in layer.options if layer.file_system == "overlay" else ():
        if option.startswith("upperdir="):
            return Path(option.removeprefix("upperdir="))
    return None
