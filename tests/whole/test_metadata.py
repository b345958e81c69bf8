"""Metadata as a workload: over a directory, NFS and SMB, in own and shared directories, and at a given rate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from serverdyno.plan import suites
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.model import Suite
from serverdyno.report.build import build_from, source_of
from serverdyno.report.figures.invariants import contradictions
from serverdyno.report.figures.open_load import unaccounted
from serverdyno.store.experiment import Experiment
from support import reference_targets
from support.experiments import Listener, carried_out_plan
from support.file_server import PATIENCE_S
from support.reference_targets import counts, directory, nfs, smb

METADATA = {"workload": "metadata", "cache": "none", "files": 5, "file_bytes": 100}
PHASES = ["create", "stat", "read", "remove"]


def mixed(to: _native.Target, files: dict[str, Any] | None = None, **shape: Any) -> dict[str, Any]:
    return reference_targets.mixed(to, METADATA | (files or {}), **shape)


def check_whole(result: dict[str, Any], clients: int = 2, file_bytes: int = 100) -> None:
    """Check that no client failed, all phases were done, and every byte that was read was compared."""
    assert result["errors"] == []
    assert result["clients_participating"] == result["clients_planned"] == clients
    found = counts(result)
    assert [*found] == PHASES
    # At each end of the window, a client is in the middle of one pass.
    assert max(found.values()) - min(found.values()) <= 2 * 5 * clients
    assert min(found.values()) > 0
    assert result["bytes_read"] == found["read"] * file_bytes
    assert result["bytes_written"] == found["create"] * file_bytes
    assert result["bytes_checked"] is not None and result["bytes_checked"] >= result["bytes_read"]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("file_bytes", [0, 100])
def test_a_directory_goes_through_all_phases_and_is_left_as_it_was(
    tmp_path: Path, shared: bool, file_bytes: int
) -> None:
    kept = {"shared": shared, "file_bytes": file_bytes, "keep_workspace": False}
    result = mixed(directory(tmp_path), kept)
    check_whole(result, file_bytes=file_bytes)
    requests = {row["request"]: row["count"] for row in result["requests"]}
    created = counts(result)["create"]
    assert requests["unlink"] >= created - 10
    assert (requests["write"] > 0) == (file_bytes > 0)
    # The load's own directory is removed at the end of a run.
    assert not [path for path in tmp_path.rglob("*") if path.parent != tmp_path]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("server", [nfs, smb])
def test_servers_of_files_go_through_all_phases(server: Any, shared: bool) -> None:
    with server() as (to, _):
        result = mixed(to, {"shared": shared, "keep_workspace": False}, clients=3)
        check_whole(result, clients=3)
    requests = {row["request"]: row["count"] for row in result["requests"]}
    found = counts(result)
    if server is nfs:
        assert requests["REMOVE"] >= found["remove"]
        assert requests["CREATE"] >= found["create"]
        assert "COMMIT" not in requests, "a small file is written durably at once, as Linux's client does"


@pytest.mark.parametrize("directory_leases", [False, True])
def test_leases_of_a_directory_spare_the_server_listings_and_look_ups(directory_leases: bool) -> None:
    leases = {"cache": "leases", "directory_leases": directory_leases}
    with smb() as (to, _):
        result = mixed(to, {**leases, "shared": True, "files": 5, "looks": 50}, clients=3)
    assert result["errors"] == []
    asked = counts(result)
    reached = {row["call"]: row["done"] + row["not_there"] for row in result["calls"]}
    assert asked["list"] > 0 and asked["absent"] > 0
    if directory_leases:
        assert reached["find"] < 0.5 * asked["list"]
        assert reached["query path"] < 0.5 * (asked["stat"] + asked["absent"])
        assert result["breaks"] > 0
    else:
        assert reached["find"] >= asked["list"]
        assert reached["query path"] >= asked["stat"] + asked["absent"]


def test_in_a_shared_directory_all_files_lie_side_by_side(tmp_path: Path) -> None:
    # While they work, the files of both clients are in one directory, which has no other files.
    seen: set[tuple[str, str]] = set()

    def look() -> None:
        end_s = time.monotonic() + PATIENCE_S
        while {name.split(".")[1] for _, name in seen} != {"0", "1"} and time.monotonic() < end_s:
            files = [*tmp_path.glob("*/file.*"), *tmp_path.glob("*/*/file.*")]
            seen.update((path.parent.name, path.name) for path in files)

    result = mixed(directory(tmp_path), {"shared": True, "files": 500}, length_s=3.0, meanwhile=look)
    assert result["errors"] == []
    assert len({parent for parent, _ in seen}) == 1
    assert {name.split(".")[1] for _, name in seen} == {"0", "1"}


def test_content_that_is_wrong_is_an_error_of_the_read_alone() -> None:
    with nfs(fault="wrong-content") as (to, _):
        result = mixed(to, leave_after_errors=10**6)
    assert {error["fault"] for error in result["errors"]} == {"wrong_content"}
    failed = {row["operation"] for row in result["by_operation"] if row["errors"]}
    assert failed == {"read"}


def test_clients_go_on_when_the_server_was_away() -> None:
    with nfs() as (to, server):
        result = mixed(
            to, length_s=2.0, leave_after_errors=1000, meanwhile=lambda: server.restart(outage_s=0.5)
        )
        after = mixed(to)
    assert result["clients_participating"] == 2
    assert {error["side"] for error in result["errors"]} <= {"server", "network", "generator"}
    check_whole(after)


@pytest.mark.parametrize(
    ("files", "shape", "said"),
    [
        ({"cache": "leases"}, {}, "client.cache: must be none"),
        ({"files": 0}, {}, "workload.files: out of bounds"),
        ({"file_bytes": 2**20 + 1}, {}, "workload.file_bytes: out of bounds"),
        ({}, {"threads": 2}, "threads: a client of this workload can have only one thread"),
    ],
)
def test_what_metadata_can_not_do_is_refused(files: dict[str, Any], shape: dict[str, Any], said: str) -> None:
    with nfs() as (to, _), pytest.raises(ValueError, match=said):
        mixed(to, files, **shape)


def test_operations_that_come_at_a_rate_of_their_own_are_counted_one_by_one() -> None:
    with nfs() as (to, _):
        result = mixed(to, rate_per_s=200.0, law="uniform", clients=4)
    failed = sum(error["count"] for error in result["errors"])
    assert failed == 0 and result["arrivals"] == 200
    assert result["arrivals"] == result["operations_total"] + result["overdue_at_end"]


SUITE = """
name = "short"
title = "Short"
source = "a test"
workload = "metadata"
clients = {clients}
length_s = 1.3
{rest}
[files]
cache = "none"
[files.metadata]
files = 10
"""
PLAN = """
name = "metadata"
title = "Metadata"
suite = "./short.toml"
repetitions = 1

