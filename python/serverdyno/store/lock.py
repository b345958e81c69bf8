"""One writer an experiment: a lock that the kernel takes back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from serverdyno.errors import UserError
from serverdyno.store.folder import Folder

LOCK_NAME = ".lock"


class WriterLock:
    """The right to write into one experiment folder, held until `release`; not passed on to children."""

    def __init__(self, folder: Folder) -> None:
        """Raises UserError that names the process which holds it."""
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
        with suppress(OSError):  # a full disk: the right is held, whether its holder is named or not
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Gives the right back. May be repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
