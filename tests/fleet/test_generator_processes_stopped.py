"""A stopped generator process is given up within seconds; one that only gets too little CPU time is waited for."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from benches.levels import http_target
from hypothesis import given
from hypothesis import strategies as st

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.fleet.fleet import Fleet
from serverdyno.fleet.processes import (
    LOOK_S,
    SLOWEST_ANSWER_S,
    STOPPED,
    STOPPED_S,
    Standstill,
    WorkerProcess,
    processes,
)
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S
from support.experiments import Breaker, Listener, carried_out
from support.fleet_level import CLIENTS, carried, level
from support.reference_servers import start_http

NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}
MORE_THAN_A_PIPE_HOLDS = 4 << 20


@pytest.fixture(scope="module")
def target() -> Iterator[_native.Target]:
    """Serve the document tree from threads of this process."""
    server = start_http()
    try:
        yield http_target(f"http://127.0.0.1:{server.port}/")
    finally:
        server.stop()


def pids_of(running: Fleet) -> list[int]:
    return [node.pid for node in running.nodes if isinstance(node, WorkerProcess)]


def over_after_s(state: str, gaps_s: list[float]) -> float | None:
    """Return the time after which a process in this state is given up, if it is observed after these gaps."""
    standstill, now_s = Standstill(), 100.0
    standstill.is_over(state, now_s)
    for gap_s in gaps_s:
        now_s += gap_s
        if standstill.is_over(state, now_s):
            return now_s - 100.0
    return None


def test_a_stopped_process_is_given_up_within_five_seconds_and_a_silent_one_after_a_minute() -> None:
    looks = [LOOK_S] * 1000
    assert [over_after_s(state, looks) for state in STOPPED] == [STOPPED_S] * 2
    assert STOPPED_S < 5.0
    assert over_after_s(psutil.STATUS_SLEEPING, looks) == SLOWEST_ANSWER_S
    assert over_after_s(psutil.STATUS_DISK_SLEEP, looks) == SLOWEST_ANSWER_S


@given(gaps_s=st.lists(st.floats(0.0, 1e6), max_size=200))
def test_a_process_that_waits_for_a_cpu_is_never_given_up(gaps_s: list[float]) -> None:
    assert over_after_s(psutil.STATUS_RUNNING, gaps_s) is None


@given(away_s=st.floats(STOPPED_S, 1e6))
def test_time_in_which_nobody_looked_is_not_counted(away_s: float) -> None:
    # This happens when a whole terminal is stopped and continues an hour later.
    assert over_after_s(STOPPED[0], [away_s]) is None
    standstill = Standstill()
    assert not standstill.is_over(STOPPED[0], 0.0)
    assert not standstill.is_over(psutil.STATUS_SLEEPING, away_s)
    assert not standstill.is_over(STOPPED[0], away_s + LOOK_S)


def test_a_stopped_process_fails_the_level_in_words_and_nothing_stays(target: _native.Target) -> None:
    with processes(2, target, NO_SECRETS) as running:
        pids = pids_of(running)
        load = running.start(level(target, length_s=PATIENCE_S))
        while not load.snapshot()["operations"]:
            load.wait(0.05)
        os.kill(pids[1], signal.SIGSTOP)
        with pytest.raises(DynoError, match=r"generator process 2 of 2 is lost: it was stopped \(SIGSTOP\)"):
            load.wait(PATIENCE_S)
        load.stop()
        assert running.lost_clients() == list(range(CLIENTS))
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_process_that_is_stopped_between_two_levels_fails_the_next(target: _native.Target) -> None:
    with processes(2, target, NO_SECRETS) as running:
        carried(running, level(target, length_s=0.3))
        os.kill(pids_of(running)[0], signal.SIGSTOP)
        with pytest.raises(DynoError, match=r"generator process 1 of 2 is lost: it was stopped \(SIGSTOP\)"):
            carried(running, level(target))


def test_a_process_that_is_stopped_while_it_receives_a_large_load_file_is_lost_in_words() -> None:
    worker = WorkerProcess(0, 1)
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        with pytest.raises(DynoError, match=r"generator process 1 of 1 is lost: it was stopped \(SIGSTOP\)"):
            worker.ask("open", load_file="x" * MORE_THAN_A_PIPE_HOLDS)
    finally:
        worker.end()
    assert not psutil.pid_exists(worker.pid)


def test_a_process_that_is_stopped_while_it_sends_a_large_answer_is_lost_in_words() -> None:
    worker = WorkerProcess(0, 1)
    try:
        worker.ask("x" * MORE_THAN_A_PIPE_HOLDS)  # its refusal names the request
        assert worker.answered(PATIENCE_S)
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(DynoError, match=r"generator process 1 of 1 is lost: it was stopped \(SIGSTOP\)"):
            worker.answer()
    finally:
        worker.end()
    assert not psutil.pid_exists(worker.pid)


def test_a_large_request_and_its_large_answer_arrive_whole() -> None:
    worker = WorkerProcess(0, 1)
    try:
        worker.ask(name := "x" * MORE_THAN_A_PIPE_HOLDS)
        with pytest.raises(ValueError, match="no such request") as refused:
            worker.answer()
        assert str(refused.value) == f"no such request: '{name}'"
        worker.ask("clock")
        assert worker.answer() > 0
    finally:
        worker.end()


def test_a_process_that_gets_cpu_time_in_bursts_alone_carries_its_level_to_the_end(
    target: _native.Target,
) -> None:
    ended = threading.Event()
    with processes(2, target, NO_SECRETS) as running:
        pid = pids_of(running)[1]

        def starve() -> None:
            for _ in range(3):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(STOPPED_S - 2 * LOOK_S)
                os.kill(pid, signal.SIGCONT)
                time.sleep(LOOK_S)
            ended.set()

        starving = threading.Thread(target=starve)
        starving.start()
        try:
            together = carried(running, level(target, length_s=4.0))
        finally:
            starving.join(PATIENCE_S)
        assert ended.is_set()
        figures = [each.result.operations_total for each in running.figures]
        assert together["operations_total"] == sum(figures)
        assert min(figures) > 0


def test_an_experiment_loses_the_run_of_a_stopped_process_alone_and_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    suite = Suite(name="tiny", source="a test", workload="webbench-static", clients=[2, 3], length_s=1.5)
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=[ServerPlan(server="reference", name=name) for name in ("first", "second")],
        generator=GeneratorPlan(processes=2),
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass

    def stop_one() -> None:
        workers = [
            child
            for child in psutil.Process().children()
            if "serverdyno.fleet.worker" in " ".join(child.cmdline())
        ]
        workers[0].suspend()

    breaker = Breaker(stop_one)
    assert not carried_out(folder, breaker)
    [failure] = breaker.failures
    assert "is lost: it was stopped (SIGSTOP)" in failure
    assert Experiment.open(folder).finished() == {(1, 1), (2, 1), (2, 2)}
    last = Listener()
    assert carried_out(folder, last), last.failures
    assert Experiment.open(folder).finished() == {(1, 1), (1, 2), (2, 1), (2, 2)}
