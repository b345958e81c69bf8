"""Experiments of the disk mix as users run them: the report's durability, the user's own server, an interrupt."""

from __future__ import annotations

import re
import signal
import tempfile
from pathlib import Path

import psutil
import pytest

from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.report import write_report
from serverdyno.report.build import build, source_of
from serverdyno.report.subjects.durability import outcomes, promises
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home, wait_for_line
from support.experiments import Listener, carried_out
from support.file_server import machine, needs_root, samba, wait_until_machine_is

WORKSPACE_BYTES = 15 << 20
SHARED_MEMORY = "/dev/shm"


def is_memory(path: str) -> bool:
    return any(
        each.mountpoint == path and each.fstype == "tmpfs" for each in psutil.disk_partitions(all=True)
    )


FLUSHING_S = 2.0
"""Length of a level that has flushes even on a busy machine."""


def created(folder: Path, servers: list[ServerPlan], clients: list[int], length_s: float = 0.6) -> Path:
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
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=servers)
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


@pytest.fixture(scope="module")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Measure a server that syncs, one that does not, and one on a file system that always does."""
    unsynced = {"strict_sync": False, "file_system": "ext4", "mount_options": "sync", "image_mib": 64}
    servers = [
        ServerPlan(server="samba", factors={"strict_sync": [True, False]}),
        ServerPlan(server="samba", name="mounted-sync", settings=unsynced),
    ]
    folder, listener = tmp_path_factory.mktemp("flushed") / "e", Listener()
    assert carried_out(created(folder, servers, [2], FLUSHING_S), listener), listener.failures
    return Experiment.open(folder)


def outcome(experiment: Experiment, configuration: str) -> str:
    """Return the report's statement on the effect of a flush on a configuration."""
    source = source_of(experiment)
    return str(outcomes(promises(source, source.records))[configuration])


@needs_root
def test_the_record_and_the_report_say_what_a_flush_cost(flushed: Experiment) -> None:
    syncs, flushes = {}, {}
    for level in flushed.levels():
        assert level.errors == [] and level.syncs_known
        syncs[level.configuration] = sum(row.count for row in level.syncs)
        flushes[level.configuration] = next(
            row.count for row in level.by_operation if row.operation == "flush"
        )
    on, off = "samba-strict-sync-on", "samba-strict-sync-off"
    # A flush that is under way at the start of the window may have made its sync before it.
    assert flushes[on] > 0 and syncs[on] >= flushes[on] - 2
    assert syncs[off] == 0 and flushes[off] > 0
    for note in flushed.run_notes().values():
        assert note.requests_by_server_count == note.requests_answered is not None
        assert note.requests_failed is None
        assert note.sessions is not None
        [session] = note.sessions
        assert (session.clients, session.signing, session.encryption) == (2, None, None)
    made = build(flushed)
    page = write_report(made, flushed.report_folder()).read_text()
    agreed = "SMB 3.1.1, log-on by NTLMv2, unsigned, not encrypted, reads and writes of up to 1 MiB, leases."
    assert f"Negotiated: {agreed}" in page
    # The text continues if a sync was made before the window.
    assert re.search(rf"\({flushes[on]} flush(es)?, {syncs[on]} syncs?", page)
    assert re.search(rf"answered without any sync \({flushes[off]} flush(es)?, 0 syncs\)", page)


@needs_root
def test_writes_of_a_file_system_mounted_sync_are_not_called_unsynced(flushed: Experiment) -> None:
    [level] = (level for level in flushed.levels() if level.configuration == "mounted-sync")
    assert level.syncs_known and next(row.count for row in level.by_operation if row.operation == "flush") > 0
    note = flushed.run_notes()[level.run]
    assert note.media is not None and note.disk_fsync_ms is not None and note.disk_fsync_after_ms is not None
    [[layer, *below]] = note.media
    assert layer.file_system == "ext4" and "sync" in layer.options and below
    assert note.disk_fsync_ms.count == note.disk_fsync_after_ms.count == 100
    # `test_report_durability.py` checks the page.
    said = outcome(flushed, "mounted-sync")
    assert said == "not known: the file system writes synchronously (mount option sync)"


@needs_root
@pytest.mark.skipif(not is_memory(SHARED_MEMORY), reason=f"no tmpfs at {SHARED_MEMORY}")
def test_files_in_memory_are_called_that_at_the_head(tmp_path: Path) -> None:
    listener = Listener()
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as place:
        Path(place).chmod(0o755)
        settings = {"data_directory": place, "image_mib": 64}
        servers = [ServerPlan(server="samba", settings=settings, factors={"file_system": ["none", "ext4"]})]
        folder = created(tmp_path / "e", servers, [2])
        assert carried_out(folder, listener), listener.failures
    # `test_report_durability.py` checks what the page says about the flushes.
    said = [
        warning
        for warning in build(Experiment.open(folder)).warnings
        if "so no figure describes a disk" in warning
    ]
    assert sorted(warning.partition(". Nothing")[0] for warning in said) == [
        "samba-file-system-ext4: the files are in memory (on ext4, on tmpfs), so no figure describes a disk.",
        "samba-file-system-none: the files are in memory (on tmpfs), so no figure describes a disk.",
    ]


def test_a_file_server_of_the_user_is_measured_by_its_url(home: Home, tmp_path: Path) -> None:
    with samba({"network": "loopback"}) as server:
        access = server.access()
        settings = {"shares": list(access.shares), "user": access.user}
        users = ServerPlan(server="external", url=access.url, settings=settings)
        folder = created(tmp_path / "e", [users], [1, 2])
        done = home.dyno("resume", folder, DYNO_SMB_PASSWORD=access.password or "")
        assert done.returncode == 0, done.stderr
        server.check()
    records = Experiment.open(folder).levels()
    assert [(level.clients, level.errors) for level in records] == [(1, []), (2, [])]
    # It runs on this machine, so its processes are found by the port, and their syncs are counted.
    assert all(level.operations > 0 and level.syncs_known for level in records)
    kept = "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
    assert access.password and access.password not in kept


def test_an_interrupted_experiment_leaves_nothing_running_and_is_finished_later(
    home: Home, tmp_path: Path
) -> None:
    before = machine(home.temporary)
    folder = created(tmp_path / "e", [ServerPlan(server="samba")], [1, 2, 2])
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "1 clients")  # the first level has ended
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
    assert carried_out(folder)
    assert Experiment.open(folder).finished() == {(1, 1), (1, 2), (1, 3)}
    wait_until_machine_is(before)
