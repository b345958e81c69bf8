"""How much of the machine others used while a mix ran: other processes, other virtual machines (steal).

Not for the CPU time of the server or of the generator; those are measured where they run and given to
`used_by_others`.
"""

from __future__ import annotations

import time

import psutil

BUSY = ("user_s", "nice_s", "system_s", "irq_s", "softirq_s")


def machine_cpu() -> dict[str, float]:
    """CPU seconds of the whole machine since boot, by kind (/proc/stat, all CPUs), with their time.

    `at_s` is on the monotonic clock; `cpus` is their number. The kernel counts guests' time in `user_s` too.
    """
    kinds = {f"{kind}_s": seconds for kind, seconds in psutil.cpu_times()._asdict().items()}
    return kinds | {"at_s": time.monotonic(), "cpus": float(psutil.cpu_count() or 1)}


def used_by_others(before: dict[str, float], after: dict[str, float], own_cpu_s: float) -> dict[str, float]:
    """What others used between two snapshots, in which our processes used `own_cpu_s` CPU seconds.

    `interval_s`: wall time. `others_s`: CPU seconds of everybody else. Kernels that account interrupts apart
    (CONFIG_IRQ_TIME_ACCOUNTING) charge our network interrupts to nobody, so `interrupts_s` of it may be ours;
    it may fall below zero by the precision of the ticks (10 ms each process). `steal_s`: CPU seconds that the
    hypervisor gave to others. Shares are of `interval_s` x CPUs.
    """
    used = {key: after[key] - before[key] for key in after if key != "cpus"}
    capacity_s = used["at_s"] * after["cpus"]
    others_s = sum(used[kind] for kind in BUSY) - own_cpu_s
    steal_s = used["steal_s"]
    return {
        "interval_s": used["at_s"],
        "others_s": others_s,
        "others_share": others_s / capacity_s,
        "interrupts_s": used["irq_s"] + used["softirq_s"],
        "steal_s": steal_s,
        "steal_share": steal_s / capacity_s,
    }
