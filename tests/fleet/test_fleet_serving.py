"""A server runs on a node of the fleet: started, proven, measured and stopped there, and gone when its node is."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno.errors import DynoError, PlanError
from serverdyno.plan.load import parse_plan
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.report.build import source_of
from serverdyno.report.subjects import testbed as diagram
from serverdyno.report.subjects.disclosure import disclosure
from serverdyno.run.create import create_experiment
from serverdyno.servers.registry import settings_types
from serverdyno.store.experiment import Experiment
from support.dyno_process import INSTALLED, PATIENCE_S
from support.experiments import Breaker, Listener, carried_out
from support.fleet_nodes import NAMES, RunningFleet, look_often

SERVERS = [
    ServerPlan(server=name, node="c", settings={} if name == "reference" else {"access_log": True})
    for name in [*INSTALLED[:1], "reference"]
]
TEAM = ServerPlan(
    server="team",
    node="c",
    settings={"back": "lighttpd", "dynamic": "in-process", "front_settings": {"access_log": True}},
)


def planned(folder: Path, fleet: Path, servers: list[ServerPlan], **shape: Any) -> Path:
    wanted: dict[str, Any] = {"clients": [4], "length_s": 1.0}
    suite = Suite(name="tiny", source="a test", workload="webbench-static", **(wanted | shape))
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=servers,
        generator=GeneratorPlan(fleet=str(fleet)),
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def below(fleet: RunningFleet, name: str) -> list[psutil.Process]:
    """Return the processes that a node has started."""
    found: list[psutil.Process] = psutil.Process(fleet.nodes[name].pid).children(recursive=True)
    return found


class Witness(Listener):
    """Records which node has started which processes while a level runs."""

    def __init__(self, fleet: RunningFleet) -> None:
        super().__init__()
        self.fleet, self.seen = fleet, set[str]()

    def level_tick(self, snapshot: Any) -> None:
        self.seen |= {name for name in NAMES if below(self.fleet, name)}


def test_servers_run_on_their_node_are_measured_there_and_count_what_the_others_asked(
    fleet: RunningFleet, tmp_path: Path
) -> None:
    servers = [*SERVERS, *([TEAM] if {"nginx", "lighttpd"} <= set(INSTALLED) else [])]
    folder, witness = planned(tmp_path / "e", fleet.path, servers), Witness(fleet)
    assert carried_out(folder, witness), witness.failures
    assert witness.seen == {"c"}
    assert below(fleet, "c") == []
    experiment = Experiment.open(folder)
    for record in experiment.levels():
        assert {row.node for row in record.nodes} == {"node a", "node b"}
        assert record.errors == []
        assert record.server_cpu_s is not None and record.server_cpu_s > 0
        assert record.server_rss_bytes is not None and record.server_rss_bytes > 2**20
    for note in experiment.run_notes().values():
        assert note.requests_by_server_count == note.requests_answered
        if note.cpu_by_member_s:  # only of the team, which has several members
            assert note.cpu_by_member_s.keys() == {"front nginx", "back lighttpd"}
            assert note.cpu_by_member_s["front nginx"]
    described = experiment.disclosure()["servers"]
    assert {each["server"] for each in described.values()} == {plan.server for plan in servers}
    for each in described.values():
        assert each["notes"][0] == "Runs on node c of the fleet."
    assert {each["address"] for each in experiment.disclosure()["fleet"]["serving"]} == {"127.0.0.1"}
    [entry] = [each for each in disclosure(experiment.disclosure()) if each.title.startswith("Fleet")]
    assert entry.title == "Fleet: nodes a, b and c (server)"
    drawn = diagram.testbed(source_of(experiment))
    # The nodes may be anywhere: "this machine" would be the controller's.
    assert drawn.machine == ("Machines of the nodes", socket.gethostname())
    assert {(link.network, link.outside) for link in drawn.links} == {("HTTP, 127.0.0.1", True)}
    assert all("on node c" in link.server.lines for link in drawn.links)


def test_what_keeps_a_server_from_starting_on_its_node_is_told_with_the_node(
    fleet: RunningFleet, tmp_path: Path
) -> None:
    elsewhere = [ServerPlan(server="reference", node="c", address="192.0.2.1")]
    listener = Listener()
    assert not carried_out(planned(tmp_path / "e", fleet.path, elsewhere), listener)
    assert "node c: reference can't listen on 192.0.2.1" in listener.failures[0]
    stranger = [ServerPlan(server="reference", node="x")]
    assert not carried_out(planned(tmp_path / "f", fleet.path, stranger), listener)
    assert "the plan has servers on x, which the fleet" in listener.failures[1]


def test_a_lost_server_node_fails_the_run_takes_the_server_with_it_and_is_resumed(
    fleet: RunningFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_often(monkeypatch)
    monkeypatch.setattr("serverdyno.fleet.membership.PATIENCE_S", 1.0)
    servers = [ServerPlan(server=SERVERS[0].server, node="c", name=name) for name in ("one", "two")]
    folder = planned(tmp_path / "e", fleet.path, servers, clients=[2, 4], length_s=1.0, think_time_s=0.01)
    left: list[psutil.Process] = []

    def kill() -> None:
        left.extend(below(fleet, "c"))
        fleet.kill("c")

    breaker = Breaker(kill)
    with pytest.raises(DynoError, match="c of the 3 nodes of the fleet lab have not joined"):
        carried_out(folder, breaker)
    assert "node c is lost: it has ended" in breaker.failures[0]
    assert left
    assert psutil.wait_procs(left, timeout=PATIENCE_S)[1] == []
    assert Experiment.open(folder).finished() == {(1, 1)}
    fleet.start_nodes(["c"])
    monkeypatch.setattr("serverdyno.fleet.membership.PATIENCE_S", PATIENCE_S)
    last = Listener()
    assert carried_out(folder, last), last.failures


def test_a_server_that_is_killed_on_its_node_ends_its_level(fleet: RunningFleet, tmp_path: Path) -> None:
    name, length_s = SERVERS[0].server, 60.0
    folder = planned(tmp_path / "e", fleet.path, SERVERS[:1], length_s=length_s)

    class Killer(Breaker):
        """Kills the server in its only level, and remembers how far that level came."""

        elapsed_s = 0.0

        def level_tick(self, snapshot: Any) -> None:
            super().level_tick(snapshot)
            self.elapsed_s = snapshot["elapsed_s"]

    def kill() -> None:
        [keeper] = psutil.Process(fleet.nodes["c"].pid).children()
        [server] = keeper.children()
        server.kill()

    killer = Killer(kill, level=1)
    assert not carried_out(folder, killer)
    [failure] = killer.failures
    assert f"node c: {name} exited under load.\nThe server ended by signal 9." in failure
    assert 0 < killer.elapsed_s < length_s
    assert below(fleet, "c") == []


def test_a_plan_says_everything_that_is_wrong_with_a_node_at_once() -> None:
    text = (
        'name = "p"\nsuite = "quick-static"\n[[servers]]\nserver = "varnish"\nnode = "s"\naddress = "here"\n'
    )
    with pytest.raises(PlanError) as found:
        parse_plan(text, "plan", settings_types())
    told = "\n".join(found.value.problems)
    for words in ("the plan has none", "varnish can't run on a node", '"here" is not an IP address'):
        assert words in told, words
