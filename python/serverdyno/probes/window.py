"""Measure the CPU time that the server and other programs use in the window of a level."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from serverdyno.plan.model import Level
from serverdyno.probes.noise import CpuTime, io_wait_s, machine_cpu, used_by_others


@dataclass(frozen=True, slots=True)
class WindowUse:
    """CPU seconds in the window. `others` and `steal` count only the CPUs of the generator and the server.

    `io_wait_s` are the seconds in which some process of the machine waited for a disk. None means that a figure is
    not known, for example for a server that the user runs.
    """

    server_cpu_s: float | None
    others_cpu_s: float | None
    steal_cpu_s: float | None
    io_wait_s: float | None


MOST_LATE_S = 1.0
"""A sample that is later than this is not used: this process was stopped meanwhile."""
UNKNOWN = WindowUse(None, None, None, None)


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    server_cpu_s: float | None
    own_cpu_s: float
    machine: CpuTime
    io_wait_s: float | None
    syncs: dict[str, int] | None


class WindowMeter:
    """Takes samples near both borders of the window.

    A sample is late by a few milliseconds, or by more on a busy machine. But its time is recorded, so the rate between
    the two samples is exact and can be applied to the length of the window. Syncs are counted up to the border itself.
    If a sample is later than `MOST_LATE_S`, or the first one is in the second half of the window, the use is not known.
    """

    def __init__(
        self,
        server_cpu_s: Callable[[], float | None],
        server_syncs: Callable[[float], dict[str, int] | None] = lambda _: None,
        generator_cpu_s: Callable[[], float] = time.process_time,
        cpus: Collection[int] = (),
        *,
        server_is_here: bool = True,
    ) -> None:
        """Create the meter.

        `server_cpu_s` returns the CPU seconds of the server so far, and `server_syncs` its syncs by name until a time
        of the monotonic clock. `generator_cpu_s` returns the CPU seconds of all processes that generate the load.
        `cpus` are the CPUs on which both run; empty: any. `server_is_here`: whether the server runs on this machine; if
        not, the use of its CPUs by others is not known.
        """
        self._generator_cpu_s = generator_cpu_s
        self._server_cpu_s, self._server_syncs = server_cpu_s, server_syncs
        self._cpus, self._server_is_here = cpus, server_is_here
        self._opened: _Sample | None = None
        self._closed: _Sample | None = None
        self._is_late = False
        self._began_s = math.inf
        """The start on the monotonic clock.

        `elapsed_s` is 0 before the start, and old when it arrives, so the earliest estimate is the best.
        """

    def look(self, elapsed_s: float, level: Level) -> None:
        """Take the sample that is due `elapsed_s` after the start of the level."""
        opens_s, closes_s = level.ramp_up_s, level.length_s - level.ramp_down_s
        if elapsed_s > 0:
            self._began_s = min(self._began_s, time.monotonic() - elapsed_s)
        if self._opened is None and elapsed_s >= opens_s:
            self._opened = self._sample(self._began_s + opens_s)
            self._is_late = elapsed_s - opens_s > min(MOST_LATE_S, (closes_s - opens_s) / 2)
        elif self._closed is None and elapsed_s >= closes_s:
            self._closed = self._sample(self._began_s + closes_s)
            self._is_late = self._is_late or elapsed_s - closes_s > MOST_LATE_S

    def end(self) -> None:
        """Take the second sample now if it is missing, because the level ended early."""
        if self._opened is not None and self._closed is None:
            self._closed = self._sample(time.monotonic())

    def use(self, window_s: float) -> WindowUse:
        """Return the use in a window of this length."""
        if self._opened is None or self._closed is None or self._is_late:
            return UNKNOWN
        opened, closed = self._opened, self._closed
        share = window_s / (closed.at_s - opened.at_s)
        waited_s = _grown(opened.io_wait_s, closed.io_wait_s)
        io_wait_s = None if waited_s is None else waited_s * share
        server_s = _grown(opened.server_cpu_s, closed.server_cpu_s)
        own_s = closed.own_cpu_s - opened.own_cpu_s
        others = used_by_others(opened.machine, closed.machine, own_s + (server_s or 0.0))
        if server_s is not None and not self._server_is_here:
            return WindowUse(server_s * share, None, None, None)
        if server_s is None:
            return WindowUse(None, None, others.steal_s * share, io_wait_s)
        return WindowUse(server_s * share, others.others_s * share, others.steal_s * share, io_wait_s)

    def syncs(self) -> dict[str, int] | None:
        """Return the syncs in the window by name; None if not known."""
        if self._opened is None or self._closed is None or self._is_late:
            return None
        before, after = self._opened.syncs, self._closed.syncs
        if before is None or after is None:
            return None
        return {name: count - before[name] for name, count in after.items()}

    def _sample(self, border_s: float) -> _Sample:
        # Read the figures of this process and of the machine last and in quick succession, because time
        # between the readings counts as use by others.
        syncs, waited_s, at_s = self._server_syncs(border_s), io_wait_s(), time.monotonic()
        server_s = self._server_cpu_s()
        return _Sample(at_s, server_s, self._generator_cpu_s(), machine_cpu(self._cpus), waited_s, syncs)


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
