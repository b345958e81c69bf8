"""Experiments that are killed, interrupted or resumed, or whose runs fail; with real servers and processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from serverdyno import _native
from serverdyno.errors import DynoError, ServerError, UserError
from serverdyno.fleet import local
from serverdyno.fleet.placement import place
from serverdyno.plan import suites
from serverdyno.plan.expand import levels
from serverdyno.plan.model import GeneratorPlan, Level, Plan, RunKey, ServerPlan, Suite
from serverdyno.plan.testbed import Subnet, Testbed
from serverdyno.run import time_left
from serverdyno.run.create import create_experiment
from serverdyno.run.experiment import carry_out, note_failure
from serverdyno.run.record import level_record
from serverdyno.run.time_left import OBJECT_S, REPORT_S, START_S, WORKSPACE_BYTES_S, TimeLeft
from serverdyno.run.under_test import under_test
from serverdyno.servers.registry import driver_type
from serverdyno.store.experiment import Experiment
from serverdyno.store.note import LayerNote, RunNote
from serverdyno.store.records import LevelRecord
from support.dyno_process import INSTALLED, PATIENCE_S, Home, wait_for_line
from support.dyno_process import experiment as created
from support.experiments import Listener, carried_out
from support.reference_servers import start_http

SERVER = (INSTALLED or ["reference"])[0]
REFERENCE = ServerPlan(server="reference")
PLAN = """
name = "interrupted"
title = "Interrupted"
suite = "quick-static"
scale = 0.25
[[servers]]
server = "reference"
"""


def experiment(folder: Path, servers: Sequence[ServerPlan], clients: Sequence[int] = (1, 2)) -> Path:
    """Create an experiment with little load, without starting it: no test here depends on the amount."""
    return created(folder, servers, clients, think_time_s=0.005)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("runs/*/level-*.parquet")
    }


def test_a_killed_run_is_resumed_to_the_records_of_an_uninterrupted_one(home: Home, tmp_path: Path) -> None:
    servers = [ServerPlan(server=SERVER, name="first"), REFERENCE]
    whole, killed = (experiment(tmp_path / name, servers, clients=[1, 2, 4]) for name in ("whole", "killed"))
    assert carried_out(whole)
    with home.started("resume", killed) as dyno:
        wait_for_line(dyno, "1 clients")
        left, ports = home.processes(), home.ports()
        wait_for_line(dyno, "2 clients")
        dyno.kill()
        dyno.wait(PATIENCE_S)
    assert ports  # a server was running when it was killed
    assert psutil.wait_procs(left, timeout=PATIENCE_S)[1] == []
    home.assert_nothing_is_left(ports)
    finished = files(killed)
    # The message about a level without completed operations is shown before the level is stored.
    assert 1 <= len(finished) < 6

    done = home.here("resume", killed)
    assert done.returncode == 0, done.stderr
    assert psutil.Process().children() == []
    assert files(killed).keys() == files(whole).keys()
    assert finished.items() <= files(killed).items()
    one, other = Experiment.open(whole), Experiment.open(killed)
    same = {"created": one.head.created}
    assert other.head.model_copy(update=same) == one.head  # seed, configurations and their CPUs, order
    assert [what(record) for record in other.levels()] == [what(record) for record in one.levels()]
    # A note counts the requests since the server's last start, and so only those of later levels.
    assert other.run_notes()[1].from_level == len(finished) + 1
    assert [note.state for note in other.run_notes().values()] == ["done", "done"]


def what(record: LevelRecord) -> tuple[object, ...]:
    """Return what identifies a level, without its figures."""
    return (
        record.run,
        record.configuration,
        record.repetition,
        record.level,
        record.clients,
        record.threads,
        record.window_s,
        record.stopped,
        [row.operation for row in record.by_operation],
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_a_run_with_its_number_and_advice_and_leaves_nothing(
    home: Home, tmp_path: Path, number: signal.Signals
) -> None:
    folder = experiment(tmp_path / "with space", [ServerPlan(server=SERVER)], clients=range(1, 41))
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "2 clients")
        ports = home.ports()
        dyno.send_signal(number)
        _, told = dyno.communicate(timeout=PATIENCE_S)
    assert dyno.returncode == 128 + number, told
    assert ports
    home.assert_nothing_is_left(ports)
    assert f"dyno resume '{folder}'" in told
    assert "Traceback" not in told
    assert (1, 1) in Experiment.open(folder).finished()


@contextmanager
def answering_once() -> Iterator[int]:
    """Yield the port of a server that answers only its first request."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with listening, contextlib.suppress(OSError):
            request = b""
            while not request:  # the first connection carries none
                connection, _ = listening.accept()
                with connection:
                    request = connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" if request else b"")

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        with contextlib.suppress(OSError):  # an answered connection is closed
            listening.shutdown(socket.SHUT_RDWR)
        answering.join()


