"""The block devices below a file system, from sysfs, and whether each forwards a sync (`queue/write_cache`).

Partitions, device mapper and software RAID are resolved to the devices below them. The search ends at a device of an
unknown kind. `medium.py` handles file systems.
"""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path

BLOCK_DEVICES = Path("/sys/dev/block")
MOST_DEVICES = 64
LEAST = re.compile(r"(?:sd|hd|vd|xvd)[a-z]+\d*|(?:nvme\d+n|mmcblk|pmem)\d+(?:p\d+)?|z?ram\d+")
"""Devices without visible devices below them: disks and memory. `analysis` judges them."""
LOOP = re.compile(r"loop\d+")
RAID = re.compile(r"md\w+")
PASSED_ON = ("LVM-", "CRYPT-", "mpath-", "part")
"""Kinds of device mapper targets (by their UUIDs) that forward syncs. Others may drop syncs (flakey, zero)."""
LOOP_GET_STATUS64 = 0x4C05  # linux/loop.h
LOOP_STATUS_BYTES = 232
BTRFS_IOC_FS_INFO = 0x8400941F  # linux/btrfs.h
BTRFS_FS_INFO_BYTES = 1024
BTRFS = Path("/sys/fs/btrfs")


@dataclass(frozen=True, slots=True)
class Device:
    """A block device and its kernel name. `write_cache` is "write back" or "write through"; None if not known."""

    name: str
    write_cache: str | None


@dataclass(frozen=True, slots=True)
class Stack:
    """The devices below a file system, from top to bottom. `loops` contains the numbers of loop devices among them.

    `unfollowed` says why the devices below a device are not known; empty if all are known.
    """

    devices: tuple[Device, ...] = ()
    loops: tuple[str, ...] = ()
    unfollowed: str = ""


@dataclass(frozen=True, slots=True)
class Backing:
    """The file behind a loop device: the number of its file system, its inode, and its path when it was attached."""

    number: str
    inode: int
    path: Path


def name_of(number: str) -> str | None:
    """Return the kernel's name of the block device `number` ("7:0")."""
    device = BLOCK_DEVICES / number
    return device.resolve().name if device.exists() else None


def below(numbers: list[str]) -> Stack:
    """Return the devices with these numbers, and all devices below them."""
    pending = [(BLOCK_DEVICES / number).resolve() for number in numbers]
    seen: dict[str, Device] = {}
    loops, unfollowed = [], ""
    while pending and len(seen) < MOST_DEVICES:
        device = pending.pop(0)
        if device.name in seen:
            continue
        whole = device.parent if (device / "partition").exists() else device
        seen[device.name] = Device(device.name, _text(whole / "queue" / "write_cache"))
        parts = [entry.resolve() for entry in sorted((whole / "slaves").glob("*"))]
        if LOOP.fullmatch(whole.name):
            loops.append(_text(whole / "dev") or "")
        elif parts and _passes_on(whole):
            pending += parts
        elif not LEAST.fullmatch(device.name):
            unfollowed = unfollowed or f"{device.name} is an unknown kind of device"
    return Stack(tuple(seen.values()), tuple(loops), unfollowed)


def _passes_on(device: Path) -> bool:
    if RAID.fullmatch(device.name):
        return True
    return (_text(device / "dm" / "uuid") or "").startswith(PASSED_ON)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def backing(number: str) -> Backing | None:
    """Return the file behind the loop device `number`; None if not known, for example without root."""
    name = name_of(number)
    path = _text(BLOCK_DEVICES / number / "loop" / "backing_file")
    if name is None or path is None:
        return None
    status = bytearray(LOOP_STATUS_BYTES)
    try:
        opened = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if _number(os.fstat(opened).st_rdev) != number:
                return None
            fcntl.ioctl(opened, LOOP_GET_STATUS64, status)
        finally:
            os.close(opened)
    except OSError:
        return None
    device, inode = (int.from_bytes(status[place : place + 8], "little") for place in (0, 8))
    return Backing(_number(device), inode, Path(path))


def _number(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"


def of_btrfs(opened: int) -> list[str]:
    """Return the device numbers of the Btrfs that contains an open directory; empty if not known."""
    told = bytearray(BTRFS_FS_INFO_BYTES)
    try:
        fcntl.ioctl(opened, BTRFS_IOC_FS_INFO, told)
    except OSError:
        return []
    digits = told[16:32].hex()  # after max_id and num_devices
    name = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return [text for entry in sorted((BTRFS / name / "devices").glob("*")) if (text := _text(entry / "dev"))]
