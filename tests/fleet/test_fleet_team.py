"""A team on several nodes of a fleet, each a separate host: the front on one, its backs on others.

The other hosts generate the load. With real servers, this tests consent, proofs, figures by member, and the error when
a node is lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno.errors import DynoError, PlanError
from serverdyno.fleet.testbed.standing import StandingTestbed, standing
from serverdyno.plan.load import parse_plan
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.plan.protocols.documents import DocumentsSettings
from serverdyno.plan.testbed import of_option
from serverdyno.report.subjects.disclosure import disclosure
from serverdyno.run.create import create_experiment
from serverdyno.servers.registry import settings_types
from serverdyno.store.experiment import Experiment
from support.dynamic_page import BOTH
from support.dyno_process import PATIENCE_S, ended, wait_until
from support.experiments import Breaker, Listener, carried_out
from support.fleet_nodes import look_often
from support.teams import named, team_of

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made as root")
FRONT, BACKS, LOAD = "lan-1", ["lan-2", "lan-3"], {"node lan-4"}
TEAMS: list[dict[str, Any]] = [
    {"front": "nginx", "back": "lighttpd", "backs": 2, "dynamic": "in-process", **BOTH},
    {"front": "haproxy", "back": "nginx", "backs": 3, "dynamic": "fastcgi", "tls_by": "back", **BOTH},
    {"front": "varnish", "back": "apache", "backs": 2, "dynamic": "fastcgi", "tls_by": "back", **BOTH},
]


@pytest.fixture(scope="module")
def testbed() -> Iterator[StandingTestbed]:
    """Create a testbed of four hosts whose temporary directories the servers' workers can enter."""
    with standing(of_option("namespaces:4")) as made:
        made.fleet.path.parent.chmod(0o711)
        yield made


def planned(folder: Path, fleet: Path, settings: dict[str, Any], clients: list[int]) -> Path:
    documents = DocumentsSettings(
        dynamic_share=0.3, secure_share=0.2, dynamic_share_of_secure=0.5, carrier="any"
    )
    shape: dict[str, Any] = {
        "workload": "webbench-dynamic",
        "length_s": 1.0,
        "think_time_s": 0.01,
        "sections": {"documents": documents},
    }
    suite = Suite(name="tiny", source="a test", clients=clients, **shape)
    team = ServerPlan(server="team", node=FRONT, back_nodes=BACKS, settings=team_of(settings))
    generator = GeneratorPlan(fleet=str(fleet))
    plan = Plan(name="tiny", suite="tiny", repetitions=1, servers=[team], generator=generator)
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def servers_of(testbed: StandingTestbed, host: str) -> list[psutil.Process]:
    """Return the processes that the node of a host has started."""
    nodes = [process for process in testbed.hosts[host].processes() if "node" in process.cmdline()]
    return [child for node in nodes for child in node.children(recursive=True)]


@as_root
@pytest.mark.parametrize("settings", TEAMS, ids=named)
def test_members_on_several_hosts_are_proven_measured_disclosed_and_stopped_where_they_are(
    testbed: StandingTestbed, tmp_path: Path, settings: dict[str, Any]
) -> None:
    listener = Listener()
    folder = planned(tmp_path / "e", testbed.fleet.path, settings, [4])
    assert carried_out(folder, listener), listener.failures
    experiment = Experiment.open(folder)
    [record] = experiment.levels()
    assert record.errors == []
    assert {row.node for row in record.nodes} == LOAD
    [note] = experiment.run_notes().values()
    members = [f"back {settings['back']} {number}" for number in range(1, settings["backs"] + 1)]
    assert note.cpu_by_member_s is not None
    assert list(note.cpu_by_member_s) == [f"front {settings['front']}", *members]
    assert all(seconds is not None for seconds in note.cpu_by_member_s.values())
    assert record.server_cpu_s is not None and record.server_cpu_s > 0
    [described] = experiment.disclosure()["servers"].values()
    [proof] = [line for line in described["notes"] if "each server behind" in line]
    assert proof.count("10.") == settings["backs"], proof
    for number, member in enumerate(members):
        node = BACKS[number % len(BACKS)]
        assert f"{member}: Runs on node {node} of the fleet." in described["notes"]
        assert any(file.startswith(f"{member}/") for file in described["files"])
    kept = experiment.disclosure()
    assert {each["node"] for each in kept["fleet"]["serving"]} == {FRONT, *BACKS}
    assert any("lan-2 (server)" in entry.title for entry in disclosure(kept))
    for host in (FRONT, *BACKS):
        assert servers_of(testbed, host) == []


@as_root
def test_a_back_that_ends_and_a_node_that_is_lost_are_named_with_what_ran_there(
    testbed: StandingTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This test must be the last that uses the testbed, because it kills a node.
    look_often(monkeypatch)
    settings = TEAMS[0]

    def kill_server(testbed: StandingTestbed) -> None:
        killed = servers_of(testbed, BACKS[1])
        for process in killed:
            process.kill()
        # A keeper stays a zombie until its node is asked again, which happens after this.
        wait_until(lambda: all(ended(process) for process in killed), "the servers end")

    def kill_node(testbed: StandingTestbed) -> None:
        [node] = [process for process in testbed.hosts[BACKS[1]].processes() if "node" in process.cmdline()]
        node.kill()
        node.wait(PATIENCE_S)

    assert "back lighttpd 2: node lan-3: lighttpd exited under load" in failure(
        testbed, tmp_path / "a", settings, kill_server
    )
    told = failure(testbed, tmp_path / "b", settings, kill_node)
    assert "node lan-3 is lost" in told and "back lighttpd 2" in told, told
    for host in (FRONT, BACKS[0]):
        assert servers_of(testbed, host) == []


def failure(
    testbed: StandingTestbed,
    folder: Path,
    settings: dict[str, Any],
    breaks: Callable[[StandingTestbed], None],
) -> str:
    """Return the error of a run in whose second level something breaks."""
    breaker = Breaker(lambda: breaks(testbed))
    planned(folder, testbed.fleet.path, settings, [2, 4])
    with contextlib.suppress(DynoError):  # the node is missing for the next run
        assert not carried_out(folder, breaker)
    assert Experiment.open(folder).finished() == {(1, 1)}
    return breaker.failures[0]


def test_a_plan_says_everything_that_is_wrong_with_the_nodes_of_a_team_at_once() -> None:
    text = 'name = "p"\nsuite = "quick-static"\n[generator]\nfleet = "lab"\n'
    servers = (
        'server = "nginx"\nname = "alone"\nnode = "a"\nback_nodes = ["b"]\n',
        'server = "team"\nname = "here"\nback_nodes = ["b"]\n',
        'server = "team"\nname = "many"\nnode = "a"\nback_nodes = ["b", "c"]\n',
        'server = "team"\nname = "own"\nnode = "a"\nback_nodes = ["b"]\nsettings = { front = "reference" }\n',
    )
    with pytest.raises(PlanError) as found:
        parse_plan(text + "".join(f"[[servers]]\n{server}" for server in servers), "plan", settings_types())
    told = "\n".join(found.value.problems)
    for words in (
        "nginx has no servers behind it",
        "name the front's node",
        "2 nodes, but the front has only 1 behind it (backs)",
        "own machine",
    ):
        assert words in told, told
