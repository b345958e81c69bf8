"""Whole experiments of the disk mix as users run them: the report's durability, the user's own server, an interrupt."""

from __future__ import annotations

import re
import signal
import tempfile
from pathlib import Path

import psutil
import pytest

from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.protocols.files import FilesSettings
from serverdyno.report.build import build
from serverdyno.runner.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home, wait_for_line
from support.file_server import machine, needs_root, samba, wait_until_machine_is

WORKSPACE_BYTES = 15 << 20
SHARED_MEMORY = "/dev/shm"


def is_memory(path: str) -> bool:
    """Whether a tmpfs is mounted there."""
    return any(
        each.mountpoint == path and each.fstype == "tmpfs" for each in psutil.disk_partitions(all=True)
    )


FLUSHING_S = 2.0
"""A mix of so long has flushes on a busy machine, too."""


def created(folder: Path, server: ServerPlan, clients: list[int], length_s: float = 1.0) -> Path:
    """An experiment that was not begun, with mixes shorter than a plan may have."""
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="diskmix",
        clients=clients,
        length_s=length_s,
        ramp_up_s=0.1,
        ramp_down_s=0.1,
        sections={"files": FilesSettings(workspace_bytes=WORKSPACE_BYTES)},
    )
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=[server])
    with create_experiment(folder, "# made by a test\n", plan, suite):
        pass
    return folder


@needs_root
def test_the_record_and_the_report_say_what_a_flush_cost(home: Home, tmp_path: Path) -> None:
    factors = {"strict_sync": [True, False]}
    folder = created(tmp_path / "e", ServerPlan(server="samba", factors=factors), [2], FLUSHING_S)
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
    assert flushes["on"] > 0 and syncs["on"] >= flushes["on"] - 2
    assert syncs["off"] == 0 and flushes["off"] > 0
    for note in opened.run_notes().values():
        assert note.requests_by_server_count == note.requests_answered is not None
        assert note.requests_failed is None
        assert note.sessions is not None
        [session] = note.sessions
        assert (session.clients, session.signing, session.encryption) == (2, None, None)
    report = (folder / "report" / "report.html").read_text()
    agreed = "SMB 3.1.1, log-on by NTLMv2, unsigned, not encrypted, reads and writes of up to 1 MiB, leases."
    assert f"Agreed: {agreed}" in report
    # More is said behind it where a sync fell before the window.
    assert re.search(rf"\({flushes['on']} flush(es)?, {syncs['on']} syncs?", report)
    assert re.search(rf"answered without any sync \({flushes['off']} flush(es)?, 0 syncs\)", report)


@needs_root
def test_writes_of_a_file_system_mounted_sync_are_not_called_unsynced(home: Home, tmp_path: Path) -> None:
    settings = {"strict_sync": False, "file_system": "ext4", "mount_options": "sync", "image_mib": 256}
    folder = created(tmp_path / "e", ServerPlan(server="samba", settings=settings), [2], FLUSHING_S)
    done = home.dyno("resume", folder)
    assert done.returncode == 0, done.stderr
    opened = Experiment.open(folder)
    [mix] = opened.mixes()
    assert mix.syncs_known and next(row.count for row in mix.by_operation if row.operation == "flush") > 0
    [note] = opened.run_notes().values()
    assert note.media is not None and note.disk_fsync_ms is not None and note.disk_fsync_after_ms is not None
    [[layer, *below]] = note.media
    assert layer.file_system == "ext4" and "sync" in layer.options and below
    assert note.disk_fsync_ms.count == note.disk_fsync_after_ms.count == 100
    report = (folder / "report" / "report.html").read_text()
    assert "the file system writes synchronously (mount option sync)" in report
    assert "flushes answered without any sync" not in report
    assert "believed to be on the disk was not" not in report


@needs_root
@pytest.mark.skipif(not is_memory(SHARED_MEMORY), reason=f"no tmpfs at {SHARED_MEMORY}")
@pytest.mark.parametrize("file_system", ["none", "ext4"])
def test_files_in_memory_are_called_that_at_the_head(home: Home, tmp_path: Path, file_system: str) -> None:
    settings = {"file_system": file_system, "image_mib": 256}
    folder = created(tmp_path / "e", ServerPlan(server="samba", settings=settings), [2])
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as place:
        Path(place).chmod(0o755)
        done = home.dyno("resume", folder, TMPDIR=place)
    assert done.returncode == 0, done.stderr
    warnings = build(Experiment.open(folder)).warnings
    assert any("the files are in memory" in said and "nothing is on a disk" in said for said in warnings)
    report = (folder / "report" / "report.html").read_text()
    assert "synced to memory: nothing is on a disk" in report
    assert "but for the opening of its window (" not in report


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
    # It runs on this machine: its processes are found by the port, and their syncs are counted.
    assert all(mix.operations > 0 and mix.syncs_known for mix in records)
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
    [note] = Experiment.open(folder).run_notes().values()
    assert note.state == "begun" and note.media
    done = home.dyno("resume", folder)
    assert done.returncode == 0, done.stderr
    assert Experiment.open(folder).finished() == {(1, 1), (1, 2), (1, 3)}
    home.assert_nothing_is_left([])
