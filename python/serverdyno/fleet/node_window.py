"""Measure the CPU time of other programs on a node during the window of a level.

The node's own CPU time is in the tally.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from serverdyno.probes.noise import CpuTime, machine_cpu, used_by_others


class NodeWindow:
    """Two samples, near both borders of a window. `cpus` are the CPUs of the node's load; if empty, any CPU."""

    def __init__(self, window: dict[str, float], cpus: Sequence[int]) -> None:
        self._opens_s = window.get("ramp_up_s", 0.0)
        self._closes_s = window["length_s"] - window.get("ramp_down_s", 0.0)
        self._due_s = [self._opens_s, self._closes_s]
        self._cpus = cpus
        self._samples: list[tuple[CpuTime, float]] = []

    def until_due_s(self, elapsed_s: float) -> float:
        """Return the time until the next sample is due; infinite once both are taken."""
        return max(0.001, self._due_s[0] - elapsed_s) if self._due_s else math.inf

    def look(self, elapsed_s: float) -> None:
        """Take the sample that is due `elapsed_s` after the start of the level, if any.

        If the first sample would be in the second half of the window, no sample is taken.
        """
        # `elapsed_s` is 0 or less before the start of the level.
        if not self._due_s or elapsed_s <= 0 or elapsed_s < self._due_s[0]:
            return
        if not self._samples and elapsed_s >= (self._opens_s + self._closes_s) / 2:
            self._due_s.clear()
            return
        self._samples.append((machine_cpu(self._cpus), time.process_time()))
        del self._due_s[0]

    def told(self) -> dict[str, Any]:
        """Return the CPU seconds used by others and stolen in the window, and the number of CPUs; None if unknown."""
        if len(self._samples) < 2:
            return {"others_cpu_s": None, "steal_cpu_s": None, "cpus": None}
        (before, used_before), (after, used_after) = self._samples
        others = used_by_others(before, after, used_after - used_before)
        share = (self._closes_s - self._opens_s) / others.interval_s
        return {
            "others_cpu_s": others.others_s * share,
            "steal_cpu_s": others.steal_s * share,
            "cpus": before.cpus,
        }
