"""A file server that the user runs on this machine: its syncs are counted, and the medium of its files is known."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from serverdyno.errors import UserError
from serverdyno.fleet.consent import open_target
from serverdyno.plan import suites
from serverdyno.plan.model import Plan, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.plan.protocols.smb import SMB
from serverdyno.probes.medium import medium
from serverdyno.report.subjects.durability import media_of
from serverdyno.run.create import create_experiment
from serverdyno.run.durability import watched
from serverdyno.servers.registry import create
from serverdyno.store.experiment import Experiment
from serverdyno.store.note import RunNote
from serverdyno.store.records import DATA_CALLS
from support.experiments import Listener, carried_out
from support.file_server import FLUSHES, PATIENCE_S, needs_root, skip_unless_installed
from support.users_smbd import PASSWORD, USER, started

SUITE = Suite(
    name="tiny",
    title="Tiny",
    source="a test",
    workload="diskmix",
    clients=[1],
    length_s=1.0,
    sections={"files": FilesSettings(workspace_bytes=15 << 20)},
)


@needs_root
@pytest.mark.parametrize("strict", ["yes", "no"])
def test_syncs_of_a_users_server_are_counted_and_what_its_directory_lies_on_is_known(
    strict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_installed("smbtorture")
    with tempfile.TemporaryDirectory(prefix="s-") as place:
        users = started(Path(place), f"strict sync = {strict}")
        try:
            first = users.processes()[0].pid
            monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)
            settings = {"shares": ["data"], "user": USER, "directories": [f"{users.at / 'data'}"]}
            server = create("external", settings, documents=Path("/dev/null"), url=users.url)
            server.ask(open_target(SMB, server.access(), suites.load("quick-files").settings(SMB)))
            assert first in server.pids()
            with watched(server, [suites.load("quick-files")], server.data_directories()) as durability:
                target = ["smbtorture", "//127.0.0.1/data", "-p", f"{users.port}", "-U", f"{USER}%{PASSWORD}"]
                command = [*target, "-s", f"{users.at / 'smb.conf'}", "smb2.compound_async.flush_flush"]
                subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
                counts = durability.syncs()
                note = RunNote(state="done", **durability.note())
            directory_lies_on = medium(users.at / "data", first)
        finally:
            users.kill()
    assert counts is not None
    assert sum(counts.get(call, 0) for call in DATA_CALLS) == (FLUSHES if strict == "yes" else 0)
    assert note.media is not None and note.disk_fsync_ms is not None
    assert [layer.file_system for layer in note.media[0]] == [
        layer.file_system for layer in directory_lies_on
    ]


@needs_root
def test_a_directory_that_is_not_that_of_the_share_is_told_and_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)
    (tmp_path / "elsewhere").mkdir()
    with tempfile.TemporaryDirectory(prefix="s-") as place:
        users = started(Path(place))
        try:
            for directory, is_so in ((users.at / "data", True), (tmp_path / "elsewhere", False)):
                settings = {"shares": ["data"], "user": USER, "directories": [f"{directory}"]}
                plan = ServerPlan(server="external", name="theirs", url=users.url, settings=settings)
                folder, listener = tmp_path / f"e-{is_so}", Listener()
                with create_experiment(folder, "# made by a test\n", plan_of(plan), [SUITE]):
                    pass
                assert carried_out(folder, listener)
                told = [notice for notice in listener.notices if "directories" in notice]
                assert len(told) == (0 if is_so else 1), listener.notices
                note = Experiment.open(folder).run_notes()[1]
                assert bool(note.media) == is_so and (note.disk_fsync_ms is not None) == is_so
                media = media_of(note)
                assert media.known == is_so
                assert not any(path.name.startswith("serverdyno-") for path in directory.iterdir())
        finally:
            users.kill()


def plan_of(server: ServerPlan) -> Plan:
    return Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=[server])


def test_each_share_has_a_directory() -> None:
    settings = {"shares": ["a", "b"], "directories": ["/srv"]}
    with pytest.raises(UserError, match="one directory per share, but has 1 for 2 shares"):
        create("external", settings, documents=Path("/dev/null"), url="smb://127.0.0.1/")


def test_a_server_elsewhere_has_no_directory_here() -> None:
    settings = {"shares": ["data"], "directories": ["/srv"]}
    with pytest.raises(UserError, match="on this machine"):
        create("external", settings, documents=Path("/dev/null"), url="smb://files.example/")
