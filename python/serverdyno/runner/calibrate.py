"""The generator's ceiling: what it can do on this machine with this load, against the reference server.

No figure of a server is believed that comes near it. Where the reference server is the slower of the two, or the
machine is busy with something else, the generator's CPU time for an operation tells what it could have made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import psutil

from serverdyno.errors import ServerError
from serverdyno.fleet import local
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.placement import Placement
from serverdyno.plan.model import Configuration, GeneratorPlan, Mix, Suite
from serverdyno.plan.spoken import protocol_of
from serverdyno.protocols.base import Protocol
from serverdyno.runner.progress import Progress
from serverdyno.runner.record import ceiling_record
from serverdyno.runner.under_test import under_test
from serverdyno.servers.registry import driver_type
from serverdyno.servers.running import running
from serverdyno.store.head import ExperimentHead
from serverdyno.store.records import CeilingRecord

LENGTH_S, RAMP_S = 2.0, 0.4
POINTS = 5
MOST_THREADS, MOST_BODY_BYTES = 256, 2**30  # of the reference server
MEMORY_SHARE = 0.5  # of what is free, for the workspaces that the reference server keeps
# A slow page must be looked at for longer, a fast one need not be.
DOCUMENT_LOOKS_S = (local.PREFLIGHT_S, 1.0, 5.0, 30.0)


@dataclass(frozen=True, slots=True)
class CalibrationServer:
    """The reference server as the load of some configurations needs it: its settings, and theirs that it has, too.

    `configurations`: whose ceiling it measures; none: everybody's.
    """

    protocol: Protocol[Any]
    server: str
    settings: dict[str, Any] = field(default_factory=dict)
    configurations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Calibration:
    """The load that is made, and on which CPUs."""

    suite: Suite
    mixes: Sequence[Mix]
    generator: GeneratorPlan
    placement: Placement

    def measure(self, servers: Sequence[CalibrationServer], progress: Progress) -> list[CeilingRecord]:
        """Two seconds at each of a few mixes, the largest among them, against every server. Raises DynoError."""
        return [record for server in servers for record in self._against(server, progress)]

    def _against(self, server: CalibrationServer, progress: Progress) -> list[CeilingRecord]:
        mixes = self._bearable()
        if not mixes:
            progress.notice(
                "the generator's ceiling is not measured: not even the smallest mix's workspaces fit into half of "
                "the memory that is free here",
                "A figure that the generator has limited bears no mark.",
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

    def _point(
        self, mix: Mix, setup: LoadSetup, server: CalibrationServer, progress: Progress
    ) -> CeilingRecord:
        progress.stage(
            f"generator's ceiling, {mix.clients} x {mix.threads} connections to the reference server"
        )
        result = local.run_mix(mix, setup, seed=0, on_tick=lambda _: None)
        if result["errors"] and not result["operations"]:
            raise ServerError(
                f"the generator's ceiling can't be measured: {result['errors'][0]['example']}",
                hint=result["errors"][0]["advice"]
                or "The reference server was asked for what the suite asks for.",
            )
        return ceiling_record(mix, result, server.configurations)


def calibration_servers(head: ExperimentHead) -> list[CalibrationServer]:
    """Return the reference servers that the configurations are held against. Raises DynoError where one can't be asked.

    Of web servers all meet the same; a `url` workload asks for one document, and the reference server has one of that
    size. A file server decides what its clients have to do: whether they may cache, must sign or encrypt. So there is
    one for each set of those settings which the reference server has, too, and none for a server of the user's.
    """
    alike: dict[str, CalibrationServer] = {}
    for configuration in head.configurations:
        protocol = protocol_of(configuration, head.suite)
        if protocol.reference_server is None or (
            protocol.reference_follows and configuration.url is not None
        ):
            continue
        settings = (
            _followed(configuration, protocol.reference_server)
            if protocol.reference_follows
            else protocol.reference_settings(
                head.suite.settings(protocol), configuration.url, configuration.settings
            )
        )
        chosen = alike.setdefault(
            f"{protocol.name} {settings}", CalibrationServer(protocol, protocol.reference_server, settings)
        )
        named = (*chosen.configurations, configuration.name)
        alike[f"{protocol.name} {settings}"] = replace(chosen, configurations=named)
    found = list(alike.values())
    if head.suite.workload == "url" and found:
        size = {"body_bytes": document_bytes(head)}
        found = [replace(server, settings=server.settings | size) for server in found]
    if len(found) == 1 and not found[0].protocol.reference_follows:
        return [replace(found[0], configurations=())]
    return found


def _followed(configuration: Configuration, reference_server: str) -> dict[str, Any]:
    """The settings of a configuration that the reference server has, too, as they are in force."""
    known = driver_type(reference_server).settings_type.model_fields
    used = driver_type(configuration.server).settings_type.model_validate(dict(configuration.settings))
    settings = {name: value for name, value in sorted(configuration.settings.items()) if name in known}
    return settings | {name: value for name, value in used.in_force().items() if name in known}


def document_bytes(head: ExperimentHead) -> int | None:
    """The size of the one document of a `url` workload, for the reference server to serve as much; else None.

    Raises DynoError where the target doesn't serve it.
    """
    if head.suite.workload != "url":
        return None
    with under_test(head, head.configurations[0], head.mixes) as (_, setup):
        for length_s in DOCUMENT_LOOKS_S:
            result = local.preflight(setup, head.mixes[0], length_s)
            if result["operations"]:
                return min(result["bytes_read"] // result["operations"], MOST_BODY_BYTES)
    raise ServerError(
        f"{setup.target.url} answered no request within {DOCUMENT_LOOKS_S[-1]:g} s",
        hint="Whatever is measured must answer a single client first.",
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


def ceiling_operations_s(
    ceilings: Sequence[CeilingRecord], configuration: str, mix: Mix, engine_threads: int
) -> float | None:
    """What the generator can make with the connections of `mix`, operations a second; None without ceilings.

    Of those that stand for the configuration: between two calibrated numbers of connections by straight line, beyond
    them as at the nearest.
    """
    points = sorted(
        (point.clients * point.threads, capacity_s(point, engine_threads))
        for point in ceilings
        if (not point.configurations or configuration in point.configurations) and cpu_s(point) > 0
    )
    if not points:
        return None
    return _on_the_line(points, mix.clients * mix.threads)


def _on_the_line(points: Sequence[tuple[int, float]], x: int) -> float:
    """The value at `x` of straight lines through points that grow; beyond them that of the nearest."""
    for (left, low), (right, high) in pairwise(points):
        if left <= x <= right and left < right:
            return low + (high - low) * (x - left) / (right - left)
    return points[0][1] if x < points[0][0] else points[-1][1]


def capacity_s(ceiling: CeilingRecord, engine_threads: int) -> float:
    """Operations a second for which the CPU time of the engine threads is enough with that load.

    What one CPU second was enough for, times the threads. That is never less than what was reached, since a thread
    can't use more CPU time than passes; it is more where the reference server, somebody else on the machine, or with
    few clients the round trip held the generator up. So it is no ceiling of the round trip.
    """
    return ceiling.operations / cpu_s(ceiling) * min(engine_threads, ceiling.clients)


def cpu_s(ceiling: CeilingRecord) -> float:
    """Of the engine threads, user and system; without any the probe tells nothing of them."""
    return ceiling.generator_cpu_user_s + ceiling.generator_cpu_system_s
