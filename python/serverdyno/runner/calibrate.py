"""What the generator can do on this machine with a load, against the reference server: `dyno calibrate`.

For information. No figure of an experiment is judged by it: what an operation costs the generator depends on the
server. Whether the generator limits a mix is seen in that mix (`analysis/trust.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psutil

from serverdyno.errors import ServerError
from serverdyno.fleet import local
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.placement import Placement
from serverdyno.plan.model import GeneratorPlan, Mix, Suite
from serverdyno.protocols.base import Protocol
from serverdyno.runner.progress import Progress
from serverdyno.servers.running import running

LENGTH_S, RAMP_S = 2.0, 0.4
POINTS = 5
MOST_THREADS = 256  # of the reference server
MEMORY_SHARE = 0.5  # of what is free, for the workspaces that the reference server keeps


@dataclass(frozen=True, slots=True)
class CalibrationServer:
    """The reference server of one protocol, with its settings."""

    protocol: Protocol[Any]
    server: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the generator did with the load of one mix. `cpu_s`: of its threads, user and system."""

    protocol: str
    clients: int
    threads: int
    window_s: float
    operations: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The load that is made, and on which CPUs."""

    suite: Suite
    mixes: Sequence[Mix]
    generator: GeneratorPlan
    placement: Placement

    def measure(self, servers: Sequence[CalibrationServer], progress: Progress) -> list[Ceiling]:
        """Two seconds at each of a few mixes, the largest among them, against every server. Raises DynoError."""
        return [record for server in servers for record in self._against(server, progress)]

    def _against(self, server: CalibrationServer, progress: Progress) -> list[Ceiling]:
        mixes = self._bearable()
        if not mixes:
            progress.notice(
                "the generator's ceiling is not measured: not even the smallest mix's workspaces fit into half of "
                "the memory that is free here",
                "",
            )
            return []
        settings = server.settings | {"threads": min(len(self.placement.server), MOST_THREADS)}
        with running(server.server, settings, cpus=self.placement.server) as reference:
            usual = server.protocol.settings_for_reference(self.suite.settings(server.protocol))
            target = open_target(server.protocol, reference.access(), usual)
            setup = LoadSetup(
                self.suite.with_settings(server.protocol, usual),
                target,
                self.generator,
                self.placement.generator,
                None,
                load_file=self.suite.work.load_file(self.suite.settings(self.suite.work)),
            )
            return [self._point(mix, setup, server, progress) for mix in calibration_mixes(mixes)]

    def _bearable(self) -> Sequence[Mix]:
        """The mixes for whose workspaces this machine has memory, where the reference server keeps them; maybe none."""
        bytes_each = self.suite.work.workspace_bytes(self.suite.settings(self.suite.work))
        if bytes_each == 0:
            return self.mixes
        most = psutil.virtual_memory().available * MEMORY_SHARE / bytes_each
        return [mix for mix in self.mixes if mix.clients * mix.threads <= most]

    def _point(self, mix: Mix, setup: LoadSetup, server: CalibrationServer, progress: Progress) -> Ceiling:
        progress.stage(
            f"generator's ceiling, {mix.clients} x {mix.threads} connections to the reference server"
        )
        result = local.run_mix(mix, setup, seed=0, on_tick=lambda *_: None)
        if result["errors"] and not result["operations"]:
            raise ServerError(
                f"the generator's ceiling can't be measured: {result['errors'][0]['example']}",
                hint=result["errors"][0]["advice"]
                or "The load was that of the suite, against the reference server.",
            )
        used = result["generator"]
        return Ceiling(
            protocol=server.protocol.title,
            clients=mix.clients,
            threads=mix.threads,
            window_s=result["window_s"],
            operations=result["operations"],
            cpu_s=used["cpu_user_s"] + used["cpu_system_s"],
        )


def calibration_mixes(mixes: Sequence[Mix]) -> list[Mix]:
    """Up to five of the mixes, evenly spread, with the first and the last, shortened and without thinking."""
    chosen = sorted({round((len(mixes) - 1) * step / (POINTS - 1)) for step in range(POINTS)})
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


def capacity_s(ceiling: Ceiling, engine_threads: int) -> float:
    """Operations a second for which the CPU time of the engine threads is enough with that load.

    What one CPU second was enough for, times the threads. It is more than what was reached where the reference server,
    somebody else on the machine, or with few clients the round trip held the generator up. So it is no ceiling of the
    round trip. Never less: a thread can't use more CPU time than passes, though the two are not read at one moment.
    """
    reached_s = ceiling.operations / ceiling.window_s
    return max(reached_s, ceiling.operations / ceiling.cpu_s * min(engine_threads, ceiling.clients))
