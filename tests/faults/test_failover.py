"""Failover as a workload: during a load level, servers are killed and restarted, or connections are cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benches.levels import directory_target, files_level, smb_target

from serverdyno import _native
from serverdyno.plan import suites
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.model import Level, Suite
from serverdyno.plan.protocols.work import Cut
from serverdyno.report.build import build_from, source_of
from serverdyno.report.figures.invariants import contradictions
from serverdyno.report.subjects.outages import back_s, went_on
from serverdyno.run.outage import Outage
from serverdyno.servers.samba import Samba
from serverdyno.store.experiment import Experiment
from support.disk_mix import target
from support.dyno_process import Home
from support.experiments import Listener, carried_out_plan
from support.file_server import PATIENCE_S, samba
from support.nfs_server import ganesha
from support.nfs_server import target as nfs_target
from support.reference_servers import start_smb

CLIENTS, BLOCKS, OPERATIONS = 3, 8, 200
LENGTH_S, CUT_PERCENT = 100.0, 1
CUT_S = LENGTH_S * CUT_PERCENT / 100
WHOLE_S = 5.0
"""Several times a server's restart time on a busy machine."""
KEPT = {
    "workload": "failover",
    "blocks": BLOCKS,
    "block_bytes": 4096,
    "writes_per_flush": 4,
    "cut_connections_percent": None,
    "cache": "none",
}


def test_an_outage_begins_after_its_share_of_the_window_whatever_the_ramps() -> None:
    level = Level(
        1, "1_client", 1, 1, length_s=10.0, ramp_up_s=1.0, ramp_down_s=3.0, delay_s=0.0, think_time_s=0.0
    )
    server: Any = None  # clients cut their own connections
    outage = Outage(Cut("connections", percent=50, away_s=0.0), server, level)
    outage.look(3.9)
    assert outage.at_s() is None
    outage.look(4.1)
    assert outage.at_s() == 4.0


def mixed(
    to: _native.Target, cut: Callable[[], object] | None, clients: int = CLIENTS, **files: Any
) -> dict[str, Any]:
    """Run a level until many operations were done both before and after `cut`.

    It is then stopped, so nothing is read back.
    """
    shape = {"clients": clients, "threads": 1, "length_s": LENGTH_S, "timeout_s": PATIENCE_S}
    load = files_level(to, KEPT | files, None, leave_after_errors=None, **shape).start()

    def until(operations: int) -> None:
        while load.snapshot()["operations"] < operations:
            assert not load.wait(0.02), load.result()["errors"]

    until(OPERATIONS)
    if cut is not None:
        cut()
    elif files:
        while load.snapshot()["elapsed_s"] < CUT_S:
            assert not load.wait(0.02), load.result()["errors"]
    # Too many for one client to have done them all while the others were away.
    until(load.snapshot()["operations"] + 20 * OPERATIONS)
    load.stop()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def mixed_to_the_end(to: _native.Target, cut: Callable[[], object]) -> dict[str, Any]:
    """Run a level to its end and read everything back; `cut` is called in its middle."""
    shape = {"clients": CLIENTS, "threads": 1, "length_s": WHOLE_S, "timeout_s": PATIENCE_S}
    load = files_level(to, KEPT, None, leave_after_errors=None, **shape).start()
    while load.snapshot()["operations"] < OPERATIONS:
        assert not load.wait(0.02), load.result()["errors"]
    cut()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def failover(result: dict[str, Any]) -> dict[str, Any]:
    assert "handles_asked" in result
    return result


def check_nothing_lost(result: dict[str, Any], read_back: int = 0) -> None:
    found = failover(result)
    assert {error["side"] for error in result["errors"]} <= {"server", "network"}, result["errors"]
    assert found["blocks_lost"] == found["blocks_wrong"] == 0
    assert found["blocks_read_back"] == read_back


def check_all_back(result: dict[str, Any], *, went_on: bool) -> None:
    """Check that each client had an outage, and kept its open file if `went_on`.

    A server that is being killed may accept a client once more.
    """
    outages = failover(result)["outages"]
    assert {outage["client"] for outage in outages} == set(range(CLIENTS))
    assert {outage["session_lost"] for outage in outages} == {not went_on}
    assert all(outage["back_s"] > outage["last_s"] > 0 for outage in outages)
    if went_on:
        assert result["errors"] == []


def durable(server: Samba, **section: Any) -> _native.Target:
    return target(server, durable_handles=True, **section)


def test_samba_keeps_durable_handles_over_a_cut_connection() -> None:
    with samba() as server:
        result = mixed(durable(server), None, cut_connections_percent=CUT_PERCENT)
    found = failover(result)
    check_all_back(result, went_on=True)
    check_nothing_lost(result)
    assert found["handles_asked"] == found["handles_granted"] == found["handles_regained"] == CLIENTS
    assert (found["handles_persistent"], found["handles_lost"]) == (0, 0)


def test_where_samba_grants_no_durable_handle_the_file_is_opened_again() -> None:
    with samba({"durable_handles": False}) as server:
        result = mixed(durable(server), None, cut_connections_percent=CUT_PERCENT)
    found = failover(result)
    check_all_back(result, went_on=False)
    check_nothing_lost(result)
    assert found["handles_asked"] == 2 * CLIENTS
    assert found["handles_granted"] == found["handles_regained"] == 0


