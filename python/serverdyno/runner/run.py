"""One run: a server is started, proven to be ours, loaded mix by mix, and stopped whatever happens."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from serverdyno.errors import ServerError
from serverdyno.fleet import local
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.placement import place
from serverdyno.plan.model import Configuration, Mix, RunKey
from serverdyno.probes.window import WindowMeter
from serverdyno.runner.progress import Progress
from serverdyno.runner.record import mix_record
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.running import running
from serverdyno.store.experiment import Experiment

if TYPE_CHECKING:
    from serverdyno._native import MixResult, Snapshot


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
        with running(
            configuration.server, configuration.settings, cpus=placement.server, url=configuration.url
        ) as server:
            self._disclose(server)
            task = local.Task(
                self.experiment.head.suite,
                open_target(server.url, configuration.bounds, self.mixes),
                self.experiment.head.plan.generator,
                placement.generator,
                configuration.bounds,
            )
            served_before = server.requests_served()
            self.requests.add(local.preflight(task, self.mixes[0]))
            for mix in self.mixes:
                self._run_mix(mix, task, server)
            self._note(server, served_before)

    def _disclose(self, server: ServerDriver) -> None:
        """Keeps what is known of the server. All runs of a configuration must be of one version."""
        name, described = self.configuration.name, dataclasses.asdict(server.describe())
        before = self.experiment.disclosure()["servers"].get(name)
        if before is None:
            self.experiment.write_description(name, described)
        elif (before["version"], before["settings"]) != (described["version"], described["settings"]):
            raise ServerError(
                f"{name} has changed since the experiment began: it was {before['version']} with "
                f"{before['settings']}, now it is {described['version']} with {described['settings']}",
                hint="Begin a new experiment: figures of two versions are not repetitions of one another.",
            )

    def _run_mix(self, mix: Mix, task: local.Task, server: ServerDriver) -> None:
        self.progress.mix_started(self.key, mix, self.left_s)
        meter = WindowMeter(server.cpu_s)

        def on_tick(snapshot: Snapshot) -> None:
            meter.look(snapshot["elapsed_s"], mix)
            self.progress.mix_tick(snapshot)

        seed = local.stream_seed(self.experiment.head.seed, self.key.repetition, mix.index)
        result = local.run_mix(mix, task, seed, on_tick)
        self.requests.add(result)
        record = mix_record(
            self.key,
            mix,
            result,
            use=meter.use(result["window_s"]),
            server_rss_bytes=server.rss_bytes(),
            ceiling_operations_s=self.ceiling_operations_s,
        )
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
