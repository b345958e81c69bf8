"""Experiments that are killed, interrupted, resumed, or have runs that fail; with real servers and processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dyno_process import INSTALLED, NO_LIMIT, PATIENCE_S, Home, experiment, new_home, wait_for_line
from serverdyno import _native
from serverdyno.errors import DynoError, ServerError, UserError
from serverdyno.fleet.placement import place
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.runner.calibrate import calibration_mixes, document_bytes
from serverdyno.runner.create import create_experiment
from serverdyno.runner.experiment import carry_out
from serverdyno.servers.proof import free_port
from serverdyno.store.experiment import Experiment

SERVER = (INSTALLED or ["reference"])[0]
REFERENCE = ServerPlan(server="reference")
PLAN = f"""
name = "killed"
title = "Killed and resumed"
suite = "quick-static"
scale = 0.25
repetitions = 1
[[servers]]
server = "{SERVER}"
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with new_home() as made:
        yield made


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("runs/*/mix-*.parquet")}


def notes(folder: Path) -> dict[int, dict[str, Any]]:
    return Experiment.open(folder).run_notes()


def nobodys_port() -> ServerPlan:
    return ServerPlan(server="external", name="nobody", url=f"http://127.0.0.1:{free_port()}/")


def test_a_killed_run_is_resumed_to_the_records_of_an_uninterrupted_one(home: Home, tmp_path: Path) -> None:
    plan, folder = tmp_path / "plan.toml", tmp_path / "killed"
    plan.write_text(PLAN)
    with home.started("run", plan, "--into", folder) as dyno:
        wait_for_line(dyno, f"{SERVER} r1     8 clients")
        left, ports = home.processes(), home.ports()
        dyno.kill()
        dyno.wait(PATIENCE_S)
    assert ports  # it was in the middle: a server was there
    assert psutil.wait_procs(left, timeout=PATIENCE_S)[1] == []
    home.assert_nothing_is_left(ports)
    finished = files(folder)
    assert len(finished) >= 2

    done = home.dyno("resume", folder)
    assert done.returncode == 0, done.stderr
    home.assert_nothing_is_left([])
    after = files(folder)
    assert {name: after[name] for name in finished} == finished
    opened = Experiment.open(folder)
    assert [(record.run, record.mix) for record in opened.mixes()] == [(1, mix) for mix in range(1, 7)]
    assert [record.clients for record in opened.mixes()] == [1, 8, 24, 48, 80, 120]
    assert {record.configuration for record in opened.mixes()} == {SERVER}
    assert (opened.head.seed, opened.plan_text) == (1, PLAN)
    assert len(opened.ceilings()) == 4
    assert {record.ceiling_operations_s for record in opened.mixes()} == {
        max(ceiling.operations / ceiling.window_s for ceiling in opened.ceilings())
    }
    # Of the second part alone, which one start of the server saw from its first request to its last.
    note = opened.run_notes()[1]
    assert (note["state"], note["from_mix"]) == ("done", len(finished) + 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_an_interrupted_run_ends_with_130_and_advice_and_leaves_nothing(
    home: Home, tmp_path: Path, number: signal.Signals
) -> None:
    servers = [ServerPlan(server=SERVER), REFERENCE]
    folder = experiment(tmp_path / "with space", servers, clients=range(1, 41))
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "2 clients")
        ports = home.ports()
        dyno.send_signal(number)
        _, told = dyno.communicate(timeout=PATIENCE_S)
    assert dyno.returncode == 130, told
    assert ports
    home.assert_nothing_is_left(ports)
    assert f"dyno resume '{folder}'" in told
    assert "Traceback" not in told
    assert {(1, 1), (1, 2)} <= Experiment.open(folder).finished()


def test_an_interrupted_calibration_leaves_nothing_and_is_begun_anew(home: Home, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "e", [REFERENCE], ceiling_operations_s=None)
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "generator's ceiling, 1 x 1 connections")
        ports = home.ports()
        dyno.send_signal(signal.SIGTERM)
        dyno.communicate(timeout=PATIENCE_S)
    assert dyno.returncode == 130
    home.assert_nothing_is_left(ports)
    assert Experiment.open(folder).ceilings() == []