def test_a_run_that_fails_is_noted_and_the_others_are_done_and_resume_tries_it_again(
    home: Home, tmp_path: Path
) -> None:
    with answering_once() as port:
        nobody = ServerPlan(server="external", name="nobody", url=f"http://127.0.0.1:{port}/")
        folder = experiment(tmp_path / "e", [nobody, REFERENCE])
        done = home.here("resume", folder)
    assert done.returncode == 1
    assert "FAILED 001-nobody-r1: nothing answers HTTP" in done.stderr
    assert f"to repeat them: dyno resume {folder}" in done.stderr
    opened = Experiment.open(folder)
    assert opened.finished() == {(2, 1), (2, 2)}
    assert [note.state for note in opened.run_notes().values()] == ["failed", "done"]
    assert "nothing answers HTTP" in (folder / "report" / "report.html").read_text()

    before = files(folder)
    server = start_http(port=port)
    try:
        listener = Listener()
        assert carried_out(folder, listener)
    finally:
        server.stop()
    assert listener.stages == [
        "recording the properties of this machine",
        "checking that your servers answer",
        "starting nobody",
    ]
    assert before.items() < files(folder).items()
    assert [note.state for note in opened.run_notes().values()] == ["done", "done"]


def test_a_failure_keeps_what_its_run_had_noted_of_the_disk(tmp_path: Path) -> None:
    media = [[LayerNote(file_system="tmpfs", options=["rw"], device="none")]]
    with Experiment.open(experiment(tmp_path / "e", [REFERENCE]), writable=True) as written:
        [run] = written.head.order
        written.write_run_note(run, RunNote(state="begun", syncs_unknown_because=None, media=media))
        for _ in range(2):  # the second time by a part that knows no media
            note_failure(written, run, ServerError("it ended"))
            [note] = written.run_notes().values()
            assert (note.state, note.reason, note.media) == ("failed", "it ended", media)


def test_a_server_that_ends_under_load_fails_its_run_and_its_level_is_not_kept(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "e", [ServerPlan(server=SERVER), REFERENCE], clients=[1, 2])

    class Killer(Listener):
        """Ends the first server in the middle of its second level."""

        def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
            super().level_started(run, level, left_s)
            if (run.number, level.index) == (1, 2):
                [keeper] = psutil.Process().children()
                [server] = keeper.children()
                server.kill()

    listener = Killer()
    assert not carried_out(folder, listener)
    [failure] = listener.failures
    assert f"{SERVER} exited under load" in failure and "by signal 9" in failure
    assert Experiment.open(folder).finished() == {(1, 1), (2, 1), (2, 2)}
    assert psutil.Process().children() == []
    # The time left is that of the whole experiment, even if a run was shorter than planned.
    of_runs_s = [2 * START_S, 2 * START_S, START_S, START_S]
    load_s = [2.4, 1.8, 1.2, 0.6]
    assert listener.left_s == pytest.approx(
        [load + runs + REPORT_S for load, runs in zip(load_s, of_runs_s, strict=True)]
    )


def test_what_a_run_takes_besides_its_load_is_learned_from_those_that_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments_s = iter([100.0, 112.0, 200.0, 216.0, 300.0])
    monkeypatch.setattr(time_left, "time", SimpleNamespace(monotonic=lambda: next(moments_s)))
    left = TimeLeft(load_s=40.0, runs=4, overhead_s=1.5)
    for overhead_s in (2.0, 4.0):  # the second run takes 6 s in addition to its load
        left.run_begins()
        left.level_ends(4.0)
        left.level_ends(6.0)
        left.run_ends()
        assert left.overhead_s == overhead_s
    left.run_begins()
    left.run_ends(unfinished_s=10.0)
    assert left.total_s() == 10.0 + 4.0 + REPORT_S


def test_the_links_of_a_testbed_limit_how_fast_workspaces_are_made() -> None:
    suite = Suite(name="s", title="S", source="a test", workload="diskmix", clients=[1, 10], length_s=10)
    subnets = [
        Subnet(name="a", hosts=4, link_mbit_s=10),
        Subnet(name="b", hosts=2, link_mbit_s=100, server_link_mbit_s=60),
    ]
    bytes_each = suite.work.workspace_bytes(suite.settings(suite.work))
    left = time_left.time_left([suite], [levels(suite)], Testbed(subnets=subnets))
    assert left.overhead_s == pytest.approx(START_S + 10 * bytes_each * 8 / 100e6)


