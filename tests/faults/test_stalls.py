"""Real servers that leave clients waiting, or stand still: what the report says of them."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from serverdyno import _native, report
from serverdyno.analysis.trust import Mark
from serverdyno.plan.model import ServerPlan
from serverdyno.report.figures.results import MixFigures
from serverdyno.report.model import Report
from serverdyno.runner.experiment import carry_out
from serverdyno.store.experiment import Experiment
from support.dyno_process import INSTALLED, PATIENCE_S, Home, experiment, wait_until
from support.experiments import Listener

WORKERS, CLIENTS = 8, 64
STOPPED_S = 3.5
"""Long enough for two whole seconds, wherever in a second it begins."""


def reported(folder: Path, listener: Listener) -> tuple[Report, MixFigures]:
    """The report of an experiment of one mix, carried out in this process."""
    with Experiment.open(folder, writable=True) as opened:
        assert carry_out(opened, listener)
        made = report.build(opened)
    [[mix]] = [result.finished for result in made.results.configurations]
    return made, mix


@pytest.mark.skipif("apache" not in INSTALLED, reason="Apache is not installed")
def test_clients_that_no_worker_is_left_for_are_counted(home: Home, tmp_path: Path) -> None:
    settings = {"mpm": "prefork", "workers": WORKERS, "max_keep_alive_requests": 0}
    server = ServerPlan(server="apache", settings=settings)
    folder = experiment(tmp_path / "few-workers", [server], clients=[CLIENTS], length_s=2.0)
    made, mix = reported(folder, Listener())
    assert mix.clients_starved == CLIENTS - WORKERS
    assert Mark.STARVED in mix.marks
    assert any(f"({CLIENTS - WORKERS} of {CLIENTS})" in warning for warning in made.warnings)
    assert mix.fairness is not None
    assert mix.fairness.mean < 1.5 * WORKERS / CLIENTS


class Stopper(Listener):
    """Stops the server's processes as soon as a mix is under way, and lets them go on a moment later."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.stopped_s = 0.0

    def mix_tick(self, snapshot: _native.Snapshot) -> None:
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
    folder = experiment(tmp_path / "stopped", [ServerPlan(server="nginx")], clients=[4], length_s=6.0)
    stopper = Stopper()
    made, mix = reported(folder, stopper)
    [seconds] = mix.stalls.values()
    # No more than fit into the time, whole or in part; after it a busy machine may take a moment to answer again.
    assert 2 <= len(seconds) <= stopper.stopped_s + 2
    assert Mark.STALLED in mix.marks
    [finding] = [finding for finding in made.findings if finding.topic == "Stall"]
    assert f"{seconds[0]} to {seconds[-1]}" in finding.claim


def test_a_level_in_which_the_tool_itself_was_stopped_is_void_and_a_resume_measures_it_again(
    home: Home, tmp_path: Path
) -> None:
    folder = experiment(tmp_path / "stopped", [ServerPlan(server="reference")], clients=[1, 2], length_s=3.0)
    with home.started("resume", folder) as tool:
        wait_until(lambda: any(folder.glob("runs/*/mix-01.parquet")), "the first level is kept")
        tool.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # the stall itself
        tool.send_signal(signal.SIGCONT)
        _, err = tool.communicate(timeout=PATIENCE_S)
    assert "stood still for 1." in err and "dyno resume" in err
    with Experiment.open(folder) as opened:
        assert opened.finished() == {(1, 1)}
        [reason] = [words for words in report.build(opened).warnings if "stood still" in words]
        assert reason.startswith("Left out: run 1, reference, mix 2_clients")
    assert home.dyno("resume", folder).returncode == 0
    with Experiment.open(folder) as opened:
        assert opened.finished() == {(1, 1), (1, 2)}
