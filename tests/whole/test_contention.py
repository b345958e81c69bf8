"""Contention as a workload: all clients use the same files, over a directory, SMB and NFS, and no update is lost."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benches.levels import directory_target, files_level, smb_target
from benches.levels import nfs_target as nfs_target_at

from serverdyno import _native
from serverdyno.plan import suites
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.model import Suite
from serverdyno.report.build import build_from, source_of
from serverdyno.report.figures.invariants import contradictions
from serverdyno.store.experiment import Experiment
from support.disk_mix import clients_directory, target
from support.dyno_process import wait_until
from support.experiments import Listener, carried_out_plan
from support.file_server import PATIENCE_S, samba
from support.nfs_server import ganesha
from support.nfs_server import target as nfs_target
from support.reference_servers import start_nfs, start_smb

BLOCK_BYTES, BLOCKS = 4096, 4
SHARED = {
    "workload": "contention",
    "files": 1,
    "blocks": BLOCKS,
    "block_bytes": BLOCK_BYTES,
    "writes_percent": 50,
}


def started(
    to: _native.Target, files: dict[str, Any], workspaces: _native.Workspaces | None = None, **shape: Any
) -> _native.Load:
    """Start a level of six clients for a second, unless `shape` differs."""
    wanted = {"clients": 6, "threads": 1, "length_s": 1.0, "timeout_s": 30.0} | shape
    return files_level(to, SHARED | files, workspaces, **wanted).start()


def ended(load: _native.Load) -> dict[str, Any]:
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def mixed(
    to: _native.Target, files: dict[str, Any], workspaces: _native.Workspaces | None = None
) -> dict[str, Any]:
    """Run a level to its end."""
    return ended(started(to, files, workspaces))


def calls(result: dict[str, Any], call: str) -> dict[str, int]:
    [row] = [row for row in result["calls"] if row["call"] == call]
    return {"done": row["done"], "failed": row["failed"]}


def updates(file: Path) -> int:
    """Return the number of writes of a shared file's blocks since its creation, by their version numbers."""
    content = file.read_bytes()
    assert len(content) == BLOCKS * BLOCK_BYTES
    heads = (content[place : place + 24] for place in range(0, len(content), BLOCK_BYTES))
    found = [struct.unpack("<8sQQ", head) for head in heads]
    assert all(magic == b"dynoblk1" for magic, _, _ in found)
    return sum(number for _, _, number in found)


def check_whole(result: dict[str, Any]) -> None:
    """Check that no client failed, every block that was read was checked, and clients competed for locks."""
    assert result["errors"] == []
    counts = {row["operation"]: row["count"] for row in result["by_operation"]}
    assert counts["write"] > 0 and counts["read"] > counts["write"]
    assert result["bytes_read"] == counts["read"] * BLOCK_BYTES
    assert (result["bytes_checked"] or 0) >= result["bytes_read"]
    assert calls(result, "lock")["failed"] > 0


def test_no_update_is_lost_below_a_directory(tmp_path: Path) -> None:
    to = directory_target(f"file://{tmp_path}")
    workspaces = _native.Workspaces()
    written = 0
    for _ in range(2):  # the second level continues with the files of the first
        result = mixed(to, {}, workspaces)
        check_whole(result)
        written += calls(result, "write")["done"]
        assert result["breaks"] == 0
    [shared] = tmp_path.glob("*/0/shared-0")
    assert updates(shared) == written


@pytest.mark.parametrize("cache", ["leases", "oplocks", "none"])
def test_no_update_is_lost_over_samba_whatever_clients_may_cache(cache: str) -> None:
    with samba() as server:
        result = mixed(target(server), {"cache": cache})
        check_whole(result)
        [shared] = clients_directory(server.data_directories()[0]).glob("0/shared-0")
        assert updates(shared) == calls(result, "write")["done"]
    times = _native.Histogram.from_bytes(result["break_time_hdr"])
    assert result["breaks"] >= result["breaks_to_answer"] >= result["breaks_answered"] == times.count
    if cache == "none":
        assert result["breaks"] == 0
    else:
        assert result["breaks_answered"] > 0


@pytest.mark.parametrize("cache", ["leases", "none"])
def test_no_update_is_lost_over_nfs_4_1_with_a_client_cache_or_without(cache: str) -> None:
    with ganesha({"nfs_version": "4.1"}) as server:
        result = mixed(nfs_target(server), {"cache": cache})
        check_whole(result)
        [shared] = clients_directory(server.data_directories()[0]).glob("0/shared-0")
        assert updates(shared) == calls(result, "write")["done"]