def test_the_puts_before_a_level_are_estimated_with_their_bytes() -> None:
    listing, large = (suites.load(f"objects-{name}") for name in ("listing", "large"))
    for suite, objects, total_bytes in ((listing, 100_000, 100_000 * 16), (large, 32, 32 << 26)):
        left = time_left.time_left([suite], [levels(suite)])
        expected_s = START_S + objects * OBJECT_S + total_bytes / WORKSPACE_BYTES_S
        assert left.overhead_s == pytest.approx(expected_s)


def test_a_bound_of_the_rate_makes_the_puts_before_a_level_longer() -> None:
    suite = suites.load("objects-large")
    planned = levels(suite)
    # 8 clients with 4 objects of 64 MiB in 8 parts: 10 requests each, with the start and the end of the upload.
    left = time_left.time_left([suite], [planned], max_rate_per_s=5.0)
    assert left.overhead_s == pytest.approx(START_S + 8 * 4 * 10 / 5.0)
    many = time_left.time_left([suite], [planned], max_rate_per_s=1e6)
    assert many.overhead_s == time_left.time_left([suite], [planned]).overhead_s


def test_a_server_that_is_missing_is_told_before_another_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_type("lighttpd"), "installed", staticmethod(lambda: None))
    folder = experiment(tmp_path / "e", [REFERENCE, ServerPlan(server="lighttpd")])
    with pytest.raises(ServerError, match="not installed here: lighttpd") as refused:
        carried_out(folder, Listener())
    assert refused.value.hint == "apt-get install lighttpd"
    opened = Experiment.open(folder)
    assert not opened.finished() and not opened.run_notes()


def test_a_server_of_the_users_that_dies_in_its_last_level_fails_its_run(tmp_path: Path) -> None:
    server = start_http()
    folder = experiment(
        tmp_path / "e", [ServerPlan(server="external", name="users", url=f"http://127.0.0.1:{server.port}/")]
    )

    class Killer(Listener):
        """Ends the server once it has begun to answer its last level."""

        def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
            super().level_started(run, level, left_s)
            self.last = level.last

        def level_tick(self, snapshot: _native.Snapshot) -> None:
            if self.last and snapshot["operations"]:
                server.stop()

    listener = Killer()
    assert not carried_out(folder, listener)
    [failure] = listener.failures
    assert "the HTTP server at" in failure and "no longer answers" in failure
    assert Experiment.open(folder).finished() == {(1, 1)}


