"""Test whether writes to a directory reach the disk at once, because of its mount options or attributes.

If they do, written data are durable without a sync, so missing syncs prove nothing. `durability.py` counts syncs.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FS_IOC_GETFLAGS = 0x80086601  # linux/fs.h
FS_SYNC_FL = 0x00000008
CACHESTAT = 451  # Linux 6.5; the number is the same on every architecture
CACHESTAT_FIELDS = 5  # pages in the cache, dirty, under write-back, evicted, recently evicted
TRIES = 3
BLOCK_BYTES = 4096


def synchronous(directory: Path) -> bool | None:
    """Return whether a new file in the directory is written at once; None if not known.

    The evidence is the attribute (`chattr +S`), which a new file inherits, and the page of a new file. The page is
    clean if it was written at once. The kernel may write a page back by itself at that moment, so there are several
    trials: one page that stays dirty shows that writes are not synchronous.
    """
    try:
        with probe_file(directory) as opened:
            flags = _flags(opened)
            if flags is not None and flags & FS_SYNC_FL:
                return True
            seen = [_dirty_after_write(opened) for _ in range(TRIES)]
    except OSError:
        return None
    if None in seen:
        # A kernel before 6.5 reports only the attribute. If False is returned, the options of the mount decide.
        return None if flags is None else False
    return not any(seen)


@contextmanager
def probe_file(directory: Path) -> Iterator[int]:
    """Yield the descriptor of an empty file that leaves nothing behind. Raises OSError.

    The file has no name. If the file system requires one (FUSE), the file is removed after it is closed, because a
    mount of rclone restores a file that was removed while open.
    """
    try:
        opened = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        with tempfile.NamedTemporaryFile(dir=directory, prefix="serverdyno-", buffering=0) as file:
            yield file.fileno()
    else:
        try:
            yield opened
        finally:
            os.close(opened)


def _flags(opened: int) -> int | None:
    told = bytearray(8)
    try:
        fcntl.ioctl(opened, FS_IOC_GETFLAGS, told)
    except OSError:
        return None
    return int.from_bytes(told[:4], "little")


def _dirty_after_write(opened: int) -> bool | None:
    """Return whether a page is dirty after a write; None: the kernel does not report it, or no page is cached."""
    os.pwrite(opened, os.urandom(BLOCK_BYTES), 0)
    wanted = ctypes.create_string_buffer(struct.pack("=QQ", 0, 0))
    told = ctypes.create_string_buffer(8 * CACHESTAT_FIELDS)
    if ctypes.CDLL(None, use_errno=True).syscall(CACHESTAT, opened, wanted, told, 0) != 0:
        return None
    cached, dirty, under_way, *_ = struct.unpack(f"={CACHESTAT_FIELDS}Q", told.raw)
    return dirty + under_way > 0 if cached else None
