"""A file server that the user runs on this machine: its syncs are counted, and the medium of its files is known."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from serverdyno.errors import UserError
from serverdyno.fleet.consent import open_target
from serverdyno.plan import suites
from serverdyno.plan.protocols.smb import SMB
from serverdyno.probes.medium import medium
from serverdyno.run.durability import watched
from serverdyno.servers.registry import create
from serverdyno.store.note import RunNote
from serverdyno.store.records import DATA_CALLS
from support.file_server import FLUSHES, PATIENCE_S, needs_root, skip_unless_installed
from support.users_smbd import PASSWORD, USER, started


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


def test_a_server_elsewhere_has_no_directory_here() -> None:
    settings = {"shares": ["data"], "directories": ["/srv"]}
    with pytest.raises(UserError, match="on this machine"):
        create("external", settings, documents=Path("/dev/null"), url="smb://files.example/")
