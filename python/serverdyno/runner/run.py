"""One run: a server is started, proven to be ours, loaded mix by mix, and stopped whatever happens."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from serverdyno import servers
from serverdyno._native import MixResult, Snapshot
from serverdyno.fleet import local
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.placement import place
from serverdyno.plan.model import Configuration, Mix, RunKey
from serverdyno.probes.noise import cpu_used, machine_cpu
from serverdyno.runner.progress import Progress
from serverdyno.runner.record import ServerUse, mix_record
from serverdyno.servers.base import ServerDriver
from serverdyno.store.experiment import Experiment


@dataclass(slots=True)
class Requests:
    """Requests that were made, to be held against the server's own count."""

    answered: int = 0
    failed: int = 0

    def add(self, result: MixResult) -> None:
        """Counts all of one mix, ramps included; a request that was sent again on a new connection once."""
        self.answered += result["operations_total"]
        self.failed += sum(error["count"] for error in result["errors"])


@dataclass(slots=True)
class Run:
    """The run of one configuration, or the rest of it after a resume."""

    experiment: Experiment
    key: RunKey
    configuration: Configuration
    mixes: Sequence[Mix]
    ceiling_operations_s: float | None
    progress: Progress
    left_s: float
    requests: Requests = field(default_factory=Requests)

    def carry_out(self) -> None:
        """Starts the server, runs the mixes, keeps each. Raises DynoError; the server is stopped first."""
        configuration = self.configuration
        placement = place(self.experiment.head.plan.generator, configuration)
        self.progress.stage(f"starting {configuration.name}")
        with servers.running(
            configuration.server, configuration.settings, cpus=placement.server, url=configuration.url
        ) as server:
            described = dataclasses.asdict(server.describe())
            self.experiment.write_description(configuration.name, described)
            task = local.Task(
                self.experiment.head.suite,
                open_target(server.url),
                self.experiment.head.plan.generator,
                placement.generator,
                configuration.bounds,
            )
            served_before = server.requests_served()
            self.requests.answered += local.preflight(task, self.mixes[0])
            for mix in self.mixes:
                self._run_mix(mix, task, server)
            self._note(server, served_before)

    def _run_mix(self, mix: Mix, task: local.Task, server: ServerDriver) -> None:
        self.progress.mix_started(self.key, mix, self.left_s)
        server_cpu = local.WindowMeter(server.cpu_s)

        def on_tick(snapshot: Snapshot) -> None:
            server_cpu.look(snapshot["elapsed_s"], mix)
            self.progress.mix_tick(snapshot)

        seed = local.stream_seed(self.experiment.head.seed, self.key.repetition, mix.index)
        result = local.run_mix(mix, task, seed, on_tick)
        self.requests.add(result)
        use = ServerUse(server_cpu.over_window(result["window_s"]), server.rss_bytes())
        record = mix_record(self.key, mix, result, use, self.ceiling_operations_s)
        self.experiment.write_mix(record)
        self.left_s -= mix.length_s
        self.progress.mix_finished(record)

    def _note(self, server: ServerDriver, served_before: int | None) -> None:
        served = server.requests_served()
        self.experiment.write_run_note(
            self.key,
            {
                "state": "done",
                "requests_answered": self.requests.answered,
                "requests_failed": self.requests.failed,
                "requests_by_server_count": None
                if served is None or served_before is None
                else served - served_before,
            },
        )
