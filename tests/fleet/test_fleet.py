"""Real nodes on Dask distributed generate one load: the same operations, one start, every request counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benches.levels import http_target
from hypothesis import given
from hypothesis import strategies as st

from serverdyno import _native
from serverdyno.errors import DynoError, UserError
from serverdyno.fleet.contract import Node
from serverdyno.fleet.facts import node_facts
from serverdyno.fleet.fleet import placed
from serverdyno.fleet.membership import differences, fleet_at
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.report.subjects.disclosure import disclosure
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S, Home
from support.experiments import Listener, carried_out
from support.fleet_level import CLIENTS, carried, level
from support.fleet_nodes import NAMES, RunningFleet
from support.records import NODE, PLAN_TEXT, make_head, make_record
from support.reference_servers import start_http

NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}


@pytest.fixture
def server() -> Iterator[_native.ReferenceServer]:
    server = start_http()
    try:
        yield server
    finally:
        server.stop()


def target_of(server: _native.ReferenceServer) -> _native.Target:
    return http_target(f"http://127.0.0.1:{server.port}/")


@given(weights=st.lists(st.integers(1, 6), min_size=1, max_size=5), clients=st.integers(1, 60))
def test_every_client_is_dealt_to_one_node_whatever_the_weights(weights: list[int], clients: int) -> None:
    nodes: list[Node] = [object()] * len(weights)  # type: ignore[list-item]  # none of them is asked anything
    found: list[int] = []
    for place in placed(nodes, weights):
        part = place.part(clients)
        run, step = part["client_run"], part["client_step"]
        found += [part["client_offset"] + step * (n // run) + n % run for n in range(part["clients"])]
    assert sorted(found) == list(range(clients))


def test_three_nodes_do_what_one_process_does_and_the_server_counts_their_sum(
    fleet: RunningFleet, server: _native.ReferenceServer
) -> None:
    target = target_of(server)
    load = _native.prepare(json.dumps(level(target)), target).start()
    assert load.wait(PATIENCE_S)
    alone, before = load.result(), server.requests
    with fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS) as nodes:
        together = carried(nodes, level(target))
        figures = nodes.figures
    assert together["errors"] == []
    assert together["digests"] == alone["digests"]
    assert len(together["digests"]) == CLIENTS
    assert [each.node for each in figures] == [f"node {name}" for name in NAMES]
    assert sum(each.result.clients_planned for each in figures) == CLIENTS
    totals = [each.result.operations_total for each in figures]
    assert min(totals) > 0
    assert server.requests - before == sum(totals) == together["operations_total"]
    assert all(each.result.start_late_s is not None for each in figures)
    assert together["generator_processes"] == len(NAMES)


def test_a_bound_is_of_all_nodes_together(fleet: RunningFleet, server: _native.ReferenceServer) -> None:
    target = target_of(server)
    with fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS) as nodes:
        bounded = carried(nodes, level(target, max_rate_per_s=40.0))
    assert 1 <= bounded["operations_total"] <= 40


def test_clients_are_dealt_out_by_stated_weights(
    fleet: RunningFleet, server: _native.ReferenceServer
) -> None:
    target = target_of(server)
    stated = GeneratorPlan(weights={"a": 1, "b": 2, "c": 4})
    with fleet_at(fleet.path, stated, target, NO_SECRETS) as nodes:
        carried(nodes, level(target, clients=14))
        assert [each.result.clients_planned for each in nodes.figures] == [2, 4, 8]
    with (
        pytest.raises(UserError, match="weights names a, but a, b, c generate the load"),
        fleet_at(fleet.path, GeneratorPlan(weights={"a": 1}), target, NO_SECRETS),
    ):
        pass


def test_a_node_on_the_machine_of_its_controller_is_not_pinned_though_it_is_alone(
    fleet: RunningFleet, server: _native.ReferenceServer
) -> None:
    for apart in ((), NAMES[1:]):
        with fleet_at(fleet.path, GeneratorPlan(), target_of(server), NO_SECRETS, apart) as nodes:
            assert [place.cpus for place in nodes.places] == [()] * (len(NAMES) - len(apart))


def test_a_node_has_one_controller_at_a_time(
    home: Home, fleet: RunningFleet, server: _native.ReferenceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serverdyno.fleet.membership.LEASE_S", 0.1)  # the first one does not leave
    target = target_of(server)
    with fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS):
        with (
            pytest.raises(DynoError, match="node a is in use by another controller"),
            fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS),
        ):
            pass
        told = home.here("fleet", "status", fleet.path, COLUMNS="200")
    assert told.stdout.count("in use") == len(NAMES), told.stdout + told.stderr


def test_a_plan_keeps_what_each_node_did_and_which_nodes_there_were(
    fleet: RunningFleet, tmp_path: Path
) -> None:
    folder, listener = tmp_path / "e", Listener()
    suite = Suite(name="tiny", source="a test", workload="webbench-static", clients=[2, 5], length_s=0.5)
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=[ServerPlan(server="reference")],
        generator=GeneratorPlan(fleet=str(fleet.path)),
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    assert carried_out(folder, listener), listener.failures
    experiment = Experiment.open(folder)
    for record in experiment.levels():
        # Two clients are on two nodes.
        assert len(record.nodes) == min(record.clients, len(NAMES))
        assert sum(row.operations_total for row in record.nodes) == record.operations_total
        assert sum(row.operations for row in record.nodes) == record.operations
    [note] = experiment.run_notes().values()
    assert note.requests_by_server_count == note.requests_answered
    before = experiment.disclosure()["fleet"]
    [entry] = [shown for shown in disclosure({"fleet": before}) if shown.title.startswith("Fleet")]
    assert entry.title == "Fleet: nodes a, b and c"
    assert [node["node"] for node in experiment.disclosure()["fleet"]["nodes"]] == list(NAMES)
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"PRIVATE KEY" not in written
    assert b"CERTIFICATE" not in written


def test_status_names_every_node_and_what_it_has(home: Home, fleet: RunningFleet) -> None:
    told = home.here("fleet", "status", fleet.path, COLUMNS="200")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "3 of 3 nodes" in told.stdout
    facts = node_facts()
    lines = {line.split()[0]: line.split() for line in told.stdout.splitlines() if line}
    assert lines["node"] == [
        "node",
        "host",
        "CPUs",
        "version",
        "clock",
        "error",
        "links",
        "free",
        "MiB",
        "state",
    ]
    for name in NAMES:
        assert lines[name][1:4] == [facts["host"], str(len(facts["cpus"])), facts["build"]["version"]]
        assert float(lines[name][4]) >= 0
        assert lines[name][5] == "ms"
        assert all(link in lines[name] for link in facts["links"])
        assert int(lines[name][-2].replace(",", "")) > 0
        assert lines[name][-1] == "free"


def test_the_load_of_a_command_is_made_by_the_nodes_of_a_fleet(
    home: Home, fleet: RunningFleet, server: _native.ReferenceServer, tmp_path: Path
) -> None:
    folder, url = tmp_path / "e", f"http://127.0.0.1:{server.port}/wbtree/223/223_0000.gif"
    options = ("--clients", "6", "--length", "2", "--into", folder, "--fleet", fleet.path)
    done = home.here("load", url, *options)
    assert done.returncode == 0, done.stderr
    [record] = Experiment.open(folder).levels()
    assert [(row.node, row.clients) for row in record.nodes] == [(f"node {name}", 2) for name in NAMES]
    assert sum(row.operations_total for row in record.nodes) == record.operations_total > 0


def test_another_build_or_other_settings_keep_a_node_out() -> None:
    facts = {name: node_facts() | {"in_use": False} for name in ("a", "b", "c", "d")}
    assert [*differences(facts)] == []
    facts["b"]["build"] = facts["b"]["build"] | {"version": "0.0.1"}
    facts["c"]["build"] = facts["c"]["build"] | {"data_plane_sha256": "0" * 64}
    machine = facts["d"]["machine"]
    sysctls = machine["sysctls"] | {"net.ipv4.tcp_congestion_control": "vegas"}
    facts["d"]["machine"] = machine | {"sysctls": sysctls}
    said = [*differences(facts)]
    assert [line.split(" is ")[0].split(" has ")[0] for line in said] == [
        "node b",
        "node c",
        "net.ipv4.tcp_congestion_control",
    ]


def test_a_record_of_a_node_whose_clock_is_behind_is_kept_as_it_is(tmp_path: Path) -> None:
    row = replace(NODE, clock_offset_s=-180.0)
    with Experiment.create(tmp_path / "e", PLAN_TEXT, make_head()) as experiment:
        experiment.write_level(make_record(experiment.head.order[0], 1, nodes=[row]))
        assert [found.nodes for found in experiment.levels()] == [[row]]
