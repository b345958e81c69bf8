"""Everything that a level needs beyond its own parameters. `local.py` runs the level."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from serverdyno import _native
from serverdyno.fleet.fleet import Fleet
from serverdyno.plan.model import Bounds, GeneratorPlan, Suite

REMOVAL_TIMEOUTS = 2  # time limit of a removal, in operation timeouts


@dataclass(frozen=True, slots=True)
class LoadSetup:
    """Everything that a level needs beyond its own parameters.

    It is the same for all levels of a run. `fleet` runs the levels; if None, this process does.
    """

    suite: Suite
    target: _native.Target
    generator: GeneratorPlan
    cpus: tuple[int, ...]
    bounds: Bounds | None
    workspaces: _native.Workspaces = field(default_factory=_native.Workspaces)
    load_file: _native.LoadFile | None = None
    fleet: Fleet | None = None

    @property
    def removal_s(self) -> float:
        """The time limit for the removal of all files that clients left on a server."""
        return REMOVAL_TIMEOUTS * self.suite.timeout_s

    def removal_words(self) -> str:
        """Return how long the removal may take, as text."""
        if self.bounds is None:
            return f"for {self.removal_s:g} s at most"
        return f"with {self.bounds.max_rate_per_s:g} requests/s at most"

    def generator_cpu_s(self) -> float:
        """Return the CPU seconds so far of this process and of all nodes on this machine."""
        return time.process_time() + (self.fleet.cpu_s() if self.fleet else 0.0)

    def workspaces_begun(self) -> bool:
        """Return whether any client has started to create a workspace."""
        return self.fleet.begun() if self.fleet else self.workspaces.begun()
