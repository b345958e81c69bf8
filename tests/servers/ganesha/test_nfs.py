"""NFSv3 and NFSv4.1 load on Ganesha: contents, requests and syncs, compared with server, libnfs and tshark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from benches import load_files
from benches.levels import files_level, nfs_target

from serverdyno import _native
from serverdyno.errors import UserError
from serverdyno.plan.load import parse_plan
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.nfs import NFS
from serverdyno.probes.durability import FsyncCounter
from serverdyno.servers.ganesha import Ganesha, GaneshaSettings
from serverdyno.servers.registry import create, settings_types
from support.disk_mix import clients_directory, passed, silent_seconds, whole, worked
from support.file_server import PATIENCE_S, needs_root, skip_unless_installed
from support.nfs_server import captured, dissected, ganesha, libnfs, mixed, resurrecting, target

pytestmark = needs_root


AGREED: dict[str, dict[str, Any]] = {
    "3": {"dialect": "3"},
    "4.1": {"dialect": "4.1", "slots": 64, "lease_s": 60},
    "4.2": {"dialect": "4.2", "slots": 64, "lease_s": 60},
}
VERSIONS = ("3", "4.1")


@pytest.mark.parametrize("version", sorted(AGREED))
@pytest.mark.parametrize("cache", ["none", "leases"])
def test_each_flush_and_stable_write_of_the_disk_mix_is_synced_by_ganesha(cache: str, version: str) -> None:
    with ganesha({"nfs_version": version}) as server, FsyncCounter(server.pids()) as counter:
        result = mixed(target(server), cache=cache, keep_workspace=False)
        assert whole(result)
        requests = {row["request"]: row["count"] for row in result["requests"]}
        syncs = counter.counts()
        [volume] = server.data_directories()
        assert not any(path.is_file() for path in volume.rglob("*"))
    assert result["sessions"] == [
        {
            "protocol": "nfs",
            **AGREED[version],
            "max_read_bytes": 1048576,
            "max_write_bytes": 1048576,
            "clients": 2,
        }
    ]
    durable = requests.get("COMMIT", 0) + (requests["WRITE"] if cache == "none" else 0)
    assert passed(result)["flush"] <= durable
    if syncs is None:
        pytest.skip(f"syncs can't be counted here: {counter.reason}")
    # Creating the workspaces before the window causes additional syncs.
    assert sum(syncs.values()) >= durable > 0


@pytest.mark.parametrize("version", [*VERSIONS, "4.2"])
def test_what_clients_leave_is_read_by_libnfs_byte_for_byte_and_no_packet_is_malformed(
    tmp_path: Path, version: str
) -> None:
    capture = tmp_path / "capture.pcapng"
    with ganesha({"nfs_version": version}) as server:
        with captured(server, capture):
            # Most packets belong to the creation of the workspaces.
            short = mixed(target(server), workspaces=_native.Workspaces(), length_s=0.5, cache="leases")
            assert worked(short)
        [volume] = server.data_directories()
        top = clients_directory(volume)
        files = [path for path in top.rglob("*") if path.is_file()]
        assert len(files) > 100
        for path in sorted(files)[::10]:
            assert libnfs(server, "nfs-cat", f"/volume1/{path.relative_to(volume)}") == path.read_bytes()
        listed = libnfs(server, "nfs-ls", f"/volume1/{top.name}", "-R").decode().splitlines()
    assert sum(line.startswith("-") for line in listed) == len(files)
    # Only the beginning of each packet is captured, so only errors there can be found.
    assert len(dissected(capture, "nfs")) > 1000
    assert dissected(capture, "rpc.state_accept != 0 || rpc.replystat != 0") == []
    # tshark may take one of our ports for that of another protocol.
    assert dissected(capture, "rpc && _ws.malformed && !(frame.len > 512)") == []


def test_over_udp_ganesha_serves_every_byte_and_syncs_each_flush(tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcapng"
    with ganesha({"proto": "udp"}) as server, FsyncCounter(server.pids()) as counter:
        with captured(server, capture):
            result = mixed(target(server), workspaces=_native.Workspaces(), length_s=1.0, cache="leases")
        assert whole(result)
        syncs = counter.counts()
        [session] = result["sessions"]
        assert (session["transport"], session["max_read_bytes"], session["max_write_bytes"]) == (
            "udp",
            *(32768, 32768),
        )
        [volume] = server.data_directories()
        files = [path for path in clients_directory(volume).rglob("*") if path.is_file()]
        assert len(files) > 100
        # Another client reads over TCP the data that were written over UDP.
        for path in sorted(files)[::10]:
            assert libnfs(server, "nfs-cat", f"/volume1/{path.relative_to(volume)}") == path.read_bytes()
        # No port is given, so the client asks the portmapper over UDP.
        [look] = target(server, url="nfs://127.0.0.1/volume1?proto=udp", shares=[]).look(0)
        assert look["why"] is None
    assert len(dissected(capture, "nfs && udp")) > 1000
    assert dissected(capture, "nfs && tcp") == []
    # tshark may take one of our ports for that of another protocol.
    assert dissected(capture, "rpc && _ws.malformed && !(frame.len > 512)") == []
    if syncs is not None:
        assert sum(syncs.values()) >= passed(result)["flush"] > 0


def test_ganesha_that_skips_syncs_answers_flushes_and_none_reaches_the_kernel() -> None:
    with ganesha({"skip_syncs": True}) as server, FsyncCounter(server.pids()) as counter:
        result = mixed(target(server), cache="leases", keep_workspace=False)
        assert whole(result) and passed(result)["flush"] > 0
        syncs = counter.counts()
        if syncs is None:
            pytest.skip(f"syncs can't be counted here: {counter.reason}")
        assert sum(syncs.values()) == 0
    with pytest.raises(UserError, match="skip_syncs removes all syncs"):
        create("ganesha", {"skip_syncs": True, "fsync_delay_ms": 5}, documents=Path("/dev/null"))


@pytest.mark.parametrize("settings", [{"proto": "udp"}, {"max_transfer_bytes": 16384}], ids=str)
def test_writes_larger_than_ganesha_takes_go_out_in_parts(settings: dict[str, Any]) -> None:
    with ganesha(settings) as server:
        assert whole(mixed(target(server), cache="none", keep_workspace=False))


def test_ganesha_without_udp_is_told_by_its_portmapper() -> None:
    with ganesha() as server, pytest.raises(_native.SessionError) as caught:
        target(server, url="nfs://127.0.0.1/volume1?proto=udp", shares=[])
    assert "no NFSv3 over UDP" in str(caught.value)
    assert "Enable_UDP" in str(caught.value)


def test_udp_is_refused_in_words_with_version_4() -> None:
    for name in ("ganesha", "reference-nfs"):
        with pytest.raises(UserError, match="NFSv4 needs TCP"):
            create(name, {"nfs_version": "4.1", "proto": "udp"}, documents=Path("/dev/null"))


NOT_IN_WORKSPACES = {
    "3": {"GETATTR": ["GETATTR"], "READ": ["READ"], "RENAME": ["RENAME"], "FSSTAT": ["FSSTAT"]},
    "4.1": {"READ": ["READ"], "RENAME": ["RENAME"], "READDIR": ["READDIR", "READDIR with attributes"]},
}
"""Requests that creating and removing workspaces does not need, by Ganesha's name and by ours."""