def test_a_server_that_cannot_start_fails_its_run_with_the_reason(tmp_path: Path) -> None:
    # As on a machine that has fewer CPUs than before.
    nowhere = ServerPlan(server=SERVER, name="nowhere", cpus=[1023])
    folder = experiment(tmp_path / "e", [nowhere], clients=[1])
    listener = Listener()
    assert not carried_out(folder, listener)
    [failure] = listener.failures
    assert failure.startswith("001-nowhere-r1: ") and "could not start" in failure
    assert "keeper failed" in failure  # in the keeper's words
    assert psutil.Process().children() == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a finished experiment for the tests to copy."""
    folder = experiment(tmp_path_factory.mktemp("whole") / "e", [REFERENCE])
    assert carried_out(folder)
    return folder


def changed(whole: Path, folder: Path, name: str, **facts: Any) -> Path:
    """Copy an experiment, without one level and with other facts in the disclosure."""
    shutil.copytree(whole, folder)
    next(folder.glob("runs/*/level-02.parquet")).unlink()
    path = folder / "disclosure" / name
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    return path


@pytest.mark.parametrize(
    "facts", [{"version": "serverdyno 0.0.1"}, {"settings": {"threads": 2, "body_bytes": None}}], ids=str
)
def test_resume_refuses_a_server_that_has_changed(whole: Path, tmp_path: Path, facts: dict[str, Any]) -> None:
    path = changed(whole, tmp_path / "e", "reference/description.json", **facts)
    before = path.read_bytes()
    listener = Listener()
    assert not carried_out(tmp_path / "e", listener)
    [failure] = listener.failures
    assert "reference has changed since the experiment began: it was" in failure
    assert str(next(iter(facts.values()))) in failure
    assert path.read_bytes() == before
    assert Experiment.open(tmp_path / "e").finished() == {(1, 1)}


def test_resume_refuses_a_machine_that_has_changed(whole: Path, tmp_path: Path) -> None:
    path = changed(whole, tmp_path / "e", "host.json", loopback_mtu_bytes=1500, load_average=[99, 99, 99])
    before = path.read_bytes()
    with pytest.raises(UserError, match="loopback_mtu_bytes was 1500, is now") as refusal:
        carried_out(tmp_path / "e")
    assert "load_average" not in str(refusal.value)
    assert path.read_bytes() == before


def test_resuming_a_whole_experiment_measures_nothing_and_changes_nothing(whole: Path) -> None:
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    listener = Listener()
    assert carried_out(whole, listener)
    assert listener.stages == []
    assert {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()} == before


def test_resume_sets_damaged_records_aside_by_name_and_measures_the_level_again(
    whole: Path, home: Home, tmp_path: Path
) -> None:
    folder = tmp_path / "e"
    shutil.copytree(whole, folder)
    run = next(folder.glob("runs/*"))
    untouched = (run / "level-01.parquet").read_bytes()
    for name in ("level-02.parquet", "run.json"):
        (run / name).write_bytes((run / name).read_bytes()[:-7])
    done = home.here("resume", folder)
    assert done.returncode == 0, done.stderr
    for name in ("level-02.parquet", "run.json"):
        assert f"{run / name} is damaged: " in done.stderr
        assert f"renamed to {name}.damaged" in done.stderr
        assert (run / f"{name}.damaged").exists()
    opened = Experiment.open(folder)
    assert opened.finished() == {(1, 1), (1, 2)}
    assert (run / "level-01.parquet").read_bytes() == untouched
    assert [(note.state, note.from_level) for note in opened.run_notes().values()] == [("done", 2)]
    assert "level-02.parquet.damaged" in (folder / "report" / "report.html").read_text()


def test_the_runs_note_holds_the_servers_own_count_of_all_requests(tmp_path: Path) -> None:
    if "nginx" not in INSTALLED:
        pytest.skip("nginx is not installed here")
    folder = experiment(tmp_path / "e", [ServerPlan(server="nginx", settings={"access_log": True})])
    assert carried_out(folder)
    opened = Experiment.open(folder)
    note = opened.run_notes()[1]
    made = sum(record.operations_total for record in opened.levels())
    # The preflight's requests are included.
    assert note.requests_answered is not None and note.requests_answered > made > 0
    assert note.requests_by_server_count == note.requests_answered
    assert note.requests_failed == 0


def tiny_load(folder: Path, url: str, **bounds: Any) -> Experiment:
    """Create an experiment like that of `dyno load`, without starting it."""
    suite = Suite(name="load", title="", source="a test", workload="url", clients=[1], length_s=0.5)
    plan = Plan(
        name="load", title="", suite="load", servers=[ServerPlan(server="external", url=url, **bounds)]
    )
    return create_experiment(folder, "", plan, [suite])


def test_errors_are_kept_with_their_side_and_their_words(tmp_path: Path) -> None:
    server = start_http(fault="status-500")
    try:
        with tiny_load(tmp_path / "e", f"http://127.0.0.1:{server.port}/") as created:
            head = created.head
            with under_test(head, head.configurations[0], head.levels) as (_, setup):
                result = local.run_level(head.levels[0], setup, seed=1, on_tick=lambda *_: None)
            created.write_level(
                level_record(
                    head.order[0], head.levels[0], result, None, server_cpu_s=None, server_rss_bytes=None
                )
            )
            [kept] = created.levels()
    finally:
        server.stop()
    [told] = result.errors
    [error] = kept.errors
    assert (error.side, error.fault, error.count, error.example) == (
        "server",
        "error_status",
        told.count,
        told.example,
    )
    assert error.count > 0


def test_a_folder_that_can_not_be_made_ends_the_experiment_at_once(tmp_path: Path) -> None:
    folder = experiment(tmp_path / "e", [REFERENCE, ServerPlan(server="reference", name="another")])
    (folder / "runs").write_text("where a folder should be made")
    with (
        Experiment.open(folder, writable=True) as opened,
        pytest.raises(DynoError, match="a file has the name of a required folder"),
    ):
        carry_out(opened, Listener())


def test_the_generator_gets_cpus_that_no_server_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    plan = Plan(
        name="p",
        title="",
        suite="quick-static",
        servers=[REFERENCE, ServerPlan(server="reference", name="pinned", cpus=[0, 1])],
    )
    suite = Suite(name="s", title="", source="", workload="url", clients=[1], length_s=2)
    with create_experiment(tmp_path / "e", "", plan, [suite]) as created:
        assert created.head.plan.generator.cpus == [2]
        assert [configuration.cpus for configuration in created.head.configurations] == [(0, 1, 3), (0, 1)]


def test_generator_and_servers_share_cpus_only_where_there_are_too_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placed = {}
    for cpus, threads in ((1, 1), (2, 1), (2, 2), (8, 4)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cpus=cpus: set(range(cpus)))
        found = place(GeneratorPlan(threads=threads))
        placed[cpus, threads] = (len(found.generator), len(found.server), found.shared)
    assert placed == {
        (1, 1): (1, 1, True),
        (2, 1): (1, 1, False),
        (2, 2): (2, 2, True),
        (8, 4): (4, 4, False),
    }
    with pytest.raises(UserError, match="5 threads would have to share 4 CPU"):
        place(GeneratorPlan(threads=5, cpus=[0, 1, 2, 3]))
