"""Whether what is written to a directory is written to the disk at once, by its mount or attributes: tried once.

Then a server needs no sync to keep its word, and that it makes none proves nothing. Not for syncs: see `durability.py`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import tempfile
from pathlib import Path

FS_IOC_GETFLAGS = 0x80086601  # linux/fs.h
FS_SYNC_FL = 0x00000008
CACHESTAT = 451  # Linux 6.5; the number is the same on every architecture
CACHESTAT_FIELDS = 5  # pages in the cache, dirty, under write-back, evicted, recently evicted
TRIES = 3
BLOCK_BYTES = 4096


def synchronous(directory: Path) -> bool | None:
    """Return whether a file that is made there is written at once; None: it can't be told.

    By the attribute (`chattr +S`), which a new file inherits, and by the page of a new file: one that was written at
    once is clean. The kernel may write a page back by itself in that moment, so one of several that stays dirty is
    enough.
    """
    try:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            flags = _flags(file.fileno())
            if flags is not None and flags & FS_SYNC_FL:
                return True
            seen = [_dirty_after_write(file.fileno()) for _ in range(TRIES)]
    except OSError:
        return None
    if None in seen:
        # An older kernel: the mount is then judged by its options, the attribute is known.
        return None if flags is None else False
    return not any(seen)


def _flags(opened: int) -> int | None:
    told = bytearray(8)
    try:
        fcntl.ioctl(opened, FS_IOC_GETFLAGS, told)
    except OSError:
        return None
    return int.from_bytes(told[:4], "little")


def _dirty_after_write(opened: int) -> bool | None:
    """None: this kernel does not tell, or the file has no pages there."""
    os.pwrite(opened, os.urandom(BLOCK_BYTES), 0)
    wanted = ctypes.create_string_buffer(struct.pack("=QQ", 0, 0))
    told = ctypes.create_string_buffer(8 * CACHESTAT_FIELDS)
    if ctypes.CDLL(None, use_errno=True).syscall(CACHESTAT, opened, wanted, told, 0) != 0:
        return None
    cached, dirty, under_way, *_ = struct.unpack(f"={CACHESTAT_FIELDS}Q", told.raw)
    return dirty + under_way > 0 if cached else None
