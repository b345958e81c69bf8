"""Find the descendants of a process, and measure their CPU time and memory.

Many kernels are built without lists of children (/proc/PID/task/TID/children), so each call reads all of /proc.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import psutil

from serverdyno.probes.noise import process_cpu_s

READINGS = 20
Figure = TypeVar("Figure")


def descendants(pids: Iterable[int]) -> list[int]:
    """Return the IDs of all descendants of `pids`, zombies included, but not `pids` themselves.

    IDs of processes that have ended are ignored.
    """
    roots = set(pids)
    parents = {}
    for _ in range(READINGS):
        parents = _parents()
        # If a parent ended during the reading, its children now have another parent: read again.
        if all(parent in parents for parent in parents.values() if parent):
            break
    return sorted(_below(roots, parents) - roots)


def threads(pids: Iterable[int]) -> set[int]:
    """Return the IDs of all threads of processes and of their descendants."""
    roots = [*pids]
    return {thread for pid in (*roots, *descendants(roots)) for thread in _numbers(f"/proc/{pid}/task")}


def steady(read: Callable[[], Figure], attempts: int) -> Figure | None:
    """Return the result of `read`, which is repeated if one of its processes ends; None if one ends each time."""
    for _ in range(attempts):
        with contextlib.suppress(psutil.NoSuchProcess):
            return read()
    return None


def cpu_s(reapers: Sequence[int], living: Sequence[int]) -> float:
    """Return the CPU seconds, user and system, of the processes `living` and of the ended children of `reapers`.

    For living processes, the CPU clocks give this time in nanoseconds. For ended children, `cutime` and `cstime` of
    their parents in /proc/PID/stat give it in ticks of 10 ms. Ended children are read first, so that no time is counted
    twice. The time of a child is lost if its parent ignores SIGCHLD. Raises psutil.NoSuchProcess if a process ends
    before it is read.
    """
    ended_s = sum(sum(psutil.Process(pid).cpu_times()[2:4]) for pid in reapers)
    return float(ended_s + sum(process_cpu_s(pid) for pid in living))


def memory_bytes(pids: Sequence[int]) -> int:
    """Return the memory of processes in bytes.

    If every process is readable, this is the proportional set size, which divides shared pages among their processes
    (/proc/PID/smaps_rollup). Otherwise it is the sum of resident sets, which counts shared pages once per process.
    Raises psutil.NoSuchProcess.
    """
    processes = [psutil.Process(pid) for pid in pids]
    try:
        return sum(int(process.memory_full_info().pss) for process in processes)
    except psutil.AccessDenied:
        return sum(int(process.memory_info().rss) for process in processes)


def _below(roots: Iterable[int], parents: Mapping[int, int]) -> set[int]:
    children = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    found: set[int] = set()
    pending = [*roots]
    while pending:
        more = [pid for pid in children[pending.pop()] if pid not in found]
        found.update(more)
        pending += more
    return found


def _parents() -> dict[int, int]:
    """Return the parent of each visible process; 0 for a parent outside this PID namespace."""
    parents = {}
    for pid in _numbers("/proc"):
        try:
            descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the process has ended
            continue
        try:
            # proc(5): number, name in parentheses, state, parent. A name is 64 bytes at most.
            fields = os.read(descriptor, 256).rpartition(b") ")[2].split(maxsplit=2)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        parents[pid] = int(fields[1])
    return parents


def _numbers(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]
    except OSError:
        return []
