"""The lock for one writer per experiment, which the kernel releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from serverdyno.errors import UserError
from serverdyno.store.folder import Folder

LOCK_NAME = ".lock"


class WriterLock:
    """The right to write into one experiment folder until `release`; child processes do not inherit it."""

    def __init__(self, folder: Folder) -> None:
        """Take the lock. Raises UserError, which names the process that holds the lock."""
        self._descriptor = folder.lock_file(LOCK_NAME)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 20, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise UserError(
                f"{folder.path} is being written by process {holder or '(just starting)'}",
                hint="Wait for it, or end it and use `dyno resume`.",
            ) from error
        os.ftruncate(self._descriptor, 0)
        with suppress(OSError):  # a full disk: the lock is held even if the holder's name can't be written
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock. May be called repeatedly."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
