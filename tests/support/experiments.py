"""Experiments that a test creates and carries out in its own process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.plan.load import load_plan
from serverdyno.plan.model import Level, Plan, RunKey, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.run.create import create_experiment
from serverdyno.run.experiment import carry_out
from serverdyno.servers.registry import settings_types
from serverdyno.store.experiment import Experiment
from serverdyno.store.records import LevelRecord


class Listener:
    """Remembers the progress that the runner reports."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.left_s: list[float] = []
        self.failures: list[str] = []
        self.notices: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        self.left_s.append(left_s)

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        pass

    def level_finished(self, record: LevelRecord) -> None:
        pass

    def notice(self, text: str, hint: str | None = None) -> None:
        self.notices.append(f"{text} | {hint}")

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        self.failures.append(f"{run.folder}: {error}")


def carried_out(folder: Path, listener: Listener | None = None) -> bool:
    """Carry out an experiment in this process, or resume it."""
    with Experiment.open(folder, writable=True) as opened:
        return carry_out(opened, listener or Listener())


def carried_out_plan(plan: Path, folder: Path, listener: Listener | None = None) -> bool:
    """Carry out a plan file in this process, as `dyno run` does, without its report."""
    loaded = load_plan(plan, settings_types())
    with create_experiment(folder, loaded.text, loaded.plan, loaded.suites) as experiment:
        return carry_out(experiment, listener or Listener())


class Breaker(Listener):
    """Breaks something in one level of the first run: the second unless `level` differs."""

    def __init__(self, breaks: Callable[[], None], level: int = 2) -> None:
        super().__init__()
        self.breaks, self.level, self.now, self.broken = breaks, level, False, False

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        self.now = (run.number, level.index) == (1, self.level)

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if self.now and not self.broken and snapshot["operations"]:
            self.broken = True
            self.breaks()


LEAST_WORKSPACE_BYTES = 15 << 20


def created(folder: Path, clients: list[int], *servers: ServerPlan, workload: str = "diskmix") -> Path:
    """Create an experiment with shorter levels than a plan may have, without starting it."""
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload=workload,
        clients=clients,
        length_s=0.5,
        sections={"files": FilesSettings(workspace_bytes=LEAST_WORKSPACE_BYTES)},
    )
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=list(servers))
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder
