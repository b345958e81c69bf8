"""Whole experiments of the disk mix as users run them: the report's durability, the user's own server, an interrupt."""

from __future__ import annotations

import signal
from pathlib import Path

from dyno_process import PATIENCE_S, Home, wait_for_line
from file_server import machine, needs_root, samba, wait_until_machine_is
from serverdyno.plan.model import FilesSettings, Plan, ServerPlan, Suite
from serverdyno.runner.create import create_experiment
from serverdyno.store.experiment import Experiment

WORKSPACE_BYTES = 15 << 20


def created(folder: Path, server: ServerPlan, clients: list[int]) -> Path:
    """An experiment that was not begun, with mixes shorter than a plan may have."""
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="diskmix",
        clients=clients,
        length_s=1.0,
        ramp_up_s=0.1,
        ramp_down_s=0.1,
        files=FilesSettings(workspace_bytes=WORKSPACE_BYTES),
    )
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=[server])
    with create_experiment(folder, "# made by a test\n", plan, suite):
        pass
    return folder


@needs_root
def test_the_record_and_the_report_say_what_a_flush_cost(home: Home, tmp_path: Path) -> None:
    factors = {"strict_sync": [True, False]}
    folder = created(tmp_path / "e", ServerPlan(server="samba", factors=factors), [2])
    done = home.dyno("resume", folder)
    assert done.returncode == 0, done.stderr
    opened = Experiment.open(folder)
    syncs, flushes = {}, {}
    for mix in opened.mixes():
        assert mix.errors == [] and mix.syncs_known
        strict = mix.configuration.removeprefix("samba-strict-sync-")
        syncs[strict] = sum(row.count for row in mix.syncs)
        flushes[strict] = next(row.count for row in mix.by_operation if row.operation == "flush")
    # A flush under way at either border of the window may have its sync in it without being counted, or the reverse.
    assert syncs["on"] >= flushes["on"] - 2 > 0
    assert syncs["off"] == 0 and flushes["off"] > 0
    for note in opened.run_notes().values():
        assert note["requests_by_server_count"] == note["requests_answered"] > 0
        assert note["requests_failed"] is None
    report = (folder / "report" / "report.html").read_text()
    assert f"({flushes['on']} flushes, {syncs['on']} syncs)" in report
    assert f"flushes answered without any sync ({flushes['off']} flushes, 0 syncs)" in report


def test_a_file_server_of_the_user_is_measured_by_its_url(home: Home, tmp_path: Path) -> None:
    with samba({"network": "loopback"}) as server:
        access = server.access()
        settings = {"shares": list(access.shares), "user": access.user}
        users = ServerPlan(server="external-smb", url=access.url, settings=settings)
        folder = created(tmp_path / "e", users, [1, 2])
        done = home.dyno("resume", folder, DYNO_SMB_PASSWORD=access.password or "")
        assert done.returncode == 0, done.stderr
        server.check()
    records = Experiment.open(folder).mixes()
    assert [(mix.clients, mix.errors) for mix in records] == [(1, []), (2, [])]
    assert all(mix.operations > 0 and not mix.syncs_known for mix in records)
    kept = "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
    assert access.password and access.password not in kept


def test_an_interrupted_experiment_leaves_nothing_running_and_is_finished_later(
    home: Home, tmp_path: Path
) -> None:
    before = machine()
    folder = created(tmp_path / "e", ServerPlan(server="samba"), [1, 2, 2])
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "1 clients")  # the first mix has ended
        dyno.send_signal(signal.SIGINT)
        _, told = dyno.communicate(timeout=PATIENCE_S)
    assert dyno.returncode == 130, told
    assert f"dyno resume {folder}" in told
    home.assert_nothing_is_left([])
    wait_until_machine_is(before)
    finished = Experiment.open(folder).finished()
    assert (1, 1) in finished and (1, 3) not in finished
    done = home.dyno("resume", folder)
    assert done.returncode == 0, done.stderr
    assert Experiment.open(folder).finished() == {(1, 1), (1, 2), (1, 3)}
    home.assert_nothing_is_left([])