def test_a_run_that_fails_is_noted_and_the_others_are_done_and_resume_tries_it_again(
    home: Home, tmp_path: Path
) -> None:
    nobody = nobodys_port()
    folder = experiment(tmp_path / "e", [nobody, REFERENCE])
    done = home.dyno("resume", folder)
    assert done.returncode == 1
    assert "FAILED 001-nobody-r1: nothing answers HTTP" in done.stderr
    assert f"to try them again: dyno resume {folder}" in done.stderr
    assert Experiment.open(folder).finished() == {(2, 1), (2, 2)}
    assert notes(folder)[1]["state"] == "failed"
    assert notes(folder)[2]["state"] == "done"
    page = folder / "report" / "report.html"
    assert "nothing answers HTTP" in page.read_text()

    assert nobody.url is not None
    port = int(nobody.url.rstrip("/").rpartition(":")[2])
    server = _native.ReferenceServer.start(port=port)
    try:
        before = files(folder)
        done = home.dyno("resume", folder)
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    assert "reference r1" not in done.stderr  # what was whole isn't measured again
    assert before.items() < files(folder).items()
    assert [note["state"] for note in notes(folder).values()] == ["done", "done"]


def test_a_server_that_ends_under_load_fails_its_run_and_its_mix_is_not_kept(
    home: Home, tmp_path: Path
) -> None:
    folder = experiment(tmp_path / "e", [ServerPlan(server="reference")], clients=range(1, 101))
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "1 clients")
        [server] = [process for process in home.processes() if "http" in process.cmdline()]
        server.kill()
        _, told = dyno.communicate(timeout=PATIENCE_S)
    assert dyno.returncode == 1
    assert "FAILED 001-reference-r1: reference ended under load" in told
    assert "ended by signal 9" in notes(folder)[1]["reason"]
    assert 1 <= len(files(folder)) < 100
    assert all(record.errors == [] for record in Experiment.open(folder).mixes())
    home.assert_nothing_is_left([])


def test_a_server_that_does_not_start_fails_its_run_in_its_own_words(home: Home, tmp_path: Path) -> None:
    if "nginx" not in INSTALLED:
        pytest.skip("nginx is not installed here")
    # With so few connections nginx can't even hold its listening socket and those of its workers.
    server = ServerPlan(server="nginx", settings={"workers": 20, "worker_connections": 16})
    folder = experiment(tmp_path / "e", [server, REFERENCE], clients=[1])
    done = home.dyno("resume", folder)
    assert done.returncode == 1
    assert "FAILED 001-nginx-r1: nginx ended before it answered" in done.stderr
    assert "worker_connections are not enough" in notes(folder)[1]["reason"]
    assert Experiment.open(folder).finished() == {(2, 1)}
    home.assert_nothing_is_left([])


@pytest.mark.parametrize(
    ("name", "change", "status", "words"),
    [
        (
            "reference/description.json",
            {"version": "serverdyno 0.0.1"},
            1,
            "reference has changed since the experiment began: it was serverdyno 0.0.1",
        ),
        (
            "reference/description.json",
            {"settings": {"threads": 2, "body_bytes": None}},
            1,
            "it was serverdyno",
        ),
        ("host.json", {"loopback_mtu_bytes": 1500}, 2, "loopback_mtu_bytes was 1500, now it is 65536"),
    ],
    ids=["version", "settings", "host"],
)
def test_resume_refuses_what_has_changed_since_the_experiment_began(
    home: Home, tmp_path: Path, name: str, change: dict[str, Any], status: int, words: str
) -> None:
    folder = experiment(tmp_path / "e", [REFERENCE])
    assert home.dyno("resume", folder).returncode == 0
    (folder / "runs" / "001-reference-r1" / "mix-02.parquet").unlink()
    path = folder / "disclosure" / name
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    before = path.read_bytes()
    done = home.dyno("resume", folder)
    assert done.returncode == status
    assert words in done.stderr
    assert path.read_bytes() == before
    assert Experiment.open(folder).finished() == {(1, 1)}


def test_resuming_a_whole_experiment_measures_nothing_and_keeps_its_disclosure(
    home: Home, tmp_path: Path
) -> None:
    folder = experiment(tmp_path / "e", [REFERENCE], clients=[1])
    assert home.dyno("resume", folder).returncode == 0
    kept = {path: path.read_bytes() for path in folder.rglob("*.json")} | {folder: repr(files(folder)).encode()}
    done = home.dyno("resume", folder)
    assert done.returncode == 0
    assert {path: path.read_bytes() for path in folder.rglob("*.json")} | {
        folder: repr(files(folder)).encode()
    } == kept
    assert "looking at this machine" not in done.stderr
    assert "Table 1. Peak" in done.stdout


def test_an_experiment_that_is_being_written_is_refused_to_a_second_writer(home: Home, tmp_path: Path) -> None:
    folder = experiment(tmp_path / "e", [REFERENCE])
    with Experiment.open(folder, writable=True):
        done = home.dyno("resume", folder)
    assert done.returncode == 2
    assert f"is being written by process {os.getpid()}" in done.stderr


