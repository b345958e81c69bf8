"""The generator's ceiling: what it can do on this machine with this load, against the reference server.

No figure of a server is believed that comes near it. The reference server answers from memory on the CPUs of the
server under test, so where it is the slower of the two the ceiling is too low, and marks too much rather than
too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from serverdyno.fleet import local
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.placement import Placement
from serverdyno.plan.model import GeneratorPlan, Mix, Suite
from serverdyno.runner.progress import Progress
from serverdyno.runner.record import ceiling_record
from serverdyno.servers.running import running
from serverdyno.store.records import CeilingRecord

LENGTH_S, RAMP_S = 2.0, 0.4
POINTS = 4


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is measured against. `document_bytes`: the size of the one document of a `url` workload."""

    suite: Suite
    mixes: Sequence[Mix]
    generator: GeneratorPlan
    placement: Placement
    document_bytes: int | None = None

    def measure(self, progress: Progress) -> list[CeilingRecord]:
        """A few seconds at each of a few mixes, the largest among them. Raises ServerError."""
        settings = {"threads": len(self.placement.server)}
        if self.document_bytes is not None:
            settings["body_bytes"] = self.document_bytes
        with running("reference", settings, cpus=self.placement.server) as reference:
            target = open_target(reference.url)
            task = local.Task(self.suite, target, self.generator, self.placement.generator, None)
            return [self._point(mix, task, progress) for mix in calibration_mixes(self.mixes)]

    def _point(self, mix: Mix, task: local.Task, progress: Progress) -> CeilingRecord:
        progress.stage(f"generator's ceiling at {mix.clients} clients, against the reference server")
        return ceiling_record(mix, local.run_mix(mix, task, seed=0, on_tick=lambda _: None))


def calibration_mixes(mixes: Sequence[Mix]) -> list[Mix]:
    """Up to four of the mixes, evenly spread and with the last one, shortened and without thinking."""
    count = min(POINTS, len(mixes))
    chosen = sorted({(len(mixes) * step) // count - 1 for step in range(1, count + 1)})
    return [
        replace(
            mixes[index],
            length_s=LENGTH_S,
            ramp_up_s=RAMP_S,
            ramp_down_s=RAMP_S,
            delay_s=0.0,
            think_time_s=0.0,
        )
        for index in chosen
    ]


def ceiling_operations_s(ceilings: Sequence[CeilingRecord]) -> float | None:
    """The highest of the measured rates, operations a second."""
    rates = [ceiling.operations / ceiling.window_s for ceiling in ceilings]
    return max(rates, default=None)
