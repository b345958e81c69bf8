"""The counts of file work, however it ends, and the detection of a write lost between two load levels."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from benches.levels import files_level
from pydantic import ValidationError

from serverdyno import _native
from serverdyno.errors import UserError
from serverdyno.plan.model import Suite
from serverdyno.plan.protocols.files import FILES, FilesSettings
from serverdyno.plan.protocols.load_file import noted, read
from serverdyno.plan.protocols.smb import SmbSettings
from serverdyno.servers.samba import Samba
from support.disk_mix import (
    CLIENTS_DIRECTORY,
    PATIENCE_S,
    begun,
    clients_directory,
    contents,
    ended,
    mixed,
    target,
    whole,
)
from support.file_server import samba

OPERATIONS = 500
"""Number of disk mix operations that includes reads."""

# A file that is created before the load level; every pass reads and rewrites it.
ONE_FILE = r"""
NTCreateX "\clients\client1\kept.dat" 0x40 0x2 1 NT_STATUS_OK
WriteX 1 0 4096 4096 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX "\clients\client1\kept.dat" 0x40 0x1 2 NT_STATUS_OK
ReadX 2 0 4096 4096 NT_STATUS_OK
WriteX 2 0 4096 4096 NT_STATUS_OK
Close 2 NT_STATUS_OK
"""


@pytest.mark.parametrize("cache", ["none", "leases"])
def test_a_level_that_is_stopped_keeps_what_it_has_counted(cache: str) -> None:
    with samba() as server:
        load = begun(target(server), files={"cache": cache}, length_s=600.0)
        while load.snapshot()["operations"] < OPERATIONS:
            assert not load.wait(0.05)
        load.stop()
        result = ended(load)
    assert result["stopped"]
    assert result["operations_total"] >= OPERATIONS
    assert result["passes"] is not None
    checked, requests = result["bytes_checked"], result["protocol_requests"]
    assert checked is not None and checked > 0
    in_level = sum(each["count"] for each in result["requests"])
    # No other figure includes the sessions that created the workspaces.
    assert requests is not None and 0 < in_level < requests
    assert sum(each["done"] + each["not_there"] for each in result["calls"]) > 0
    assert result["connections"] == 2


def test_a_level_that_is_stopped_before_its_start_has_done_nothing() -> None:
    with samba() as server:
        load = begun(target(server))
        load.stop()
        result = ended(load)
    assert result["stopped"]
    assert (result["operations_total"], result["passes"], result["bytes_checked"]) == (0, 0, 0)
    assert result["protocol_requests"] is not None


def processes_of_sessions(server: Samba) -> set[int]:
    """Return the process IDs of the smbd processes, one per connection."""
    access = server.access()
    inside = ["nsenter", f"--net={access.network_namespace}"] if access.network_namespace else []
    listed = subprocess.run(
        [*inside, "ss", "-Htnp", "state", "established", f"sport = :{server.port}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return {int(pid) for pid in re.findall(r"pid=(\d+)", listed.stdout)}


def test_connections_and_sessions_that_were_set_up_again_are_counted() -> None:
    with samba() as server:
        calm = mixed(server)
        load = begun(target(server), length_s=600.0)
        while load.snapshot()["operations"] == 0:
            assert not load.wait(0.05)
        sessions = processes_of_sessions(server)
        assert len(sessions) == 2
        for pid in sessions:
            psutil.Process(pid).kill()
        # Each client loses its session in one operation, and has another in the next.
        while load.snapshot()["errors"] < 2 or len(processes_of_sessions(server) - sessions) < 2:
            assert not load.wait(0.05)
        before = load.snapshot()["operations"]
        while load.snapshot()["operations"] < before + OPERATIONS:
            assert not load.wait(0.05)
        load.stop()
        disturbed = ended(load)
    assert whole(calm)
    assert (calm["connections"], calm["reconnects"]) == (2, 0)
    assert (disturbed["connections"], disturbed["reconnects"]) == (4, 2)


def test_a_workspace_that_is_made_anew_has_other_contents_than_the_one_before_it() -> None:
    with samba() as server:
        for _ in range(2):
            # All loads have the same seed, but each has its own directory.
            assert whole(mixed(server, clients=1, seed=7))
        made = server.data_directories()[0].glob(f"{CLIENTS_DIRECTORY}-*")
        former, present = (contents(directory / "0") for directory in made)
    assert former.keys() == present.keys()
    assert [name for name, content in present.items() if content == former[name]] == []


def test_a_write_that_is_lost_between_two_levels_of_one_seed_is_wrong_content(tmp_path: Path) -> None:
    path = tmp_path / "one-file.load"
    path.write_text(ONE_FILE)
    load_file, workspaces = _native.LoadFile.read(str(path)), _native.Workspaces()

    def one_pass(server: Samba) -> dict[str, Any]:
        # A client's think time between two passes is longer than the level.
        files = {"workload": "loadfile", "load_file": load_file, "cache": "none"}
        shape = {"clients": 1, "length_s": 0.5, "think_time_s": 60.0, "seed": 7}
        load = files_level(target(server), files, workspaces, **shape).start()
        assert load.wait(PATIENCE_S)
        return load.result()

    with samba() as server:
        assert one_pass(server)["errors"] == []
        file = clients_directory(server.data_directories()[0]) / "0" / "KEPT.DAT"
        former = file.read_bytes()
        second = one_pass(server)
        assert (second["errors"], second["passes"], second["bytes_checked"]) == ([], 1, 4096)
        file.write_bytes(former)
        third = one_pass(server)
    assert [(each["side"], each["fault"], each["count"]) for each in third["errors"]] == [
        ("check", "wrong_content", 1)
    ]


def test_another_load_file_than_the_experiment_began_with_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one-file.load"
    path.write_text(ONE_FILE)
    suite = Suite(
        name="replay",
        title="Replay",
        source="a test",
        workload="loadfile",
        clients=[1],
        length_s=1.0,
        sections={"files": FilesSettings(load_file=str(path))},
    )
    began_with = noted(suite.settings(FILES))
    assert read(began_with) is not None
    path.write_text(ONE_FILE + "\n")
    with pytest.raises(UserError, match="has changed since the experiment began"):
        read(began_with)
    with pytest.raises(UserError, match="it is not a file"):
        noted(FilesSettings(load_file="/dev/zero"))


@pytest.mark.parametrize(
    "smb", [{"min_dialect": "3.0", "max_dialect": "2.1"}, {"encryption": "required", "max_dialect": "2.1"}]
)
def test_settings_of_a_client_that_contradict_each_other_are_refused(smb: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="max_dialect"):
        SmbSettings(**smb)