def test_a_mix_near_the_ceiling_is_marked_and_one_far_below_it_is_not(home: Home, tmp_path: Path) -> None:
    marked = {}
    for ceiling in (1, NO_LIMIT):
        folder = experiment(tmp_path / str(ceiling), [REFERENCE], clients=[1], ceiling_operations_s=ceiling)
        done = home.dyno("resume", folder)
        assert done.returncode == 0, done.stderr
        [record] = Experiment.open(folder).mixes()
        assert record.ceiling_operations_s == ceiling
        marked[ceiling] = "G generator-limited: at least 80 %" in done.stdout
    assert marked == {1: True, NO_LIMIT: False}


def test_the_runs_note_holds_the_servers_own_count_of_all_requests(home: Home, tmp_path: Path) -> None:
    if "nginx" not in INSTALLED:
        pytest.skip("nginx is not installed here")
    folder = experiment(tmp_path / "e", [ServerPlan(server="nginx", settings={"access_log": True})])
    assert home.dyno("resume", folder).returncode == 0
    note = notes(folder)[1]
    made = sum(record.operations_total for record in Experiment.open(folder).mixes())
    assert note["requests_by_server_count"] == note["requests_answered"] > made > 0  # and those of the preflight
    assert note["requests_failed"] == 0


def tiny_load(folder: Path, url: str, **bounds: Any) -> Experiment:
    """An experiment of `dyno load`'s kind, created and not begun."""
    suite = Suite(name="load", title="", source="a test", workload="url", clients=[1], length_s=0.5)
    plan = Plan(name="load", title="", suite="load", servers=[ServerPlan(server="external", url=url, **bounds)])
    return create_experiment(folder, "", plan, suite)


def test_the_size_of_a_document_is_found_even_where_its_answer_is_slow(tmp_path: Path) -> None:
    server = _native.ReferenceServer.start(body_bytes=12_345, fault="delay=500ms")
    try:
        with tiny_load(tmp_path / "e", f"http://127.0.0.1:{server.port}/") as created:
            assert document_bytes(created.head) == 12_345
    finally:
        server.stop()


def test_a_document_that_is_not_there_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    server = _native.ReferenceServer.start(fault="status-500")
    try:
        with (
            tiny_load(tmp_path / "e", f"http://127.0.0.1:{server.port}/") as created,
            pytest.raises(ServerError, match="does not serve the workload: .*500"),
        ):
            document_bytes(created.head)
    finally:
        server.stop()


class Silent:
    """A listener that says nothing."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


def test_a_disk_that_takes_no_more_ends_the_experiment_at_once(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "e", [REFERENCE, ServerPlan(server="reference", name="another")])
    (folder / "runs").write_text("where a folder should be made")
    with (
        Experiment.open(folder, writable=True) as opened,
        pytest.raises(DynoError, match="can't write"),
    ):
        carry_out(opened, Silent())


def test_the_ceiling_is_measured_at_four_of_many_mixes_and_at_the_largest() -> None:
    suite = Suite(
        name="s",
        title="",
        source="",
        workload="url",
        clients=list(range(1, 17)),
        length_s=300,
        ramp_up_s=30,
        delay_s=20,
        think_time_s=1,
    )
    plan = Plan(name="p", title="", suite="s", servers=[REFERENCE])
    del plan
    from serverdyno.plan.expand import mixes

    chosen = calibration_mixes(mixes(suite))
    assert [mix.clients for mix in chosen] == [4, 8, 12, 16]
    assert {(mix.delay_s, mix.think_time_s) for mix in chosen} == {(0, 0)}
    assert [mix.clients for mix in calibration_mixes(mixes(suite)[:2])] == [1, 2]


def test_the_generator_gets_cpus_that_no_server_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    plan = Plan(
        name="p",
        title="",
        suite="quick-static",
        servers=[REFERENCE, ServerPlan(server="reference", name="pinned", cpus=[0, 1])],
    )
    suite = Suite(name="s", title="", source="", workload="url", clients=[1], length_s=2)
    with create_experiment(tmp_path / "e", "", plan, suite) as created:
        assert created.head.plan.generator.cpus == [2]
        assert [configuration.cpus for configuration in created.head.configurations] == [(0, 1, 3), (0, 1)]


def test_generator_and_servers_share_cpus_only_where_there_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = {}
    for cpus in (1, 2, 8):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cpus=cpus: set(range(cpus)))
        found = place(GeneratorPlan(threads=4))
        placed[cpus] = (len(found.generator), len(found.server), found.shared)
    assert placed == {1: (1, 1, True), 2: (1, 1, False), 8: (4, 4, False)}
