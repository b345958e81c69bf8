"""Plans with several generator processes are stored, resumed and failed like those with one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno import _native
from serverdyno.plan.model import GeneratorPlan, Level, Plan, RunKey, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home, wait_for_line
from support.experiments import Listener, carried_out

WORKER = "serverdyno.fleet.worker"
WEB = [ServerPlan(server="reference", name="first"), ServerPlan(server="reference", name="second")]
FILES = [ServerPlan(server="reference-smb", settings={"network": "loopback"})]
CLIENTS = [2, 3]
LEAST_WORKSPACE_BYTES = 15 << 20


def created(folder: Path, servers: list[ServerPlan], processes: int, *, files: bool = False) -> Path:
    """Create an experiment with shorter levels than a plan may have, without starting it."""
    own: dict[str, Any] = {"workload": "webbench-static"}
    if files:
        sections = {"files": FilesSettings(workspace_bytes=LEAST_WORKSPACE_BYTES)}
        own = {"workload": "diskmix", "sections": sections}
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        clients=CLIENTS,
        length_s=0.8,
        think_time_s=0.0 if files else 0.005,
        **own,
    )
    generator = GeneratorPlan(processes=processes)
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=servers, generator=generator)
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def workers() -> list[psutil.Process]:
    """Return the generator processes that are children of this process."""
    return [process for process in psutil.Process().children() if WORKER in process.cmdline()]


@pytest.mark.parametrize("files", [False, True], ids=["web", "files"])
def test_records_are_equal_in_form_however_many_processes_made_them(tmp_path: Path, files: bool) -> None:
    kept = []
    for processes in (1, 2):
        listener = Listener()
        servers = FILES if files else WEB[:1]
        folder = created(tmp_path / str(processes), servers, processes, files=files)
        assert carried_out(folder, listener), listener.failures
        assert workers() == []
        kept.append(Experiment.open(folder).levels())
    for one, two in zip(*kept, strict=True):
        assert (one.errors, two.errors) == ([], [])
        assert one.clients_participating == two.clients_participating == one.clients
        assert [row.client for row in one.by_client] == [row.client for row in two.by_client]
        assert all(row.operations > 0 for row in two.by_client)
        assert {row.operation for row in one.by_operation} == {row.operation for row in two.by_operation}
        unknown = [
            [name for name in record.__slots__ if getattr(record, name) is None] for record in (one, two)
        ]
        assert unknown[0] == unknown[1]


class Killer(Listener):
    """Kills one generator process with SIGKILL in the first level."""

    def __init__(self) -> None:
        super().__init__()
        self.run, self.seen = 0, list[psutil.Process]()

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        self.run = run.number

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if self.run == 1 and not self.seen and snapshot["operations"]:
            self.seen = workers()
            os.kill(self.seen[1].pid, signal.SIGKILL)


def test_a_killed_generator_process_fails_its_run_and_the_others_go_on(tmp_path: Path) -> None:
    folder, killer = created(tmp_path / "e", WEB, 2), Killer()
    assert not carried_out(folder, killer)
    [failure] = killer.failures
    assert "generator process 2 of 2 ended: signal 9" in failure
    assert len(killer.seen) == 2
    assert not any(process.is_running() for process in killer.seen)
    assert Experiment.open(folder).finished() == {(2, 1), (2, 2)}
    assert carried_out(folder)  # a resume does the rest
    assert len(Experiment.open(folder).finished()) == 2 * len(CLIENTS)


@pytest.mark.parametrize("files", [False, True], ids=["web", "files"])
def test_a_killed_tool_is_resumed_and_its_generator_processes_end_with_it(
    home: Home, tmp_path: Path, files: bool
) -> None:
    folder = created(tmp_path / "e", FILES if files else WEB[:1], 2, files=files)
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "2 clients")
        left = home.processes()
        assert sum(WORKER in process.cmdline() for process in left) == 2
        dyno.kill()
        dyno.wait(PATIENCE_S)
    assert psutil.wait_procs(left, timeout=PATIENCE_S)[1] == []
    done = home.here("resume", folder)
    assert done.returncode == 0, done.stderr
    assert psutil.Process().children() == []
    assert Experiment.open(folder).finished() == {(1, 1), (1, 2)}
