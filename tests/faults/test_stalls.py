"""Real servers that leave clients waiting, or stop for a while, and what the report says about them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno import _native, report, wording
from serverdyno.analysis.trust import Mark
from serverdyno.plan.model import Level, Plan, RunKey, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.report.figures.results import LevelFigures
from serverdyno.report.model import Report
from serverdyno.run.create import create_experiment
from serverdyno.run.experiment import carry_out
from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from support.dyno_process import INSTALLED, PATIENCE_S, Home, experiment
from support.experiments import LEAST_WORKSPACE_BYTES, Listener, carried_out
from support.places import ROOT, TESTS

WORKERS, CLIENTS = 8, 64
STOPPED_S = 2.2
"""Long enough to include a whole second, whenever it begins."""


def reported(folder: Path, listener: Listener) -> tuple[Report, LevelFigures]:
    """Carry out an experiment of one level in this process, and return its report."""
    with Experiment.open(folder, writable=True) as opened:
        assert carry_out(opened, listener)
        made = report.build(opened)
    [[level]] = [result.finished for result in made.results.configurations]
    return made, level


@pytest.mark.skipif("apache" not in INSTALLED, reason="Apache is not installed")
def test_clients_that_no_worker_is_left_for_are_counted(home: Home, tmp_path: Path) -> None:
    settings = {"mpm": "prefork", "workers": WORKERS, "max_keep_alive_requests": 0}
    server = ServerPlan(server="apache", settings=settings)
    folder = experiment(tmp_path / "few-workers", [server], clients=[CLIENTS], length_s=1.2)
    made, level = reported(folder, Listener())
    assert level.clients_starved == CLIENTS - WORKERS
    assert Mark.STARVED in level.marks
    assert any(f"({CLIENTS - WORKERS} of {CLIENTS})" in warning for warning in made.warnings)
    assert level.fairness is not None
    assert level.fairness.mean < 1.5 * WORKERS / CLIENTS


class Stopper(Listener):
    """Stops the server's processes as soon as a level is under way, and continues them a moment later."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.stopped_s = 0.0

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if self.begun.is_set():
            return
        self.begun.set()
        keepers = psutil.Process().children()
        servers = [process for keeper in keepers for process in keeper.children(recursive=True)]
        for process in servers:
            process.send_signal(signal.SIGSTOP)

        def go_on() -> None:
            for process in servers:
                process.send_signal(signal.SIGCONT)
            self.stopped_s = time.monotonic() - stopped_at_s

        stopped_at_s = time.monotonic()
        threading.Timer(STOPPED_S, go_on).start()


@pytest.mark.skipif("nginx" not in INSTALLED, reason="nginx is not installed")
def test_seconds_in_which_a_server_was_stopped_are_found(home: Home, tmp_path: Path) -> None:
    folder = experiment(
        tmp_path / "stopped", [ServerPlan(server="nginx")], clients=[4], length_s=4.0, think_time_s=0.005
    )
    stopper = Stopper()
    made, level = reported(folder, stopper)
    [seconds] = level.stalls.values()
    # At most as many as fit into the time; afterwards a busy machine may take a moment to answer again.
    assert 1 <= len(seconds) <= stopper.stopped_s + 2
    assert Mark.STALLED in level.marks
    [finding] = [finding for finding in made.findings if finding.topic == "Stall"]
    assert f"(repetition 1: {wording.numbers(seconds)})" in finding.claim


def servers_of_ours() -> list[psutil.Process]:
    return [process for keeper in psutil.Process().children() for process in keeper.children(recursive=True)]


class StopperAcrossTheEnd(Listener):
    """Stops the server as soon as a level is under way, and continues it after the level's end."""

    def __init__(self) -> None:
        super().__init__()
        self.servers: list[psutil.Process] = []
        self.length_s = 0.0

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        self.length_s = level.length_s

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if not self.servers and snapshot["operations"]:
            self.servers = servers_of_ours()
            for process in self.servers:
                process.suspend()
        if self.goes_on_after(snapshot["elapsed_s"]):
            self.go_on()

    def goes_on_after(self, elapsed_s: float) -> bool:
        return elapsed_s > self.length_s

    def go_on(self) -> None:
        for process in self.servers:
            with suppress(psutil.NoSuchProcess):
                process.resume()


class StopperUntilAsked(StopperAcrossTheEnd):
    """Continues the server only when the tool checks whether it still answers."""

    def goes_on_after(self, elapsed_s: float) -> bool:
        return False

    def stage(self, text: str) -> None:
        super().stage(text)
        if "checking whether the server still answers" in text:
            self.go_on()


