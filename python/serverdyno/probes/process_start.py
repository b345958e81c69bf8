"""Identify a process, and find out whether it has ended. Process IDs are reused, but not with the same start time."""

from __future__ import annotations

import os
from pathlib import Path

STAT_STARTED = 19  # proc(5): field 22 of /proc/PID/stat, counted after the name


def own_identity() -> tuple[int, int, int]:
    """Return the ID, the start time and the PID namespace of this process, for `has_ended`."""
    started = started_ticks(os.getpid())
    assert started is not None  # this process runs
    return os.getpid(), started, _pid_namespace()


def has_ended(pid: int, started: int, pid_namespace: int) -> bool:
    """Return whether a process has ended; False if it is in another PID namespace, where it is not visible."""
    return pid_namespace == _pid_namespace() and started_ticks(pid) != started


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def started_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None if there is no process with this ID."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[STAT_STARTED])