@pytest.mark.parametrize("version", VERSIONS)
def test_ganesha_counts_as_many_requests_as_its_clients(version: str) -> None:
    skip_unless_installed("dbus-daemon", "dbus-send")
    with ganesha({"nfs_version": version, "own_counters": True}) as server:
        before, operations_before = server.requests_served(), server.operations_served()
        assert before is not None and operations_before is not None
        result = mixed(target(server), cache="leases", keep_workspace=False)
        assert whole(result) and result["protocol_requests"]
        # The server may count a request after answering it.
        deadline = time.monotonic() + PATIENCE_S
        while (after := server.requests_served()) != before + result["protocol_requests"]:
            assert time.monotonic() < deadline, (before, after, result["protocol_requests"])
            time.sleep(0.05)
        operations = server.operations_served()
        assert operations is not None
    ours = {row["request"]: row["count"] for row in result["requests"]}
    for theirs, names in NOT_IN_WORKSPACES[version].items():
        counted = operations[theirs] - operations_before.get(theirs, 0)
        assert counted == sum(ours.get(name, 0) for name in names) > 0, theirs


def test_without_its_own_counters_ganesha_tells_nothing() -> None:
    with ganesha() as server:
        assert server.requests_served() is None and server.operations_served() is None


ENOUGH_OPERATIONS = 40
"""Total number of operations at which each of two clients has completed some."""


