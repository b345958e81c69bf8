"""What the files of a server lie on, from its file system down to a device: what a sync can reach at all.

Read from proc(5) as the server's processes have it, in their own mount namespace. Each step down goes by a number that
the kernel gives, never by a path alone, since another directory may be at that path now: an image through its loop
device; an overlay to where a file that is made in it appears. Where that fails, the reason is kept, and nothing is
guessed. Not for judging: see `analysis/medium.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from serverdyno.probes import block_device
from serverdyno.probes.block_device import Device

MOST_LAYERS = 8
ESCAPED = re.compile(r"\\([0-7]{3})")
ROOT_OF_PROCESS = re.compile(r"/proc/\d+/root(?=/)")


@dataclass(frozen=True, slots=True)
class LayerReading:
    """A mounted file system. `options`: of the mount, then of the file system, each once. `device`: its source,
    a block device by the kernel's own name ("loop0"). `devices`: all block devices below it, the first one first.

    `unfollowed`: why it is not known what is below; empty: that is the next layer, or the devices are all.
    """

    file_system: str
    options: tuple[str, ...]
    device: str
    devices: tuple[Device, ...] = ()
    unfollowed: str = ""


@dataclass(frozen=True, slots=True)
class _Mount:
    """`root`: the directory of the file system that is mounted `at`."""

    layer: LayerReading
    number: str
    root: str
    at: str


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory as we can open it, and the list of mounts of who has it mounted. None: by `number` alone."""

    mountinfo: Path
    directory: Path | None = None
    number: str = ""


def medium(directory: Path, pid: int) -> list[LayerReading]:
    """The file system that `directory`, as we can open it, is on as the process `pid` has it mounted, and those below
    it. Empty: not known. In an overlay a file is made for a moment.
    """
    layers: list[LayerReading] = []
    place: _Place | None = _Place(Path(f"/proc/{pid}/mountinfo"), directory)
    while place is not None and len(layers) < MOST_LAYERS:
        try:
            mount = _mount_of(place)
        except OSError:
            mount = None
        if mount is None:
            if layers:
                layers[-1] = replace(layers[-1], unfollowed="the file system below is mounted out of sight")
            break
        layer, place = _step(mount, place)
        layers.append(layer)
    if place is not None and len(layers) == MOST_LAYERS:
        layers[-1] = replace(layers[-1], unfollowed="there are too many layers")
    return layers


def _step(mount: _Mount, place: _Place) -> tuple[LayerReading, _Place | None]:
    """The layer with what is known of its devices, and where the next one is looked for."""
    if mount.layer.file_system == "overlay":
        found = _written_directory(mount, place)
        return (
            (replace(mount.layer, unfollowed=found), None) if isinstance(found, str) else (mount.layer, found)
        )
    stack = block_device.below(_numbers(mount, place))
    layer = replace(mount.layer, devices=stack.devices, unfollowed=stack.unfollowed)
    if not stack.loops or stack.unfollowed:
        return layer, None
    if len(stack.loops) > 1:
        return replace(layer, unfollowed="it lies on several loop devices"), None
    backing = block_device.backing(stack.loops[0])
    if backing is None:
        return replace(layer, unfollowed="the image of its loop device is not known"), None
    return layer, _image_place(backing)


def _numbers(mount: _Mount, place: _Place) -> list[str]:
    if block_device.name_of(mount.number):
        return [mount.number]
    if mount.layer.file_system != "btrfs" or place.directory is None:
        return []
    with contextlib.suppress(OSError):
        opened = os.open(place.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return block_device.of_btrfs(opened)
        finally:
            os.close(opened)
    return []


def _image_place(backing: block_device.Backing) -> _Place:
    """By the directory of the image only if it is that very file."""
    own = Path("/proc/self/mountinfo")
    with contextlib.suppress(OSError):
        found = _mount_of(_Place(own, backing.path))
        if found and found.number == backing.number and backing.path.stat().st_ino == backing.inode:
            return _Place(own, backing.path.parent)
    return _Place(own, number=backing.number)


def _written_directory(mount: _Mount, place: _Place) -> _Place | str:
    """Where an overlay keeps what is written to it: a file that is made above must appear there. Else: why not."""
    upper = next((each for each in mount.layer.options if each.startswith("upperdir=")), None)
    if upper is None or place.directory is None:
        return "where it writes is not known"
    inside = ROOT_OF_PROCESS.sub("", str(place.directory), count=1)
    try:
        below_mount = Path(os.path.realpath(inside)).relative_to(mount.at)
        with _made_file(place.directory) as name:
            relative = Path(mount.root.lstrip("/")) / below_mount
            process = place.mountinfo.parent
            for root, seen_by in (("", Path("/proc/self")), (f"{process / 'root'}", process)):
                path = Path(root + upper.removeprefix("upperdir=")) / relative
                if (path / name).exists():
                    return _Place(seen_by / "mountinfo", path)
    except (OSError, ValueError):
        return "it can't be tried where it writes"
    return "what is written to it does not appear where its mount says"


@contextlib.contextmanager
def _made_file(directory: Path) -> Iterator[str]:
    name = f".serverdyno-{secrets.token_hex(16)}"
    with (directory / name).open("xb"):
        pass
    try:
        yield name
    finally:
        (directory / name).unlink()


def _mount_of(place: _Place) -> _Mount | None:
    """By the number that the kernel itself gives the mount of an open file. Raises OSError."""
    mounts = place.mountinfo.read_text(errors="surrogateescape").splitlines()
    if place.directory is None:
        parsed = (_parsed(line) for line in mounts)
        return next((mount for mount in parsed if mount.number == place.number), None)
    opened = os.open(place.directory, os.O_PATH | os.O_CLOEXEC)
    try:
        told = Path(f"/proc/self/fdinfo/{opened}").read_text()
    finally:
        os.close(opened)
    found = re.search(r"^mnt_id:\s+(\d+)$", told, re.MULTILINE)
    for line in mounts if found else ():
        if found and line.split(" ", 1)[0] == found[1]:
            return _parsed(line)
    return None


def _parsed(line: str) -> _Mount:
    """`36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue` (proc(5))."""
    before, after = line.split(" - ", 1)
    _, _, number, root, at, own = before.split(" ")[:6]
    file_system, source, common = after.split(" ")[:3]
    options = dict.fromkeys((*own.split(","), *common.split(",")))
    device = block_device.name_of(number) or _plain(source)
    return _Mount(
        LayerReading(file_system, tuple(map(_plain, options)), device), number, _plain(root), _plain(at)
    )


def _plain(text: str) -> str:
    r"""Spaces and the like are written as `\040` there."""
    return ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
