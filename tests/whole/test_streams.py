"""Streams as a workload: over a directory, NFS and SMB, with several blocks under way, and at a given rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from serverdyno.plan import suites
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.model import Suite
from serverdyno.report.build import build_from, source_of
from serverdyno.report.figures import histograms
from serverdyno.report.figures.invariants import contradictions
from serverdyno.report.figures.open_load import unaccounted
from serverdyno.store.experiment import Experiment
from support import reference_targets
from support.dyno_process import Home
from support.experiments import Listener, carried_out_plan
from support.reference_servers import start_nfs
from support.reference_targets import counts, directory, nfs, smb

BLOCK_BYTES = 16 * 2**10
FILE_BYTES = 32 * BLOCK_BYTES
STREAMS = {"workload": "streams", "cache": "none", "file_bytes": FILE_BYTES, "block_bytes": BLOCK_BYTES}


def mixed(to: _native.Target, *, files: dict[str, Any] | None = None, **shape: Any) -> dict[str, Any]:
    """Run a level with as many readers as writers, unless `files` differs."""
    return reference_targets.mixed(to, STREAMS | {"writers_percent": 50} | (files or {}), **shape)


def check_whole(result: dict[str, Any]) -> None:
    """Check that no client failed, both sides worked, and every block that was read was compared."""
    assert result["errors"] == []
    assert result["clients_participating"] == result["clients_planned"]
    found = counts(result)
    assert found["read"] > 0 and found["write"] > FILE_BYTES // BLOCK_BYTES and found["flush"] > 0
    assert result["bytes_read"] == found["read"] * BLOCK_BYTES
    assert result["bytes_checked"] is not None and result["bytes_checked"] >= result["bytes_read"]


def test_a_directory_is_read_and_written_and_left_as_it_was(tmp_path: Path) -> None:
    to = directory(tmp_path)
    result = mixed(to, files={"random": True, "keep_workspace": False})
    check_whole(result)
    requests = {row["request"]: row["count"] for row in result["requests"]}
    assert requests["fsync"] >= counts(result)["flush"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("server", [nfs, smb])
def test_several_blocks_may_be_under_way_and_each_is_a_request(server: Any, threads: int) -> None:
    with server() as (to, _):
        result = mixed(to, threads=threads, files={"random": threads > 1}, ramp_up_s=0.2)
    check_whole(result)
    # Little's law: from the first block to the last, each place in the queue is always taken.
    places = result["clients_planned"] * threads * result["window_s"]
    assert result["outstanding_s"] == pytest.approx(places, rel=0.05)
    requests = {row["request"]: row["count"] for row in result["requests"]}
    assert sum(requests.get(name, 0) for name in ("READ", "WRITE")) >= counts(result)["read"]
    if server is nfs:
        assert requests["COMMIT"] >= counts(result)["flush"] > 0


@pytest.mark.parametrize("threads", [1, 4])
def test_blocks_of_wrong_content_are_errors(threads: int) -> None:
    with nfs(fault="wrong-content") as (to, _):
        result = mixed(to, threads=threads, files={"writers_percent": 0}, length_s=0.5)
    assert {error["fault"] for error in result["errors"]} == {"wrong_content"}


@pytest.mark.parametrize("threads", [1, 4])
def test_a_server_that_is_started_anew_may_have_lost_what_was_not_flushed(threads: int) -> None:
    # NFS's write verifier shows a restart: writers reopen their files and continue, and readers lose nothing.
    with nfs() as (to, server):
        result = mixed(
            to, threads=threads, length_s=3.0, leave_after_errors=100, clients=4, meanwhile=server.restart
        )
    assert {error["fault"] for error in result["errors"]} == {"session_lost"}
    failed = sum(error["count"] for error in result["errors"])
    assert 2 <= failed <= 2 * threads + 2
    assert counts(result)["open"] == 2
    assert result["clients_participating"] == 4


@pytest.mark.parametrize(
    ("files", "shape", "said"),
    [
        ({"cache": "leases"}, {}, "client.cache: must be none"),
        ({"block_bytes": 3000}, {}, "workload.file_bytes: out of bounds"),
        ({"writers_percent": 101}, {}, "workload.writers_percent: out of bounds"),
        ({}, {"threads": 32}, "threads: "),
        ({}, {"threads": 2, "think_time_s": 0.1}, "threads: must be 1 for files if"),
        ({}, {"threads": 2, "rate_per_s": 100.0}, "threads: must be 1 for files if"),
        ({}, {"threads": 2, "max_rate_per_s": 100.0}, "threads: must be 1 for files if"),
    ],
)
def test_what_streams_can_not_do_is_refused(files: dict[str, Any], shape: dict[str, Any], said: str) -> None:
    with nfs() as (to, _), pytest.raises(ValueError, match=said):
        mixed(to, files=files, **shape)


def test_a_directory_has_one_block_under_way_a_client(tmp_path: Path) -> None:
    to = directory(tmp_path)
    with pytest.raises(ValueError, match="threads: must be 1 for a directory"):
        mixed(to, threads=2)


@pytest.mark.parametrize("law", ["poisson", "uniform"])
def test_blocks_that_come_at_a_rate_of_their_own_are_counted_to_the_operation(law: str) -> None:
    with nfs() as (to, _):
        result = mixed(to, rate_per_s=200.0, law=law, clients=4)
    if law == "uniform":
        assert result["arrivals"] == 200
    failed = sum(error["count"] for error in result["errors"])
    assert result["arrivals"] == result["operations_total"] + failed + result["overdue_at_end"]
    assert failed == 0 and result["dropped"] == 0


def test_a_server_that_is_away_for_a_second_reads_as_a_second() -> None:
    # A third of all requests wait for the server, the first one the longest.
    with nfs() as (to, server):
        result = mixed(
            to,
            files={"writers_percent": 0},
            rate_per_s=400.0,
            clients=4,
            length_s=3.0,
            leave_after_errors=1000,
            meanwhile=lambda: server.restart(outage_s=1.0),
        )
    times = histograms.times([result["response_time_hdr"]])
    assert times is not None
    assert (times.percentiles_ms[histograms.QUANTILES.index(0.99)] or 0) >= 800


SUITE = """
name = "short"
title = "Short"
source = "a test"
workload = "streams"
clients = {clients}
threads = {threads}
length_s = 1.3
{rest}
[files]
cache = "none"
[files.streams]
file_bytes = 1048576
block_bytes = 16384
"""
PLAN = """
name = "streams"
title = "Streams"
suite = "./short.toml"
repetitions = 1

