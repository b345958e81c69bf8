"""What a mix needs beyond itself. Not for: running one (`local.py`)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from serverdyno import _native
from serverdyno.fleet.fleet import Fleet
from serverdyno.plan.model import Bounds, GeneratorPlan, Suite

REMOVAL_TIMEOUTS = 2  # of an operation


@dataclass(frozen=True, slots=True)
class LoadSetup:
    """What a mix needs beyond itself: the same for all mixes of a run. `fleet` carries the mixes where
    there is one; None: this process does.
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
        """The time for what clients have left on a server, all together."""
        return REMOVAL_TIMEOUTS * self.suite.timeout_s

    def generator_cpu_s(self) -> float:
        """CPU seconds so far of this process and of all that make its load: what they use is nobody else's."""
        return time.process_time() + (self.fleet.cpu_s() if self.fleet else 0.0)

    def workspaces_begun(self) -> bool:
        """Whether any client has ever begun to make a workspace."""
        return self.fleet.begun() if self.fleet else self.workspaces.begun()
