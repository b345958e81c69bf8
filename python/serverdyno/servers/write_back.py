"""The kernel's write-back limits (/proc/sys/vm/dirty_*), held at other values for a while and always put back.

They are the machine's, so one holder at a time: a lock file says who, and what was there before. The lock ends with
its holder however that ends, the file's text does not: whoever finds a text without a lock puts those values back
first. So the limits survive a holder that was killed, at the latest when the next one comes.

Standard library alone, since the keeper uses it. Not for other settings of the kernel.
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
# Both files set the same limit, and setting one makes the other 0. The one that is not 0 has to be restored.
SPELLINGS = {"dirty_ratio": "dirty_bytes", "dirty_background_ratio": "dirty_background_bytes"}
NAMES = (*SPELLINGS, "dirty_expire_centisecs", "dirty_writeback_centisecs")


class Held:
    """The limits at our values. `release` restores the earlier ones."""

    def __init__(self, journal: IO[str]) -> None:
        self._journal = journal

    def release(self) -> None:
        """Restore the limits; may be repeated."""
        if self._journal.closed:
            return
        with self._journal:
            _restore(self._journal)
            JOURNAL.unlink(missing_ok=True)


def hold(values: Mapping[str, int]) -> Held:
    """Set limits by their names below /proc/sys/vm.

    Raises BlockingIOError if somebody else holds them, OSError if they can't be set; nothing is changed then.
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
    """Restore what a killed holder left changed, if there is one.

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
            pass  # the holder before us removed it between our two steps
        except BaseException:
            journal.close()
            raise
        journal.close()


def _restore(journal: IO[str]) -> None:
    """Restore what the journal says, and empty it. A truncated text was never acted upon."""
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
