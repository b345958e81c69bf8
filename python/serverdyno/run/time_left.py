"""Estimates the time left of an experiment: its load, and everything before, between and after the levels.

Overheads start from a few measured constants and are updated after each finished run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from serverdyno.plan.model import Configuration, Level, Suite
from serverdyno.plan.testbed import Testbed

# Measured on two CPUs of a virtual machine, 2026-11-22.
START_S = 1.5  # per run, for a server's configuration, start, proof, preflight and end
WORKSPACE_BYTES_S = 100e6  # created on a file server by all clients together
REPORT_S = 5.0
# CPU time per PUT of versitygw, rclone and SeaweedFS with 12 clients, on such a machine, 2026-11-29: 0.45 to 0.96 ms.
OBJECT_S = 1e-3  # to put and remove an object on an object server, by all clients together


@dataclass(slots=True)
class TimeLeft:
    """The remaining time of an experiment.

    `load_s`: the time of load levels. `overhead_s`: the time of everything else, per run.
    """

    load_s: float
    runs: int
    overhead_s: float
    _learned: list[float] = field(default_factory=list)
    _began_s: float = 0.0
    _load_of_run_s: float = 0.0

    def total_s(self) -> float:
        """Return the seconds left, including the report."""
        return self.load_s + self.runs * self.overhead_s + REPORT_S

    def run_begins(self) -> None:
        self._began_s, self._load_of_run_s = time.monotonic(), 0.0

    def level_ends(self, length_s: float) -> None:
        self.load_s -= length_s
        self._load_of_run_s += length_s

    def run_ends(self, unfinished_s: float = 0.0) -> None:
        """Update the overhead from a finished run. `unfinished_s`: time of the load that a failed run left out."""
        self.load_s -= unfinished_s
        self.runs -= 1
        if not unfinished_s:
            self._learned.append(max(0.0, time.monotonic() - self._began_s - self._load_of_run_s))
            self.overhead_s = sum(self._learned) / len(self._learned)


def time_left(
    suites: Sequence[Suite],
    runs: Sequence[Sequence[Level]],
    testbed: Testbed | None = None,
    max_rate_per_s: float | None = None,
) -> TimeLeft:
    """Return the time left for `runs`. Levels that end when their work is done count as 0 s.

    `testbed`: its links limit the creation of workspaces, as a rate limit does.
    """
    levels = max(runs, key=len, default=[])
    clients = max((level.clients for level in levels), default=0)
    timed = [suite for suite in suites if not suite.ends_when_done]
    bytes_each = sum(suite.work.workspace_bytes(suite.settings(suite.work)) for suite in timed)
    objects_each = sum(suite.work.workspace_objects(suite.settings(suite.work)) for suite in timed)
    workspaces_s = clients * (bytes_each / _workspace_bytes_s(testbed) + objects_each * OBJECT_S)
    if max_rate_per_s is not None:
        workspaces_s = max(workspaces_s, requests_before(suites, levels) / max_rate_per_s)
    return TimeLeft(
        load_s=sum(level.planned_s for levels in runs for level in levels),
        runs=len(runs),
        overhead_s=START_S + workspaces_s,
    )


def requests_before(suites: Sequence[Suite], levels: Sequence[Level]) -> int:
    """Return the minimum number of requests to put the objects of a run's levels."""
    threads = [level.clients * level.threads for level in levels]
    timed = [suite for suite in suites if not suite.ends_when_done]
    return sum(suite.work.preparation_requests(suite.settings(suite.work), threads) for suite in timed)


def lowest_bound(configurations: Sequence[Configuration]) -> float | None:
    """Return the lowest rate limit in requests/s; None without a limit."""
    return min((each.bounds.max_rate_per_s for each in configurations if each.bounds), default=None)


def _workspace_bytes_s(testbed: Testbed | None) -> float:
    """Return the bytes/s at which workspaces are created, limited by the links of a testbed."""
    if testbed is None:
        return WORKSPACE_BYTES_S
    return min(WORKSPACE_BYTES_S, testbed.mbit_s(testbed.host_names()) * 1e6 / 8)
