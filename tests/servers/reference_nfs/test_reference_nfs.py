"""The reference NFS server with other clients and ours: libnfs, the disk mix, restarts, driver and command."""

from __future__ import annotations

import ctypes.util
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benches.levels import nfs_target

from serverdyno import _native
from serverdyno.servers.reference_nfs import ReferenceNfs
from serverdyno.servers.running import running
from support.disk_mix import begun, ended, passed, silent_seconds, whole
from support.dyno_process import Home
from support.file_server import PATIENCE_S, skip_unless_installed
from support.reference_servers import start_nfs

EXPORT = "/volume1"
JUKEBOX = -errno.EAGAIN
"""libnfs's error for NFS3ERR_JUKEBOX: try again later."""
MANY = 3_000
LARGE_BYTES = (16 << 20) + 12_345
# Creating and removing workspaces sends none of these.
OF_THE_MIX_ALONE = ("READ",)
UDP = "3&proto=udp"
AGAIN, PASSED_OVER = "(sent again without an answer in time)", "(datagrams passed over)"
RESENT = "(sent again after a lost connection)"


@contextmanager
def reference(**options: Any) -> Iterator[_native.ReferenceNfsServer]:
    """Run the reference server on threads of this process."""
    server = start_nfs(**options)
    try:
        yield server
    finally:
        server.stop()


def target(server: _native.ReferenceNfsServer, version: str = "3", **section: Any) -> _native.Target:
    query = f"mountport={server.port}&vers={version}"
    place = {"url": f"nfs://127.0.0.1:{server.port}/?{query}", "shares": [EXPORT]}
    return nfs_target(**(place | section))


def url(port: int, path: str) -> str:
    """Return the URL in the form that libnfs expects."""
    return f"nfs://127.0.0.1{EXPORT}{path}?nfsport={port}&mountport={port}"