@pytest.mark.parametrize("version", VERSIONS)
def test_ganesha_killed_in_the_middle_of_a_level_is_an_outage_without_errors_and_all_contents_are_right(
    own_tmpdir: Path, version: str
) -> None:
    settings = GaneshaSettings.model_validate({"nfs_version": version})
    with resurrecting(own_tmpdir / "serverdyno-killed", settings) as server:
        shape = {"clients": 2, "threads": 1, "length_s": 6.0, "timeout_s": 60.0}
        load = files_level(target(server), {"workload": "diskmix", "cache": "leases"}, None, **shape).start()
        deadline = time.monotonic() + PATIENCE_S
        # Both clients must have begun. Ganesha's verifier is the second of its start, which must be over.
        while load.snapshot()["elapsed_s"] < 0.5 or load.snapshot()["operations"] < ENOUGH_OPERATIONS:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        server.kill()
        assert load.wait(2 * PATIENCE_S), "the level does not end"
        result = load.result()
    half_made = [row for row in result["errors"] if is_half_made(row)]
    assert sum(row["count"] for row in half_made) <= result["clients_planned"]
    result["errors"] = [row for row in result["errors"] if row not in half_made]
    assert whole(result), result["errors"]
    sent = {row["request"]: row["count"] for row in result["requests"]}
    assert sent["(sent again after a lost connection)"] > 0
    assert silent_seconds(result), "it stands in the timeline"


def is_half_made(error: dict[str, Any]) -> bool:
    """Return whether the error may come from a creation during which Ganesha was killed; a client has at most one.

    Ganesha creates a file by openat and stores the verifier by utimensat. Between the two, nobody owns the file, so a
    repeated creation fails (RFC 1813, 3.3.8).
    """
    return error["fault"] == "already_there" and "ERR_EXIST" in error["example"]


def test_a_file_that_is_locked_is_unlocked_and_closed(tmp_path: Path) -> None:
    # Ganesha refuses to close a file with a locked range, and keeps the lock until the client's lease ends.
    lines = [
        r'NTCreateX "\clients\client1\locked" 0x40 0x5 1 NT_STATUS_OK',
        "LockX 1 0 100 NT_STATUS_OK",
        "LockX 1 200 100 NT_STATUS_OK",
        "Close 1 NT_STATUS_OK",
    ]
    recording = tmp_path / "locks.load"
    recording.write_text("\n".join([*load_files.beginning(), *lines]) + "\n")
    with ganesha({"nfs_version": "4.1"}) as server:
        load_file = _native.LoadFile.read(str(recording))
        result = mixed(target(server), workload="loadfile", load_file=load_file, cache="none")
    assert result["errors"] == []
    requests = {row["request"]: row["count"] for row in result["requests"]}
    assert requests["CLOSE"] > 0 and requests["LOCK"] > 0
    assert "LOCKU" not in requests, "a request of its own"