def test_the_reference_server_takes_leases_back_and_loses_nothing() -> None:
    server = start_smb()
    try:
        section: dict[str, Any] = {"url": f"smb://127.0.0.1:{server.port}/", "shares": ["volume1", "volume2"]}
        to = smb_target(**section)
        result = mixed(to, {"files": 2, "cache": "leases"})
    finally:
        server.stop()
    check_whole(result)
    assert result["breaks_answered"] > 0


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        pytest.param(lambda made, now: made, "stale_content", id="an old version"),
        pytest.param(
            lambda made, now: now[: len(now) // 2] + made[len(made) // 2 :], "wrong_content", id="torn"
        ),
    ],
)
def test_a_version_that_is_old_or_torn_is_an_error(
    tmp_path: Path, damage: Callable[[bytes, bytes], bytes], fault: str
) -> None:
    # The first block, or half of it, is reset to its first version while no client has the file open.
    to = directory_target(f"file://{tmp_path}")
    workspaces = _native.Workspaces()

    def short_level(writes_percent: int) -> None:
        files = {"blocks": 1, "writes_percent": writes_percent}
        assert ended(started(to, files, workspaces, length_s=0.2))["errors"] == []

    short_level(0)
    [shared] = tmp_path.glob("*/0/shared-0")
    made = shared.read_bytes()
    while (now := shared.read_bytes()) == made:
        short_level(100)
    reading = started(to, {"blocks": 1, "writes_percent": 0}, workspaces, length_s=600.0)
    # By now at least one client has read the block, because only one of the others can be past its open.
    wait_until(lambda: reading.snapshot()["operations"] > 10, "a read")
    with shared.open("r+b") as file:
        file.write(damage(made, now))
    wait_until(lambda: reading.snapshot()["errors"] > 0, "a read of what was put back")
    reading.stop()
    result = ended(reading)
    assert {error["fault"] for error in result["errors"]} == {fault}
    assert {error["side"] for error in result["errors"]} == {"check"}


def test_over_nfsv3_where_locks_keep_nobody_out_it_is_refused() -> None:
    server = start_nfs()
    try:
        section = {"url": f"nfs://127.0.0.1:{server.port}/volume1?mountport={server.port}"}
        to = nfs_target_at(**section)
        with pytest.raises(ValueError, match=r"NFS requires vers=4\.1"):
            mixed(to, {"cache": "none"})
    finally:
        server.stop()


SUITE = """
name = "short"
title = "Short"
source = "a test"
workload = "contention"
clients = [2, 4]
length_s = 1.5
[files]
cache = "leases"
[files.contention]
blocks = 4
"""
PLAN = """
name = "shared"
title = "Shared"
suite = "./short.toml"
repetitions = 1

[[servers]]
server = "reference-smb"
"""


def test_an_experiment_runs_from_plan_to_report_and_says_what_breaks_took(tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(SUITE)
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    listener = Listener()
    assert carried_out_plan(plan, tmp_path / "e", listener), listener.failures
    with Experiment.open(tmp_path / "e") as kept:
        records = kept.levels()
        made = build_from(source_of(kept))
    assert len(records) == 2
    for record in records:
        assert record.errors == [] and contradictions(record, None, closed=True) == []
        assert record.breaks is not None and record.breaks >= (record.breaks_to_answer or 0) > 0
    [table] = [each for each in made.tables if each.key == "breaks"]
    assert [row[2].text for row in table.rows] == [f"{record.breaks:,}" for record in records]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"threads": 2}, "threads: a file client has one thread"),
        ({"files": {"contention": None}}, "files.contention: is missing"),
        ({"workload": "diskmix"}, "files.contention: requires the workload contention"),
        ({"files": {"redirector": "xp"}}, 'files.redirector: must be "plain" for contention'),
    ],
)
def test_a_suite_says_what_contention_needs(changes: dict[str, Any], said: str) -> None:
    document = suites.load("quick-contention").model_dump()
    files = document["files"] | changes.get("files", {})
    suite = Suite.model_validate(document | changes | {"files": files})
    found = "\n".join(f"{'.'.join(map(str, each.path))}: {each.message}" for each in suite_problems(suite))
    assert said in found if said else found == ""