def tool(*command: str) -> bytes:
    """Return the output of a libnfs tool that must succeed."""
    skip_unless_installed(command[0])
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def counted_otherwise(result: dict[str, Any], counted: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Return where the counts of requests differ, in total or by procedure: ours, and the server's."""
    sent = {each["request"]: each["count"] for each in result["requests"]}
    pairs = {name: (sent.get(name, 0), counted[name]) for name in OF_THE_MIX_ALONE}
    pairs["all"] = (result["protocol_requests"] or 0, sum(counted.values()))
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def test_what_libnfs_puts_there_it_gets_back_and_lists(tmp_path: Path) -> None:
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(os.urandom(LARGE_BYTES))
    files = {f"aaa{number}": b"" for number in range(MANY)} | {"there": b"from the beginning"}
    with reference(files=files) as server:
        port = server.port
        tool("nfs-cp", str(sent), url(port, "/copy"))
        tool("nfs-cp", url(port, "/copy"), str(got))
        assert got.read_bytes() == sent.read_bytes()
        assert tool("nfs-cat", url(port, "/copy")) == sent.read_bytes()
        assert tool("nfs-cat", url(port, "/there")) == b"from the beginning"
        listed = tool("nfs-ls", url(port, "")).decode().splitlines()
        counted = server.requests()
    assert {line.split()[-1] for line in listed} == {*files, "copy"}
    assert [line for line in listed if line.endswith("copy") and str(LARGE_BYTES) in line]
    assert counted["WRITE"] > 0
    assert counted["READDIRPLUS"] > 1


@pytest.mark.parametrize(
    ("cache", "threads", "version"),
    [
        *[(cache, threads, "3") for cache in ("none", "leases") for threads in (1, 3)],
        ("none", 1, "4.1"),
        ("leases", 3, "4.1"),
    ],
)
def test_the_disk_mix_is_served_whole_and_counted_as_the_generator_counts_it(
    cache: str, threads: int, version: str
) -> None:
    with reference(threads=threads) as server:
        # Each client reaches a flush after about 250 operations, even on a busy machine.
        result = ended(begun(target(server, version), clients=4, length_s=1.0, files={"cache": cache}))
        counted = server.requests()
    assert whole(result)
    assert counted_otherwise(result, counted) == {}
    assert 0 < passed(result)["flush"] <= counted["COMMIT"]


def asked_and_broken(result: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of delegations granted and recalled."""
    sent = {each["request"]: each["count"] for each in result["requests"]}
    return sent.get("(read delegations granted)", 0), result["breaks"]


@pytest.mark.parametrize("cache", ["leases", "oplocks", "none"])
def test_delegations_are_asked_for_given_back_and_counted_or_not_asked_for_at_all(cache: str) -> None:
    with reference() as server:
        result = ended(begun(target(server, "4.1"), clients=2, files={"cache": cache}))
        counted = server.requests()
    granted, broken = asked_and_broken(result)
    asks = cache == "leases"
    assert whole(result)
    assert counted_otherwise(result, counted) == {}
    assert (granted > 0, broken) == (asks, 0), "nobody uses the files of another"
    assert (counted.get("DELEGRETURN", 0) > 0) == asks


def libnfs_changes_modes(port: int, paths: list[str]) -> None:
    """Set the mode of files over NFSv3 with the library of libnfs's tools.

    The library returns JUKEBOX ("try again later"), which our client, if busy, can cause by a late answer to a recall.
    """
    library = ctypes.util.find_library("nfs")
    if library is None:
        pytest.skip("libnfs is not installed")
    libnfs = ctypes.CDLL(library)
    libnfs.nfs_init_context.restype = libnfs.nfs_parse_url_dir.restype = ctypes.c_void_p
    libnfs.nfs_get_error.restype = ctypes.c_char_p
    context = ctypes.c_void_p(libnfs.nfs_init_context())
    assert libnfs.nfs_parse_url_dir(context, url(port, "").encode()), "it has the ports"
    assert libnfs.nfs_mount(context, b"127.0.0.1", EXPORT.encode()) == 0, libnfs.nfs_get_error(context)
    for path in paths:
        deadline = time.monotonic() + PATIENCE_S
        while (changed := libnfs.nfs_chmod(context, path.encode(), 0o644)) == JUKEBOX:
            assert time.monotonic() < deadline, path
        assert changed == 0, (path, libnfs.nfs_get_error(context))
    libnfs.nfs_destroy_context(context)


def test_libnfs_gets_what_clients_of_ours_hold_by_delegations() -> None:
    workspaces = _native.Workspaces()
    with reference() as server:
        to = target(server, "4.1")
        assert whole(ended(begun(to, workspaces=workspaces, files={"cache": "leases"})))
        listed = tool("nfs-ls", "-R", url(server.port, "")).decode().splitlines()
        paths = ["/" + line.split()[-1].lstrip("/") for line in listed if line.startswith("-")]
        before = server.requests()["OPEN"]
        load = begun(to, workspaces=workspaces, files={"cache": "leases"}, length_s=3.0)
        while server.requests()["OPEN"] < before + 100 and not load.wait(0.02):
            pass
        while not load.wait(0.0):
            libnfs_changes_modes(server.port, paths)
        result = load.result()
    granted, broken = asked_and_broken(result)
    assert whole(result)
    assert granted > 0
    assert broken > 0


@pytest.mark.parametrize("version", ["3", "4.1", UDP])
def test_what_clients_leave_is_read_by_libnfs_byte_for_byte(version: str) -> None:
    workspaces = _native.Workspaces()
    with reference(udp=True) as server:
        left = begun(target(server, version), workspaces=workspaces, files={"cache": "leases"})
        assert whole(ended(left))
        listed = tool("nfs-ls", "-R", url(server.port, "")).decode().splitlines()
        files = [line.split()[-1] for line in listed if line.startswith("-")]
        sizes = [int(line.split()[-2]) for line in listed if line.startswith("-")]
        assert len(files) > 100
        for name, size in list(zip(files, sizes, strict=True))[::20]:
            assert len(tool("nfs-cat", url(server.port, f"/{name.lstrip('/')}"))) == size
        # A second level checks their contents, because it reads what the first one left.
        again = ended(begun(target(server), workspaces=workspaces, files={"cache": "none"}))
    assert whole(again)


@pytest.mark.parametrize("version", ["3", "4.1", UDP])
def test_a_restart_in_the_middle_of_a_level_is_an_outage_without_errors_and_all_contents_are_right(
    version: str,
) -> None:
    length_s, outage_s = 4.0, 2.2
    with reference(udp=True) as server:
        # Without delegations: a client that reads recalls may notice the lost connection between two requests, and then
        # repeats none.
        load = begun(target(server, version), clients=4, length_s=length_s, files={"cache": "oplocks"})
        deadline = time.monotonic() + PATIENCE_S
        while server.requests()["READ"] < 50:  # the level itself has begun
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.restart(outage_s=outage_s)
        assert load.wait(PATIENCE_S)
        result = load.result()
        assert server.restarts == 1
    assert whole(result)
    sent = {each["request"]: each["count"] for each in result["requests"]}
    assert sent[RESENT] > 0
    assert silent_seconds(result), "it stands in the timeline"


@pytest.mark.parametrize("fault", ["dropped-call=23", "dropped-reply=23", "double-reply=23"])
def test_over_udp_datagrams_may_be_lost_or_come_twice_and_every_byte_is_right(fault: str) -> None:
    with reference(udp=True, fault=fault) as server:
        result = ended(begun(target(server, UDP), clients=2, length_s=1.0))
        given_again = server.replies_given_again
    assert whole(result)
    [session] = result["sessions"]
    assert (session["transport"], session["max_read_bytes"], session["max_write_bytes"]) == (
        "udp",
        *(32768, 32768),
    )
    counted = {each["request"]: each["count"] for each in result["requests"]}
    assert counted[PASSED_OVER if fault == "double-reply=23" else AGAIN] > 0
    if fault == "dropped-reply=23":
        assert given_again > 0, "the server knows calls again that can't be carried out twice"


@pytest.mark.parametrize("spelled", ["vers=4", "nfsvers=4", "nfsvers=4.1", "v4", "v4.1"])
def test_the_version_may_be_spelled_as_in_a_mount(spelled: str) -> None:
    with reference() as server:
        url = f"nfs://127.0.0.1{EXPORT}?port={server.port}&{spelled}"
        result = ended(begun(nfs_target(url=url, shares=[])))
        counted = server.requests()
    assert whole(result) and counted["EXCHANGE_ID"] > 0
    # The reference server has no NFSv4.2.
    assert {each["dialect"] for each in result["sessions"]} == {"4.1"}


@pytest.mark.parametrize(
    ("parameter", "instead"),
    [
        ("nfsvers=4.0", "use vers=3, or vers=4 for 4.2 or 4.1"),
        ("proto=tcp6", "use proto=tcp: the URL's address selects IPv4 or IPv6"),
        ("vers=4.1,proto=tcp", "join parameters with &, not with commas"),
        ("hard", "leave it out"),
    ],
)
def test_a_mount_option_that_is_refused_is_told_with_what_to_write(parameter: str, instead: str) -> None:
    with pytest.raises(ValueError, match="is not a valid parameter") as caught:
        nfs_target(url=f"nfs://127.0.0.1/a?{parameter}", shares=[])
    assert instead in str(caught.value)


def test_version_4_over_udp_is_refused_and_a_server_without_udp_is_told() -> None:
    with reference() as server:
        with pytest.raises(ValueError, match="NFSv4 does not run over UDP"):
            target(server, "4.1&proto=udp")
        [look] = target(server, UDP).look(0)
        assert "UDP (proto=udp)" in (look["advice"] or "")


def test_a_restart_while_delegations_are_held_ends_them_and_all_contents_are_right() -> None:
    with reference() as server:
        load = begun(target(server, "4.1"), clients=4, length_s=2.0, files={"cache": "leases"})
        deadline = time.monotonic() + PATIENCE_S
        while server.requests()["READ"] < 50:  # the level itself has begun
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.restart(outage_s=0.2)
        result = ended(load)
        assert server.restarts == 1
    assert whole(result)
    counted = {each["request"]: each["count"] for each in result["requests"]}
    # Delegations from before the restart are neither returned nor reclaimed.
    assert asked_and_broken(result)[0] > counted.get("DELEGRETURN", 0) > 0


def test_what_a_server_loses_that_ignores_flushes_is_found_wrong() -> None:
    with reference(flush="ignore") as server:
        load = begun(target(server), clients=2, length_s=2.0, files={"cache": "none"})
        deadline = time.monotonic() + PATIENCE_S
        while server.requests()["READ"] < 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert server.restart() > 0
        result = ended(load)
    assert "wrong_content" in {error["fault"] for error in result["errors"]}


def test_contents_that_are_wrong_are_found_wrong() -> None:
    with reference(fault="wrong-content") as server:
        result = ended(begun(target(server), files={"cache": "none"}))
    assert {error["fault"] for error in result["errors"]} == {"wrong_content"}


@pytest.mark.parametrize(
    ("fault", "survives"),
    [
        *[("lost-reply=10", True), ("other-verifier=10", True), ("jukebox=3", True), ("short-write", True)],
        *[("stall", False), ("denied", False), ("garbage", False)],
    ],
)
def test_a_fault_ends_in_counted_errors_or_is_survived_and_the_level_ends(fault: str, survives: bool) -> None:
    with reference(fault=fault) as server:
        timeout_s = PATIENCE_S if survives else 0.5
        result = ended(begun(target(server), clients=1, length_s=0.3, timeout_s=timeout_s))
    assert bool(result["errors"]) != survives, result["errors"]


def test_what_can_not_be_is_refused() -> None:
    for options, message in [
        ({"fault": "sulk"}, "other-verifier"),
        ({"flush": "never"}, "'honour' or 'ignore'"),
        ({"bind": "here"}, "IP address"),
    ]:
        with pytest.raises(ValueError, match=message):
            start_nfs(**options)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="such as /volume1"):
        start_nfs(exports=["volume1"])


@pytest.mark.parametrize("network", ["auto", "loopback"])
def test_under_its_driver_it_is_a_server_like_others(network: str) -> None:
    settings = {"volumes": 2, "capacity_mib": 256, "network": network, "flush": "ignore"}
    with running("reference-nfs", settings) as server:
        assert isinstance(server, ReferenceNfs)
        access = server.access()
        section: dict[str, Any] = {
            "url": access.url,
            "shares": list(access.shares),
            "network_namespace": access.network_namespace,
        }
        before = server.requests_served()
        result = ended(begun(nfs_target(**section), files={"cache": "leases"}))
        after = server.requests_served()
        described = server.describe()
        assert before is not None and after is not None
        assert result["protocol_requests"] == after - before
        assert (server.cpu_s() or 0) > 0
        assert access.shares == ("/volume1", "/volume2")
        assert any("256 MiB" in note for note in described.notes)
        assert any("have no effect" in note for note in described.notes)
        directory = server.directory
    assert whole(result)
    assert server.requests_served() is None
    assert not directory.exists()


def test_the_command_serves_files_and_tells_its_counts(tmp_path: Path) -> None:
    skip_unless_installed("nfs-cp")
    counts, sent = tmp_path / "counts", tmp_path / "sent"
    sent.write_bytes(os.urandom(200_000))
    words = [sys.executable, "-m", "serverdyno", "reference", "nfs"]
    with subprocess.Popen([*words, "--counts", str(counts)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        tool("nfs-cp", str(sent), url(port, "/x"))
        assert tool("nfs-cat", url(port, "/x")) == sent.read_bytes()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(str(counts))
            told = json.loads(connection.makefile().read())
        server.send_signal(signal.SIGINT)
        server.wait(timeout=PATIENCE_S)
    assert told["COMMIT"] > 0


def test_the_command_serves_an_independent_client_and_starts_anew_on_a_signal(tmp_path: Path) -> None:
    skip_unless_installed("nfs-cp")
    counts = tmp_path / "counts"
    words = [
        sys.executable,
        "-m",
        "serverdyno",
        "reference",
        "nfs",
        "--counts",
        str(counts),
        "--outage-s",
        "0",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        sent = tmp_path / "sent"
        sent.write_bytes(os.urandom(200_000))
        tool("nfs-cp", str(sent), url(port, "/x"))
        server.send_signal(signal.SIGHUP)
        assert json.loads(server.stdout.readline())["restarts"] == 1
        # nfs-cp ends with COMMIT.
        assert tool("nfs-cat", url(port, "/x")) == sent.read_bytes()
        assert counts.exists()
        server.send_signal(signal.SIGINT)
        server.wait(timeout=PATIENCE_S)
    assert not counts.exists()


@pytest.mark.parametrize("delegates", [True, False])
def test_the_command_grants_delegations_or_none_and_serves_udp(delegates: bool) -> None:
    words = [sys.executable, "-m", "serverdyno", "reference", "nfs", "--udp"]
    words += [] if delegates else ["--no-delegations"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        place: dict[str, Any] = {"shares": [EXPORT], "url": f"nfs://127.0.0.1:{port}/?vers=4.1"}
        result = ended(begun(nfs_target(**place), files={"cache": "leases"}))
        place["url"] = f"nfs://127.0.0.1:{port}/?mountport={port}&proto=udp"
        [look] = nfs_target(**place).look(0)
        server.send_signal(signal.SIGINT)
        server.wait(timeout=PATIENCE_S)
    assert whole(result)
    assert (asked_and_broken(result)[0] > 0) == delegates
    assert look["why"] is None


def test_the_command_names_its_faults(home: Home) -> None:
    done = home.here("reference", "nfs", "--list-faults")
    assert "lost-reply=10" in done.stdout
