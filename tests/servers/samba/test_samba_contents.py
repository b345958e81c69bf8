"""The files that clients leave at a real server, byte by byte.

They are compared with the workload, in the server's own directory and through an independent client.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from serverdyno.servers.samba import Samba
from support.disk_mix import FILES, begun, clients_directory, contents, ended, target, whole
from support.file_server import samba, smbclient

SEED = 2004
CLIENTS = 6
VOLUMES = 2
# The clock stops each client anywhere in its pass; in an eighth of the cases, a file of its workspace is open, with
# data that a caching client has not sent.
LENGTHS_S = (0.5, 1.1)


def differences(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> list[str]:
    """Return a sentence per file that differs, instead of 20 MiB of contents."""
    told = [f"{path} is missing" for path in sorted(expected.keys() - found.keys())]
    told += [f"{path} should not be there" for path in sorted(found.keys() - expected.keys())]
    for path in sorted(found.keys() & expected.keys()):
        one, other = found[path], expected[path]
        if len(one) != len(other):
            told.append(f"{path} has {len(one)} bytes for {len(other)}")
        elif one != other:
            place = next(place for place, byte in enumerate(one) if byte != other[place])
            told.append(f"{path} differs from byte {place} on")
    return told


def read_by_another(server: Samba, share: str, workspace: str, into: Path) -> dict[str, bytes]:
    """Return a client's workspace as smbclient reads it."""
    into.mkdir()
    commands = f"cd {workspace}; lcd {into}; prompt off; recurse on; mget *"
    smbclient(server, commands, share=share)
    return contents(into)


def as_the_workload_says(
    workspaces: _native.Workspaces, result: dict[str, Any], client: int
) -> list[dict[str, bytes]]:
    """Return the possible contents of a client's workspace.

    An operation that ends after the window is not counted, but may have changed files.
    """
    counted = next(each["operations"] for each in result["by_client"] if each["client"] == client)
    candidates = [counted, counted + 1] if result["operations_total"] > result["operations"] else [counted]
    expected = [
        workspaces.diskmix_files(client, seed=SEED, operations=operations) for operations in candidates
    ]
    assert None not in expected, "the level has left no workspace that it knows"
    return [files for files in expected if files is not None]


def mixed(
    server: Samba, clients: int, length_s: float, files: Mapping[str, Any]
) -> tuple[_native.Workspaces, dict[str, Any]]:
    """Run a level from scratch until its time is up; return its workspaces and its result."""
    workspaces = _native.Workspaces()
    load = begun(
        target(server),
        workspaces=workspaces,
        files={"keep_workspace": True} | dict(files),
        clients=clients,
        length_s=length_s,
        seed=SEED,
    )
    return workspaces, ended(load)


@pytest.mark.parametrize("cache", ["none", "oplocks", "leases"])
@pytest.mark.parametrize("length_s", LENGTHS_S)
def test_the_server_has_what_the_workload_wrote_and_nothing_else(
    cache: str, length_s: float, tmp_path: Path
) -> None:
    with samba({"volumes": VOLUMES}) as server:
        workspaces, result = mixed(server, CLIENTS, length_s, {"cache": cache})
        assert whole(result)
        shares, directories = server.access().shares, server.data_directories()
        # Clients are assigned to the volumes in order.
        for volume, directory in enumerate(directories):
            there = {each.name for each in clients_directory(directory).iterdir()}
            assert there == {str(client) for client in range(volume, CLIENTS, VOLUMES)}
        for client in range(CLIENTS):
            directory = clients_directory(directories[client % VOLUMES])
            on_disk = contents(directory / str(client))
            assert len(on_disk) == FILES
            workspace = f"{directory.name}/{client}"
            read = read_by_another(server, shares[client % VOLUMES], workspace, tmp_path / str(client))
            wrong = differences(read, on_disk)  # compared before: pytest would print all files
            assert wrong == []
            expected = as_the_workload_says(workspaces, result, client)
            found = [differences(on_disk, files) for files in expected]
            assert [] in found, found


@pytest.mark.parametrize(
    "files",
    [
        {"cache": "oplocks", "redirector": "xp"},
        {"cache": "leases", "dormant_files": 2},
        {"cache": "leases", "workspace_bytes": 16 << 20},
    ],
)
def test_every_operation_is_in_what_a_single_client_leaves(files: dict[str, Any]) -> None:
    with samba() as server:
        workspaces, result = mixed(server, 1, 3, files)
        assert whole(result)
        on_disk = contents(clients_directory(server.data_directories()[0]) / "0")
    size = {name: value for name, value in files.items() if name == "workspace_bytes"}

    def after(operations: int) -> dict[str, bytes]:
        played = workspaces.diskmix_files(0, seed=SEED, operations=operations, **size)
        assert played is not None
        return played

    # Compared before they are asserted: pytest would print all files.
    wrong, written = differences(on_disk, after(result["operations_total"])), differences(on_disk, after(0))
    assert wrong == []
    # Something was written: the workspace differs from its initial state.
    assert written != []


def test_a_level_that_keeps_no_workspace_leaves_none_that_is_known() -> None:
    with samba() as server:
        workspaces, result = mixed(server, 1, 3.0, {"keep_workspace": False})
    assert whole(result)
    assert workspaces.diskmix_files(0, seed=SEED, operations=0) is None
