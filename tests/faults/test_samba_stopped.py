"""A real smbd that stops during a load level: its run ends with a message, in a time that follows from `timeout_s`.

Not for a server that is gone (`test_users_workspaces.py`), or one that continues after a moment (`test_stalls.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.fleet.load_setup import REMOVAL_TIMEOUTS
from serverdyno.fleet.preflight import PREFLIGHT_S
from serverdyno.plan.model import Level, Plan, RunKey, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.experiments import Listener, carried_out
from support.file_server import machine, needs_root, wait_until_machine_is
from support.users_smbd import PASSWORD, USER, started

pytestmark = [needs_root, pytest.mark.usefixtures("own_tmpdir")]
TIMEOUT_S, LENGTH_S = 1.0, 1.0
READY_S, LEAVING_S = 2 * TIMEOUT_S, 4 * TIMEOUT_S
SPARE_S = 60.0
"""Time for everything that does not wait for the server, on a busy machine."""
BOUND_S = (
    LENGTH_S
    + LEAVING_S  # of the level in which it was stopped
    + READY_S
    + LENGTH_S
    + LEAVING_S  # of the next level
    + READY_S
    + PREFLIGHT_S
    + LEAVING_S  # of the check that it still answers
    + REMOVAL_TIMEOUTS * TIMEOUT_S
    + SPARE_S
)
WORKSPACE_BYTES = 15 << 20


class Stopper(Listener):
    """Stops the server's processes in its first level of two clients, and measures the time until its run ends."""

    def __init__(self, processes: Callable[[], Sequence[psutil.Process]]) -> None:
        super().__init__()
        self.processes = processes
        self.clients, self.number = 0, 0
        self.stopped: Sequence[psutil.Process] = []
        self.stopped_at = self.took_s = 0.0

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        self.clients, self.number = level.clients, run.number

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if self.stopped or (self.number, self.clients) != (1, 2) or not snapshot["operations"]:
            return
        self.stopped = self.processes()
        for process in self.stopped:
            process.suspend()
        self.stopped_at = time.monotonic()

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        super().run_failed(run, error)
        self.took_s = time.monotonic() - self.stopped_at

    def go_on(self) -> None:
        """Continue the stopped processes, so that they do not disturb later tests."""
        for process in self.stopped:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def created(folder: Path, first: ServerPlan) -> Path:
    """Create an experiment of that server and one that answers from memory, with shorter levels than plans may have."""
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="diskmix",
        clients=[2, 3],
        length_s=LENGTH_S,
        timeout_s=TIMEOUT_S,
        sections={"files": FilesSettings(workspace_bytes=WORKSPACE_BYTES)},
    )
    servers = [first, ServerPlan(server="reference-smb", name="other", settings={"network": "loopback"})]
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=servers)
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def check(folder: Path, stopper: Stopper) -> None:
    """Check that the stopped server's run fails with a message and in time, and that everything else is stored."""
    assert not carried_out(folder, stopper)
    assert stopper.stopped, "no level of two clients was under way"
    [failure] = stopper.failures
    assert "response" in failure or "answer" in failure, failure
    assert stopper.took_s < BOUND_S
    assert any("still answers" in stage for stage in stopper.stages)
    cut_short = next(
        level for level in Experiment.open(folder).levels() if (level.run, level.level) == (1, 1)
    )
    assert (cut_short.failures, cut_short.unanswered) == (0, 2)
    assert Experiment.open(folder).finished() == {(1, 1), (2, 1), (2, 2)}


def test_a_server_of_ours_that_stands_still_fails_its_run_and_is_taken_down(tmp_path: Path) -> None:
    before = machine()
    known = {process.pid for process in psutil.Process().children(recursive=True)}

    def processes() -> list[psutil.Process]:
        found = psutil.Process().children(recursive=True)
        return [each for each in found if each.name() == "smbd" and each.pid not in known]

    folder = created(tmp_path / "e", ServerPlan(server="samba", name="still"))
    stopper = Stopper(processes)
    try:
        check(folder, stopper)
        assert psutil.wait_procs(list(stopper.stopped), timeout=SPARE_S)[1] == []
        wait_until_machine_is(before)
    finally:
        stopper.go_on()


def test_a_users_server_that_stands_still_fails_its_run_and_what_it_keeps_is_named(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)
    monkeypatch.setattr("serverdyno.plan.protocols.look.LOOK_S", READY_S)
    server = started(tmp_path_factory.mktemp("still"))
    settings = {"shares": ["data"], "user": USER}
    users = ServerPlan(server="external", name="still", url=server.url, settings=settings)
    folder = created(tmp_path / "e", users)
    stopper = Stopper(server.processes)
    try:
        check(folder, stopper)
        [notice] = [notice for notice in stopper.notices if "some workspaces could not be removed" in notice]
        assert "share data" in notice
        assert any(f"for {REMOVAL_TIMEOUTS * TIMEOUT_S:g} s at most" in stage for stage in stopper.stages)
    finally:
        stopper.go_on()
        server.kill()
