"""Start a command whose monotonic clock is ahead of this machine's: `python -I -S clock.py NANOSECONDS COMMAND...`.

unshare(1) accepts only whole seconds. This program uses only the standard library, so that it starts quickly.
"""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEWTIME = 0x80  # linux/sched.h
NS_PER_S = 1_000_000_000


def main() -> None:
    """Start the command in a new time namespace, which applies only to new processes (time_namespaces(7))."""
    seconds, nanoseconds = divmod(int(sys.argv[1]), NS_PER_S)
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWTIME) != 0:
        sys.exit(f"can't create a time namespace: {os.strerror(ctypes.get_errno())}")
    try:
        with open("/proc/self/timens_offsets", "w") as offsets:  # noqa: PTH123 (pathlib is slow to import)
            offsets.write(f"monotonic {seconds} {nanoseconds}\n")
    except OSError as error:
        sys.exit(f"can't set the clock {seconds} s ahead: {error.strerror}")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
