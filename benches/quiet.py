"""Wait until no other program uses the machine, and measure the CPU time of other programs during a run."""

from __future__ import annotations

import time
from pathlib import Path

from serverdyno.probes.noise import CpuTime, machine_cpu, used_by_others

LOOK_S = 0.3
# Share of one CPU. One tick of the kernel's accounting (10 ms) is 3 % of the interval `LOOK_S`.
QUIET_SHARE = 0.05


def wait_until_quiet(patience_s: float) -> bool:
    """Wait until other programs use at most `QUIET_SHARE`. Return whether that happened within `patience_s`.

    If `patience_s` is 0, return False at once.
    """
    deadline = time.monotonic() + patience_s
    while patience_s > 0:
        before, own_s = machine_cpu(), time.process_time()
        time.sleep(LOOK_S)
        if foreign_share(before, machine_cpu(), time.process_time() - own_s) <= QUIET_SHARE:
            return True
        if time.monotonic() >= deadline:
            break
    return False


def foreign_share(before: CpuTime, after: CpuTime, own_cpu_s: float) -> float:
    """Return other programs' CPU time between two snapshots as a share of one CPU; see `used_by_others`.

    It includes steal time.
    """
    used = used_by_others(before, after, own_cpu_s)
    return (used.others_s + used.steal_s) / used.interval_s


def time_wait_sockets() -> int:
    """Return the number of TCP connections in TIME_WAIT on this machine, which come from earlier runs."""
    line = next(
        line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:")
    )
    words = line.split()
    return int(words[words.index("tw") + 1])
