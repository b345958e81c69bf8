"""Measure the use of some CPUs during a level by other processes and by the hypervisor (steal).

The caller measures the CPU time of server and generator, and passes it to `used_by_others`.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from serverdyno.units import NS_PER_S

CPUACCT = Path("/sys/fs/cgroup/cpuacct")
SCHEDSTAT = Path("/proc/schedstat")
IO_PRESSURE = Path("/proc/pressure/io")
US_PER_S = 1e6
_BUSY = ("user", "nice", "system", "irq", "softirq")
_CPU_CLOCK = 2
"""CPUCLOCK_SCHED of the kernel's include/linux/posix-timers.h: the scheduler's count, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """The use of some CPUs since boot, in CPU seconds, read at one time of the monotonic clock.

    `busy_s` is the use by all processes and the kernel. `steal_s`, which the hypervisor gave to others, is not part
    of it.
    """

    at_s: float
    cpus: int
    busy_s: float
    steal_s: float


@dataclass(frozen=True, slots=True)
class OthersUse:
    """CPU seconds between two times: `others_s` used by other programs, `steal_s` taken by the hypervisor.

    The two do not overlap and may be added.
    """

    interval_s: float
    others_s: float
    steal_s: float


def machine_cpu(cpus: Collection[int] = ()) -> CpuTime:
    """Return the use of these CPUs since boot. `cpus` empty: all CPUs.

    The resolution is a nanosecond if the kernel has the root group of cpuacct, or /proc/schedstat
    (Documentation/scheduler/sched-stats.rst, field 7 of a CPU), whose times include time that was stolen while a
    process ran. Otherwise it is a tick of /proc/stat. The resolution of steal is always a tick.
    """
    ticks = psutil.cpu_times(percpu=True)
    chosen = sorted(set(cpus) & set(range(len(ticks)))) or list(range(len(ticks)))
    steal_s = sum(getattr(ticks[cpu], "steal", 0.0) for cpu in chosen)
    at_s = time.monotonic()
    if accounted := _accounted_ns():
        busy_s = sum(accounted[cpu] for cpu in chosen) / NS_PER_S
    elif run := _run_ns():
        busy_s = sum(run.get(cpu, 0) for cpu in chosen) / NS_PER_S - steal_s
    else:
        busy_s = sum(getattr(ticks[cpu], kind, 0.0) for cpu in chosen for kind in _BUSY)
    return CpuTime(at_s, len(chosen), busy_s, steal_s)


def _accounted_ns() -> list[int]:
    """Return the machine's use per CPU; empty if the root group is not visible, as in a container."""
    try:
        if not (CPUACCT / "release_agent").exists():  # exists only in the root group
            return []
        return [int(word) for word in (CPUACCT / "cpuacct.usage_percpu").read_text().split()]
    except (OSError, ValueError):
        return []


def _run_ns() -> dict[int, int]:
    try:
        lines = [line.split() for line in SCHEDSTAT.read_text().splitlines() if line.startswith("cpu")]
        return {int(words[0][3:]): int(words[7]) for words in lines}
    except (OSError, ValueError, IndexError):
        return {}


def used_by_others(before: CpuTime, after: CpuTime, own_cpu_s: float) -> OthersUse:
    """Return the CPU time of other programs between two times, at least 0.

    `own_cpu_s` is the CPU time of server and generator.

    Kernels that account interrupts separately (CONFIG_IRQ_TIME_ACCOUNTING) charge network interrupts to no process,
    so they count as use by others.
    """
    return OthersUse(
        interval_s=after.at_s - before.at_s,
        others_s=max(0.0, after.busy_s - before.busy_s - own_cpu_s),
        steal_s=max(0.0, after.steal_s - before.steal_s),
    )


def process_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far, with its ended threads but without its children.

    They are read from the CPU clock of the process, in nanoseconds (clock_getcpuclockid(3)). Raises
    psutil.NoSuchProcess.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPU_CLOCK) / NS_PER_S
    except OSError as error:
        raise psutil.NoSuchProcess(pid) from error


def io_wait_s() -> float | None:
    """Return the seconds since boot in which a process waited for a disk (`some`, Documentation/accounting/psi.rst).

    None if the kernel does not report them.
    """
    try:
        return float(IO_PRESSURE.read_text().split("total=", 2)[1].split()[0]) / US_PER_S
    except (OSError, ValueError, IndexError):
        return None
