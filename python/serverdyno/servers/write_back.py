"""The kernel's write-back limits (/proc/sys/vm/dirty_*): set them for a time and always restore them.

The limits apply to the whole machine, so only one process may hold them at a time. It locks a journal file, which
contains the earlier values. The lock ends with the process, even if the process is killed, but the file's text remains:
a process that finds text in an unlocked journal first restores these values. So the limits of a killed holder are
restored when the next process holds them, at the latest.

Uses only the standard library, because the keeper imports this module.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

LIMITS = Path("/proc/sys/vm")
# Root trusts the content of this file, so other users must not be able to write to its directory.
JOURNAL = Path("/run/serverdyno-write-back.json")
# The two files of a pair set the same limit, and writing one sets the other to 0. Restore the one that is not
# 0.
SPELLINGS = {"dirty_ratio": "dirty_bytes", "dirty_background_ratio": "dirty_background_bytes"}
NAMES = (*SPELLINGS, "dirty_expire_centisecs", "dirty_writeback_centisecs")


class Held:
    """The limits while they are held. `release` restores the earlier values."""

    def __init__(self, journal: IO[str]) -> None:
        self._journal = journal

    def release(self) -> None:
        """Restore the limits. May be called repeatedly."""
        if self._journal.closed:
            return
        with self._journal:
            _restore(self._journal)
            JOURNAL.unlink(missing_ok=True)


def hold(values: Mapping[str, int]) -> Held:
    """Set limits by their names below /proc/sys/vm.

    Raises BlockingIOError if another process holds the limits, and OSError if they can't be set. In both cases, nothing
    is changed.
    """
    journal = _locked()
    held = Held(journal)
    try:
        _restore(journal)
        before = {name: _read(name) for name in (*NAMES, *SPELLINGS.values())}
        journal.write(json.dumps(before))
        journal.flush()
        os.fsync(journal.fileno())
        for name, value in values.items():
            _write(name, value)
    except BaseException:
        held.release()
        raise
    return held


def restore_abandoned() -> None:
    """Restore the limits that a killed holder did not restore, if any.

    Raises OSError if that is not allowed.
    """
    if not JOURNAL.exists():
        return
    with contextlib.suppress(BlockingIOError):
        Held(_locked()).release()


def _locked() -> IO[str]:
    """Return the journal, locked until it is closed. Raises BlockingIOError, OSError."""
    while True:
        number = os.open(JOURNAL, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        journal = os.fdopen(number, "r+", encoding="utf-8")
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(number), JOURNAL.stat()):
                return journal
        except FileNotFoundError:
            pass  # the previous holder removed the file between `open` and `stat`
        except BaseException:
            journal.close()
            raise
        journal.close()


def _restore(journal: IO[str]) -> None:
    """Restore the values in the journal, and empty it. If its text is truncated, no limit had been changed yet."""
    journal.seek(0)
    with contextlib.suppress(json.JSONDecodeError):
        before = json.loads(journal.read())
        for name in NAMES:
            spelling = SPELLINGS.get(name)
            other = before[spelling] if spelling else 0
            _write(spelling if spelling and other else name, other or before[name])
    journal.seek(0)
    journal.truncate()


def in_force(name: str) -> int | None:
    """Return a limit's current value; None if unreadable or if its other spelling is in force."""
    try:
        return _read(name) or None
    except OSError:
        return None


def _read(name: str) -> int:
    return int((LIMITS / name).read_text())


def _write(name: str, value: int) -> None:
    if _read(name) != value:
        (LIMITS / name).write_text(str(value))
