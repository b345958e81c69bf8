"""Files that only this user may read and write, independent of the umask."""

from __future__ import annotations

import os
from pathlib import Path

MODE, DIRECTORY_MODE = 0o600, 0o700


def write_private(path: Path, data: bytes) -> None:
    """Write a new file, replacing an existing one."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb") as file:
        os.fchmod(file.fileno(), MODE)
        file.write(data)


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, which only this user may access. Existing ones are not changed."""
    for each in (*reversed(directory.parents), directory):
        if not each.exists():
            each.mkdir(DIRECTORY_MODE)
