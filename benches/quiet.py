"""Whether the machine is ours alone: waiting until it is, and what others used of it while we measured."""

from __future__ import annotations

import time
from pathlib import Path

from serverdyno.probes.noise import CpuTime, machine_cpu, used_by_others

LOOK_S = 0.3
# Of one CPU. One tick of the kernel's accounting (10 ms) in a look is 3 %.
QUIET_SHARE = 0.05


def wait_until_quiet(patience_s: float) -> bool:
    """Whether others came to use next to nothing within `patience_s`. Without patience nobody looks, and it is not
    known to be quiet.
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
    """CPU time of others between two snapshots, stolen time included, as a share of one CPU; see `used_by_others`."""
    used = used_by_others(before, after, own_cpu_s)
    return (used.others_s + used.steal_s) / used.interval_s


def time_wait_sockets() -> int:
    """TCP connections in TIME_WAIT on this machine: what runs before have left behind."""
    line = next(
        line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:")
    )
    words = line.split()
    return int(words[words.index("tw") + 1])
