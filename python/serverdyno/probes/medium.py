"""The layers below a server's files that a sync can reach, from the file system to the devices.

The layers are read from proc(5) in the mount namespace of the server's processes. Each step down uses a number from
the kernel, never only a path, because another directory may be at the path now: an image is found through its loop
device, and an overlay's upper directory by a file that is created in the overlay. If a step fails, the reason is
recorded and nothing is guessed. `analysis/medium.py` judges the layers.
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
    """A mounted file system. `options` contains the options of the mount and of the file system, each once.

    `device` is its source, a block device by its kernel name ("loop0"). `devices` are all block devices below it,
    from the top. `unfollowed` says why the layers below are not known; empty: the next layer is known, or only the
    devices are below.
    """

    file_system: str
    options: tuple[str, ...]
    device: str
    devices: tuple[Device, ...] = ()
    unfollowed: str = ""


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mount. `root` is the directory of the file system that is mounted at the path `at`."""

    layer: LayerReading
    number: str
    root: str
    at: str


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a file system. `directory` can be opened; None: only the file system's `number` is known.

    `mountinfo` is the mount list of a process in the same mount namespace.
    """

    mountinfo: Path
    directory: Path | None = None
    number: str = ""


def medium(directory: Path, pid: int) -> list[LayerReading]:
    """Return the file system of `directory`, as mounted by the process `pid`, and those below it; empty if not known.

    In an overlay, a test file is briefly created.
    """
    layers: list[LayerReading] = []
    process = Path(f"/proc/{pid}")
    if not ROOT_OF_PROCESS.match(f"{directory}") and not _in_our_mounts(process):
        directory = process / "root" / directory.relative_to("/")
    place: _Place | None = _Place(process / "mountinfo", directory)
    while place is not None and len(layers) < MOST_LAYERS:
        try:
            mount = _mount_of(place)
        except OSError:
            mount = None
        if mount is None:
            if layers:
                layers[-1] = replace(layers[-1], unfollowed="the file system below is not visible from here")
            break
        layer, place = _step(mount, place)
        layers.append(layer)
    if place is not None and len(layers) == MOST_LAYERS:
        layers[-1] = replace(layers[-1], unfollowed="it has too many layers")
    return layers


def _in_our_mounts(process: Path) -> bool:
    """Return whether a process sees our mounts. In another namespace, equal mounts have other numbers."""
    try:
        return (process / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()
    except OSError:
        return True


def _step(mount: _Mount, place: _Place) -> tuple[LayerReading, _Place | None]:
    """Return the layer with its devices, and the place of the next layer."""
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
        return replace(layer, unfollowed="it is on several loop devices"), None
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
    """Return the directory of a loop device's image, or only the number of its file system.

    The directory is returned only if the file at the image's path is still the attached file.
    """
    own = Path("/proc/self/mountinfo")
    with contextlib.suppress(OSError):
        found = _mount_of(_Place(own, backing.path))
        if found and found.number == backing.number and backing.path.stat().st_ino == backing.inode:
            return _Place(own, backing.path.parent)
    return _Place(own, number=backing.number)


def _written_directory(mount: _Mount, place: _Place) -> _Place | str:
    """Return an overlay's upper directory: a file created in the overlay must appear there.

    If it is not known, return the reason.
    """
    upper = next((each for each in mount.layer.options if each.startswith("upperdir=")), None)
    if upper is None or place.directory is None:
        return "the place where it writes is not known"
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
        return "a test file could not show where it writes"
    return "written data does not appear in the directory that its mount names"


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
    """Return the mount of a place, found by the mount ID of the open directory. Raises OSError."""
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
    """Parse a line of mountinfo (proc(5)).

    `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
    """
    before, after = line.split(" - ", 1)
    _, _, number, root, at, own = before.split(" ")[:6]
    file_system, source, common = after.split(" ")[:3]
    options = dict.fromkeys((*own.split(","), *common.split(",")))
    device = block_device.name_of(number) or _plain(source)
    return _Mount(
        LayerReading(file_system, tuple(map(_plain, options)), device), number, _plain(root), _plain(at)
    )


def _plain(text: str) -> str:
    r"""Decode characters that mountinfo escapes, such as a space as `\040`."""
    return ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