@pytest.mark.parametrize("how", ["processes", "server"])
def test_samba_loses_durable_handles_with_its_processes_and_nothing_that_was_flushed(how: str) -> None:
    with samba() as server:
        before = server.pids()
        result = mixed_to_the_end(durable(server), lambda: server.cut_off(how, 0.1))
        assert server.was_cut_off_ns() is not None
        assert (before[0] in server.pids()) == (how == "processes")
        server.check()
    found = failover(result)
    check_all_back(result, went_on=False)
    check_nothing_lost(result, CLIENTS * BLOCKS)
    assert found["handles_regained"] == 0 and found["handles_lost"] >= CLIENTS


def test_ganesha_is_killed_and_nothing_that_was_flushed_is_lost() -> None:
    with ganesha() as server:
        result = mixed_to_the_end(nfs_target(server), lambda: server.cut_off("server", 0.1))
        server.check()
    check_nothing_lost(result, CLIENTS * BLOCKS)
    assert {outage["client"] for outage in failover(result)["outages"]} == set(range(CLIENTS))
    assert failover(result)["handles_asked"] == 0


def reference(cut: str, clients: int = CLIENTS, **options: Any) -> dict[str, Any]:
    """Run a level against the reference server, which cuts its connections or restarts."""
    server = start_smb(**options)
    try:
        url = f"smb://127.0.0.1:{server.port}/"
        to = smb_target(url, shares=["volume1"], durable_handles=True)
        ways = {"connections": server.cut_connections, "server": lambda: server.restart(outage_s=0.1)}
        return mixed(to, ways[cut], clients)
    finally:
        server.stop()


@pytest.mark.parametrize("cut", ["connections", "server"])
def test_a_continuously_available_share_keeps_all(cut: str) -> None:
    result = reference(cut, continuously_available=True)
    check_all_back(result, went_on=True)
    check_nothing_lost(result)
    found = failover(result)
    assert found["handles_persistent"] == found["handles_regained"] == CLIENTS


def test_a_server_that_forgets_its_handles_is_found_out() -> None:
    result = reference("connections", fault="forgotten-handles")
    check_all_back(result, went_on=False)
    found = failover(result)
    assert (found["handles_regained"], found["handles_lost"]) == (0, CLIENTS)
    assert found["blocks_lost"] == 0


def test_a_server_that_undoes_what_it_acknowledged_is_found_out() -> None:
    # With so many clients, at least one reads a block before writing it again.
    result = reference("connections", clients=32, fault="undone-writes")
    assert "stale_content" in {error["fault"] for error in result["errors"]}


SUITE = """
name = "short"
title = "Short"
source = "a test"
workload = "failover"
clients = [2, 4]
length_s = 2
timeout_s = 30
leave_after_errors = 100
[files]
cache = "none"
[files.failover]
blocks = 8
cut_percent = 20
away_s = 0.2
[smb]
durable_handles = true
"""
PLAN = """
name = "kept"
title = "Kept"
suite = "./short.toml"
repetitions = 1

[[servers]]
server = "reference-smb"
settings = { continuously_available = true, outage_s = 0.2 }
"""


def test_an_experiment_runs_from_plan_to_report_and_says_what_the_outage_cost(tmp_path: Path) -> None:
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
        assert contradictions(record, None, closed=True) == []
        assert record.cut_at_s is not None and 0 < record.cut_at_s < record.length_s
        assert len(back_s(record)) == went_on(record) == record.clients
        assert min(back_s(record)) > 0
        assert record.blocks_read_back == 8 * record.clients
        assert (record.blocks_lost, record.blocks_wrong, record.unflushed_lost) == (0, 0, 0)
    tables = {each.key: each for each in made.tables}
    assert [row[3].text for row in tables["outages"].rows] == ["2 of 2", "4 of 4"]
    assert [row[5].text for row in tables["handles"].rows] == ["2", "4"]


def test_connections_are_cut_in_levels_and_not_at_the_look_before_them(tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(
        SUITE.replace("away_s = 0.2", 'cut = "connections"').replace("[2, 4]", "[2]")
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("continuously_available = true", "durable_handles = false"))
    listener = Listener()
    assert carried_out_plan(plan, tmp_path / "e", listener), listener.failures
    with Experiment.open(tmp_path / "e") as kept:
        records = kept.levels()
    assert [(len(back_s(record)), went_on(record)) for record in records] == [(2, 0)]


def test_a_plan_says_which_servers_can_be_taken_away(home: Home, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(SUITE.replace("away_s = 0.2", 'cut = "processes"'))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    done = home.here("plan", "check", plan)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert 'files.failover.cut = "processes" of the suite is not possible with this server' in said
    assert 'use "connections" or "server"' in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"files": {"cache": "leases"}}, 'files.cache: must be "none"'),
        ({"files": {"failover": None}}, "files.failover: is missing"),
        ({"workload": "diskmix"}, "files.failover: requires the workload failover"),
    ],
)
@pytest.mark.parametrize("name", ["quick-failover", "quick-failover-connections"])
def test_a_suite_says_what_failover_needs(name: str, changes: dict[str, Any], said: str) -> None:
    document = suites.load(name).model_dump()
    files = document["files"] | changes.get("files", {})
    suite = Suite.model_validate(document | changes | {"files": files})
    found = "\n".join(f"{'.'.join(map(str, each.path))}: {each.message}" for each in suite_problems(suite))
    assert said in found if said else found == ""


def test_below_a_directory_there_is_no_server_to_lose(tmp_path: Path) -> None:
    to = directory_target(f"file://{tmp_path}")
    with pytest.raises(ValueError, match="a directory has no server"):
        mixed(to, None)
