"""When a process started. The number of a process may be given again; the two together never are.

Not for what a process uses: `noise.py`.
"""

from __future__ import annotations

from pathlib import Path

STAT_STARTED = 19  # proc(5): field 22 of /proc/PID/stat, counted after the name


def started_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since boot. None: there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[STAT_STARTED])