def test_more_clients_than_ganesha_takes_by_default_work_and_its_limit_is_named_where_it_is_reached(
    tmp_path: Path,
) -> None:
    # Each client has one connection for NFS, and briefly one for MOUNT.
    load_file = _native.LoadFile.read(str(load_files.office(tmp_path / "office.load")))
    files = {"workload": "loadfile", "load_file": load_file, "cache": "none", "keep_workspace": False}

    def waiting(server: Ganesha, clients: int) -> dict[str, Any]:
        level = files_level(
            *(target(server), files), clients=clients, length_s=1.0, think_time_s=600.0, timeout_s=PATIENCE_S
        )
        load = level.start()
        assert load.wait(2 * PATIENCE_S), "the level does not end"
        return load.result()

    with ganesha() as server:
        many = waiting(server, 1_100)
    assert (many["errors"], many["clients_participating"]) == ([], 1_100)
    with ganesha({"max_connections": 16}) as server:
        refused = waiting(server, 32)["errors"]
        assert "max_connections 16 exceeded" in (server.directory / "server.log").read_text(errors="replace")
    assert refused
    assert all("RPC_Max_Connections" in (error["advice"] or "") for error in refused)


def test_ganesha_refuses_an_export_that_is_not_there_with_words_on_what_to_try() -> None:
    with ganesha() as server:
        [look] = target(server, shares=["/elsewhere"]).look(0)
    assert "the export was refused: MNT3ERR_" in (look["why"] or "")
    assert look["advice"] is not None


def test_where_no_port_is_named_the_portmapper_is_asked() -> None:
    with ganesha() as server:
        found = target(server, url="nfs://127.0.0.1/volume1", shares=[])
        assert (found.address, found.facts) == ("127.0.0.1:2049", {"shares": ["/volume1"]})
        [look] = found.look(0)
        assert (look["why"], look["is_used"]) == (None, False)


def test_a_server_of_the_other_version_alone_is_told_with_the_option_to_use() -> None:
    with ganesha() as server:
        [look] = target(server, url="nfs://127.0.0.1/?vers=4.1").look(0)
    assert "does not speak NFSv4.1" in (look["why"] or "")
    assert "vers=3" in (look["advice"] or "")
    with ganesha({"nfs_version": "4.1"}) as server, pytest.raises(_native.SessionError) as caught:
        target(server, url="nfs://127.0.0.1/volume1", shares=[])
    assert "speaks NFSv4" in str(caught.value)
    assert "vers=4.1" in str(caught.value)


def test_without_a_portmapper_an_error_says_how_to_name_the_ports() -> None:
    with pytest.raises((_native.SessionError, OSError)) as caught:
        nfs_target("nfs://127.0.0.1/nowhere")
    assert "nfsport" in str(caught.value) or "export" in str(caught.value)


def test_ganesha_takes_no_loopback_network_and_says_so() -> None:
    with pytest.raises(UserError, match="its own rpcbind"):
        create("ganesha", {"network": "loopback"}, documents=Path("/dev/null"))


def test_what_clients_left_below_an_export_is_removed_by_a_command_that_mounts_it() -> None:
    assert NFS.base_directory("nfs://nas/export/below") == ""
    command = NFS.remove_command(Access("nfs://nas/export/below"), "/export/below", "serverdyno-clients-*")
    assert "nas:/export/below /mnt" in command
    assert "rm -r /mnt/serverdyno-clients-*" in command
    command = NFS.remove_command(Access("nfs://nas:2549/export"), "/export", "Bonnie.1")
    assert "port=2549 nas:/export /mnt" in command
    for query, options in (
        ("nfsport=2549", "vers=3,nolock,port=2549"),
        ("port=2549&nfsvers=4.1", "vers=4.1,port=2549"),
        ("vers=4", "vers=4.2"),
        ("v4.1", "vers=4.1"),
    ):
        command = NFS.remove_command(Access(f"nfs://nas/export?{query}"), "/export", "Bonnie.1")
        assert f"-o {options} nas:/export /mnt" in command


def test_samba_and_ganesha_stand_in_one_plan() -> None:
    head = 'name = "p"\ntitle = "t"\nsuite = "quick-files"\n'
    text = head + '[[servers]]\nserver = "samba"\n[[servers]]\nserver = "ganesha"\n'
    plan = parse_plan(text, "p.toml", settings_types())
    assert [each.server for each in plan.servers] == ["samba", "ganesha"]
