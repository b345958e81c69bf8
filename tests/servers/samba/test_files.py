"""The disk mix against real servers: the files on the disk afterwards, and the server's own counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from serverdyno.probes.durability import FsyncCounter
from serverdyno.servers.samba import PROOF_NAME, Samba
from support.disk_mix import (
    FILES,
    clients_directory,
    contents,
    mixed,
    names,
    passed,
    served,
    whole,
    worked,
)
from support.file_server import needs_root, samba, smbclient

WORKSPACE_BYTES = 20 << 20
LEAST_WORKSPACE_BYTES = 15 << 20
DELAY_MS = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[Samba]:
    """Start one server for all levels that need no other settings."""
    with samba() as running:
        yield running


@pytest.fixture(scope="module")
def signing() -> Iterator[Samba]:
    with samba({"signing": "required"}) as running:
        yield running


@pytest.fixture(scope="module")
def encrypting() -> Iterator[Samba]:
    with samba({"encryption": "required"}) as running:
        yield running


def session_of(server: Samba, files: dict[str, Any] | None = None, **smb: Any) -> dict[str, Any]:
    """Return the session that both clients of a short level negotiated, after checking that no error occurred."""
    small = {"workspace_bytes": LEAST_WORKSPACE_BYTES, "keep_workspace": False}
    result = mixed(server, length_s=0.6, files=small | (files or {}), smb=smb)
    assert worked(result), result
    [session] = result["sessions"]
    return dict(session)


def test_a_workspace_reads_the_same_through_another_client_and_on_the_servers_disk(tmp_path: Path) -> None:
    with samba() as server:
        assert whole(mixed(server, clients=1))
        on_disk = contents(clients_directory(server.data_directories()[0]) / "0")
        directory = clients_directory(server.data_directories()[0]).name
        commands = f"cd {directory}/0; lcd {tmp_path}; prompt off; recurse on; mget *"
        smbclient(server, commands)
    assert len(on_disk) == FILES
    assert contents(tmp_path) == on_disk
    marker = on_disk.pop("bulk/complete.mrk")
    assert sum(map(len, on_disk.values())) == WORKSPACE_BYTES
    assert 0 < len(marker) < 1024
    # No two files of a workspace have the same content, so that reading the wrong file is detected.
    assert len(set(on_disk.values())) == len(on_disk)


def test_a_workspace_that_is_not_kept_leaves_what_was_there_before() -> None:
    with samba() as server:
        top = server.data_directories()[0]
        (top / "of-somebody-else").write_text("stays")
        assert whole(mixed(server, files={"keep_workspace": False}))
        assert names([top]) == [["of-somebody-else", clients_directory(top).name, PROOF_NAME]]


@needs_root
@pytest.mark.parametrize("cache", ["none", "oplocks", "leases"])
@pytest.mark.parametrize("redirector", ["plain", "xp"])
def test_the_server_counts_what_we_count(server: Samba, cache: str, redirector: str) -> None:
    before = served(server)
    # Each client reaches a flush after about 250 operations, even on a busy machine.
    result = mixed(server, length_s=4.0, files={"cache": cache, "redirector": redirector})
    after = served(server)
    counted = {name: after[name] - before[name] for name in after}
    assert whole(result)
    assert result["protocol_requests"] == sum(counted.values())
    # Creating and removing the workspace sends no flush, but unlocks the ranges that each client left locked.
    requests = {each["request"]: each["count"] for each in result["requests"]}
    assert passed(result)["flush"] == requests["FLUSH"] == counted["flush"] > 0
    assert 0 <= counted["lock"] - requests["LOCK"] <= result["clients_planned"]
    assert counted["sesssetup"] == 2 * counted["logoff"] == 2 * 2


@needs_root
@pytest.mark.parametrize("strict_sync", [True, False])
def test_a_flush_waits_for_the_disk_only_under_strict_sync(strict_sync: bool) -> None:
    settings = {"strict_sync": strict_sync, "fsync_delay_ms": DELAY_MS}
    with samba(settings) as server, FsyncCounter(server.pids()) as counter:
        result = mixed(server, length_s=3.0)
        syncs = counter.counts()
    assert whole(result)
    assert syncs is not None
    flushes = passed(result)["flush"]
    assert flushes > 0
    made = syncs["fsync"] + syncs["fdatasync"]
    assert made >= flushes if strict_sync else made == 0
    if strict_sync:
        flush = next(each for each in result["by_operation"] if each["operation"] == "flush")
        response_time = _native.Histogram.from_bytes(flush["response_time_hdr"])
        assert response_time.count > 0
        assert response_time.min >= DELAY_MS * 1e6 * 0.999  # three significant digits


def test_without_oplocks_at_the_server_nothing_is_kept_at_the_client() -> None:
    figures = {}
    for oplocks in (True, False):
        with samba({"oplocks": oplocks}) as server:
            result = mixed(server, clients=1, length_s=2.0)
        assert whole(result)
        asked = {each["operation"]: each["count"] for each in result["by_operation"]}
        below = passed(result)
        figures[oplocks] = (below["read"] / asked["read"], below["write"] / asked["write"])
    # The last operation may end after the window, while calls below it still count.
    assert figures[False] == pytest.approx((1.0, 1.0), rel=0.02)
    assert figures[True][0] < 0.7 and figures[True][1] < 0.7


DIALECTS = ("2.0.2", "2.1", "3.0", "3.0.2", "3.1.1")


@pytest.mark.parametrize("cache", ["oplocks", "leases"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_disk_mix_works_in_every_dialect(server: Samba, dialect: str, cache: str) -> None:
    assert session_of(server, {"cache": cache}, max_dialect=dialect)["dialect"] == dialect


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_disk_mix_works_where_the_server_will_have_it_signed(signing: Samba, dialect: str) -> None:
    session = session_of(signing, max_dialect=dialect)
    assert session["dialect"] == dialect and session["signing"] is not None


@pytest.mark.parametrize("dialect", DIALECTS[2:])
def test_the_disk_mix_works_encrypted(encrypting: Samba, dialect: str) -> None:
    session = session_of(encrypting, max_dialect=dialect, encryption="required")
    assert session["dialect"] == dialect and session["encryption"] is not None


@pytest.mark.parametrize("signing", ["required", "off"])
def test_clients_have_it_signed_or_not_as_they_like(server: Samba, signing: str) -> None:
    assert (session_of(server, signing=signing)["signing"] is None) == (signing == "off")