[[servers]]
server = "reference-nfs"
"""


@pytest.mark.parametrize(
    ("clients", "threads", "rest"),
    [
        ([1, 2], 4, ""),
        ([4], 1, "[open]\nrate_per_s = [100, 200]\n"),
        ([4], 1, "[open]\npercent_of_peak = [1, 2]\n"),
    ],
)
def test_an_experiment_runs_from_plan_to_report(
    tmp_path: Path, clients: list[int], threads: int, rest: str
) -> None:
    (tmp_path / "short.toml").write_text(SUITE.format(clients=clients, threads=threads, rest=rest))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    listener = Listener()
    assert carried_out_plan(plan, tmp_path / "e", listener), listener.failures
    with Experiment.open(tmp_path / "e") as kept:
        records = kept.levels()
        made = build_from(source_of(kept))
    assert len(records) == 2
    for record in records:
        assert record.errors == [] and record.operations > 0
        assert contradictions(record, None, closed=not rest) == []
        assert unaccounted(record) == 0
    if not rest:
        return
    # Answers are shown in operations, like arrivals, and not in Mbit/s like the throughput of files.
    [table] = [each for each in made.tables if each.key == "open"]
    came, answered = (
        next(place for place, column in enumerate(table.columns) if column.label == name)
        for name in ("Arrival rate", "Answered")
    )
    assert table.columns[came].unit == table.columns[answered].unit == "operations/s"
    for row in table.rows:
        rates = [float(row[place].text.split()[0].replace(",", "")) for place in (came, answered)]
        # A busy machine answers late; a figure in Mbit/s would be an eighth.
        assert rates[1] == pytest.approx(rates[0], rel=0.5)


def problems(**changes: Any) -> str:
    """Return the problems of the shipped suite with these changes."""
    document = suites.load("quick-streams").model_dump()
    files = document["files"] | changes.pop("files", {})
    suite = Suite.model_validate(document | changes | {"files": files})
    return "\n".join(f"{'.'.join(map(str, found.path))}: {found.message}" for found in suite_problems(suite))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"threads": 4}, ""),
        ({"threads": 4, "think_time_s": 0.1}, "threads: must be 1 if operations are scheduled"),
        (
            {"threads": 4, "files": {"operations_per_client_s": 5.0}},
            "threads: must be 1 if operations are scheduled",
        ),
        ({"files": {"cache": "leases"}}, 'files.cache: must be "none"'),
        (
            {"files": {"streams": None}},
            "files.streams: is missing, but the workload streams requires it",
        ),
        ({"workload": "diskmix"}, "files.streams: requires the workload streams"),
        ({"files": {"streams": {"file_bytes": 100_000}}}, "files.streams.file_bytes: must be 2 to"),
    ],
)
def test_a_suite_says_what_streams_need(changes: dict[str, Any], said: str) -> None:
    found = problems(**changes)
    assert said in found if said else found == ""


def test_a_server_that_takes_less_at_once_than_a_block_is_told_with_its_limit(home: Home) -> None:
    server = start_nfs(max_transfer_bytes=65536)
    try:
        url = f"nfs://127.0.0.1:{server.port}/volume1?nfsport={server.port}&mountport={server.port}"
        done = home.here("scenario", "streams", "-d", url, "--scale", "0.02")
    finally:
        server.stop()
    assert done.returncode == 1 and "allows reads and writes of at most 65536 bytes" in done.stderr, (
        done.stderr
    )
    assert "is writable" not in done.stderr and "the right to create" not in done.stderr
    assert (
        "hint: Raise the server's limit (Samba: smb2 max read, smb2 max write; Ganesha: MaxRead, MaxWrite)"
        in done.stderr
    )


def test_a_suite_with_blocks_larger_than_the_server_takes_is_told_the_same(
    home: Home, tmp_path: Path
) -> None:
    server = start_nfs(max_transfer_bytes=8192)
    try:
        url = f"nfs://127.0.0.1:{server.port}/volume1?nfsport={server.port}&mountport={server.port}"
        plan = tmp_path / "p.toml"
        plan.write_text(
            f'name = "p"\nsuite = "quick-streams"\nrepetitions = 1\n[[servers]]\nserver = "external"\nurl = "{url}"\n'
        )
        done = home.here("run", plan, "--scale", "0.3", "--into", tmp_path / "e")
    finally:
        server.stop()
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "allows reads and writes of at most 8192 bytes" in said, said
    assert "Raise the server's limit" in said and "the right to create" not in said