def planned_level(folder: Path, server: str, **shape: Any) -> Path:
    """Create an experiment of one level, without starting it."""
    settings = {"network": "loopback"} if server == "reference-smb" else {}
    wanted: dict[str, Any] = {"workload": "webbench-static"}
    if server != "reference":
        work = FilesSettings(workspace_bytes=LEAST_WORKSPACE_BYTES)
        wanted = {"workload": "diskmix", "sections": {"files": work}}
    suite = Suite(name="tiny", source="a test", leave_after_errors=100, **(wanted | shape))
    servers = [ServerPlan(server=server, settings=settings)]
    plan = Plan(name="tiny", suite="tiny", repetitions=1, servers=servers)
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


@pytest.mark.parametrize("server", ["reference", "reference-smb", "samba"])
def test_a_server_that_was_stopped_across_the_end_of_a_level_keeps_its_figures_and_its_stall_is_named(
    home: Home, tmp_path: Path, server: str
) -> None:
    if DRIVERS[server].installed() is None:
        pytest.skip(f"{server} is not installed here")
    folder, stopper = planned_level(tmp_path / "e", server, clients=[2], length_s=3.0), StopperAcrossTheEnd()
    try:
        made, level = reported(folder, stopper)
    finally:
        stopper.go_on()
    [record] = made.results.used
    assert stopper.servers
    assert record.operations > 0
    assert level.throughput.mean == made.results.terms.throughput(record) > 0
    assert (level.clients_left, sum(level.errors.values()), level.unanswered) == (0, 0, 0)
    assert level.stalls[1][-1] == 2, "up to the last whole second of the window"
    assert level.under_way_at_close == 2
    [stall] = [finding.claim for finding in made.findings if finding.topic == "Stall"]
    operations = "2 requests" if server == "reference" else "2 operations"
    assert f"), with {operations} in flight when the window closed, the longest for " in stall


def test_clients_that_a_stopped_server_answers_no_more_have_not_left_and_the_next_level_is_void(
    home: Home, tmp_path: Path
) -> None:
    # A busy machine stops the server late, but the window must then be open, and no request may time out before its
    # end.
    folder = planned_level(tmp_path / "e", "reference-smb", clients=[2, 3], length_s=1.5, timeout_s=1.5)
    stopper = StopperUntilAsked()
    try:
        assert not carried_out(folder, stopper)
        assert not stopper.failures
    finally:
        stopper.go_on()
    with Experiment.open(folder) as opened:
        made = report.build(opened)
    [[level]] = [result.finished for result in made.results.configurations]
    assert level.clients == 2
    assert level.throughput.mean > 0
    assert (level.clients_left, sum(level.errors.values())) == (0, 0)
    assert level.unanswered == level.under_way_at_close == 2
    [errors] = [finding.claim for finding in made.findings if finding.topic == "Errors"]
    assert errors == (
        "No operation failed and no client left. 2 operations were in flight when the window closed and got no answer "
        "in time (not counted as errors)."
    )
    [notice] = stopper.notices
    assert (
        "reference-smb, 3_client is void: no client could be prepared: the server let no client log on"
        in notice
    )
    assert f"dyno resume {folder} measures this level again" in notice
    [left_out] = [warning for warning in made.warnings if warning.startswith("The figures leave out")]
    assert "no client could be prepared" in left_out
    assert carried_out(folder)
    with Experiment.open(folder) as opened:
        assert opened.finished() == {(1, 1), (1, 2)}


STOPPED_ITSELF = """
import os, subprocess, sys
from pathlib import Path
from serverdyno.run.experiment import carry_out
from serverdyno.store.experiment import Experiment
from support.experiments import Breaker

# It is started before, because on a busy machine starting takes longer than a level.
words = f"read now; kill -STOP {os.getpid()}; sleep 1.5; kill -CONT {os.getpid()}"
stopper = subprocess.Popen(["sh", "-c", words], stdin=subprocess.PIPE)
listener = Breaker(lambda: os.write(stopper.stdin.fileno(), b"now\\n"))
carry_out(Experiment.open(Path(sys.argv[1]), writable=True), listener)
print(*listener.notices, sep="\\n")
"""


def test_a_level_in_which_the_tool_itself_was_stopped_is_void_and_a_resume_measures_it_again(
    home: Home, tmp_path: Path
) -> None:
    folder = experiment(tmp_path / "e", [ServerPlan(server="reference")], clients=[1, 2], length_s=3.0)
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_ITSELF, str(folder)],
        env=home.environment | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "python", TESTS)))},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert "reference, 2_client is void: the load generator stood still for " in done.stdout
    assert f"dyno resume {folder} measures this level again" in done.stdout
    with Experiment.open(folder) as opened:
        assert opened.finished() == {(1, 1)}
        [reason] = [words for words in report.build(opened).warnings if "stood still" in words]
        assert reason.startswith("The figures leave out run 1, reference, load level 2_client: ")
    assert carried_out(folder)
    with Experiment.open(folder) as opened:
        assert opened.finished() == {(1, 1), (1, 2)}