[[servers]]
server = "reference-nfs"

[[servers]]
server = "reference-smb"
"""


@pytest.mark.parametrize(("clients", "rest"), [([1, 2], ""), ([4], "[open]\nrate_per_s = [100, 200]\n")])
def test_an_experiment_runs_from_plan_to_report(tmp_path: Path, clients: list[int], rest: str) -> None:
    (tmp_path / "short.toml").write_text(SUITE.format(clients=clients, rest=rest))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    listener = Listener()
    assert carried_out_plan(plan, tmp_path / "e", listener), listener.failures
    with Experiment.open(tmp_path / "e") as kept:
        records = kept.levels()
        made = build_from(source_of(kept))
    assert len(records) == 4
    for record in records:
        assert record.errors == [] and record.operations > 0
        assert contradictions(record, None, closed=not rest) == []
        assert unaccounted(record) == 0
    # The unit is operations, even if bytes are moved.
    assert made.results.terms.unit == "operations/s"
    for result in made.results.configurations:
        assert result.throughput is not None and result.throughput.peak.mean > 0
    tables = {table.key: table for table in made.tables}
    labels = [column.label for column in tables["operations"].columns]
    rows = [[cell.text for cell in row] for row in tables["operations"].rows]
    assert [row[labels.index("Class of operation")] for row in rows] == PHASES * 2
    if rest:
        return
    for result in made.results.configurations:
        assert result.peak is not None
        mine = [row for row in rows if row[0] == result.name]
        for row, figures in zip(mine, result.operations_at_peak, strict=True):
            assert figures.response is not None
            rate = float(row[labels.index("Rate in its phase")].replace(",", ""))
            assert rate == pytest.approx(1000 * result.peak.clients / figures.response.mean_ms, rel=0.01)
    assert {column.unit for column in tables["clients"].columns[2:6]} == {
        "operations/s per client",
        "operations/s",
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"threads": 4}, "threads: a file client has one thread"),
        ({"files": {"cache": "leases"}}, 'files.cache: must be "none"'),
        ({"files": {"metadata": None}}, "files.metadata: is missing"),
        ({"files": {"streams": {}}}, "files.streams: requires the workload streams"),
        ({"workload": "diskmix"}, "files.metadata: requires the workload metadata"),
    ],
)
def test_a_suite_says_what_metadata_needs(changes: dict[str, Any], said: str) -> None:
    document = suites.load("quick-metadata").model_dump()
    files = document["files"] | changes.pop("files", {})
    suite = Suite.model_validate(document | changes | {"files": files})
    found = "\n".join(
        f"{'.'.join(map(str, problem.path))}: {problem.message}" for problem in suite_problems(suite)
    )
    assert said in found if said else found == ""
