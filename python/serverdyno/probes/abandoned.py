"""Private directories below the temporary folder.

Directories that a killed tool left are removed when the next private directory is created.

A directory is removed only if it has a name and an owner file of dyno, and belongs to this user. It must not have
changed for a minute. The process that created it must have ended, and no process may work in it or have its name in an
argument. `keeper.py` ends servers.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from os import geteuid
from pathlib import Path

import psutil

from serverdyno.probes.process_start import has_ended, own_identity

OWNER = ".owner"  # file in a private directory: process ID, start time and PID namespace of the tool
NAME = re.compile(r"serverdyno-[a-z][a-z-]*-[0-9a-z_]{8,16}")
MOST_MARK_BYTES = 100
AGE_S = 60.0  # a keeper takes at most fifteen seconds to end its server


def mark(directory: Path) -> None:
    """Mark a directory as belonging to this process."""
    (directory / OWNER).write_text(" ".join(map(str, own_identity())) + "\n")


@contextlib.contextmanager
def private_directory(what: str, at: Path | None = None) -> Iterator[Path]:
    """Yield a new directory `serverdyno-WHAT-...`, and remove it at the end. Raises OSError if it can't be created."""
    if at is None:
        sweep_once()
    else:
        sweep(at)
    with tempfile.TemporaryDirectory(
        prefix=f"serverdyno-{what}-", dir=at, ignore_cleanup_errors=True
    ) as name:
        mark(Path(name))
        yield Path(name)


@functools.cache
def sweep_once() -> None:
    """Sweep the temporary folder once per process, before its first private directory or server."""
    sweep(Path(tempfile.gettempdir()))


def sweep(temporary: Path, age_s: float = AGE_S) -> list[Path]:
    """Remove the abandoned directories in `temporary` and return them.

    Directories that can't be read or removed stay.
    """
    swept = []
    with contextlib.suppress(OSError):
        for directory in temporary.iterdir():
            if NAME.fullmatch(directory.name) and _is_abandoned(directory, age_s):
                shutil.rmtree(directory, ignore_errors=True)
                swept.append(directory)
    return swept


def _is_abandoned(directory: Path, age_s: float) -> bool:
    try:
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != geteuid():
            return False
        owner = directory / OWNER
        if owner.is_symlink() or owner.stat().st_size > MOST_MARK_BYTES:
            return False
        pid, started, namespace = map(int, owner.read_text().split())
        changed_s = max(path.lstat().st_mtime for path in (directory, *directory.iterdir()))
    except (OSError, ValueError):
        return False  # without an owner file, another program may have created it
    return time.time() - changed_s > age_s and has_ended(pid, started, namespace) and not _is_used(directory)


def _is_used(directory: Path) -> bool:
    """Return whether a process (a server, a keeper) works in the directory or has the directory's name in an argument.

    A volume's directory on another disk may have the same name.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if any(directory.name in word for word in process.cmdline()):
                return True
            if Path(process.cwd()).is_relative_to(directory):
                return True
    return False
