"""A testbed of network namespaces, which leaves nothing behind.

Links carry what their rates allow, clocks are hours apart, and cut links are reported.
"""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from serverdyno import _native
from serverdyno.errors import DynoError, PlanError, UserError
from serverdyno.fleet.testbed import standing
from serverdyno.fleet.testbed.hosts import Host
from serverdyno.fleet.testbed.network import SERVER, SERVICE, network_of
from serverdyno.plan import protocols
from serverdyno.plan.load import load_plan, parse_plan
from serverdyno.plan.model import Plan, RunKey, ServerPlan, Suite
from serverdyno.plan.protocols.documents import DocumentsSettings
from serverdyno.plan.protocols.http import HTTP
from serverdyno.plan.protocols.nfs import NFS
from serverdyno.plan.protocols.smb import SMB
from serverdyno.plan.testbed import Subnet, Testbed, of_option
from serverdyno.run.create import create_experiment
from serverdyno.servers.local import LocalServer
from serverdyno.servers.registry import DRIVERS, settings_types
from serverdyno.servers.running import running
from serverdyno.servers.team import Team
from serverdyno.store.experiment import Experiment
from support import node_starts
from support.dynamic_page import BOTH
from support.dyno_process import INSTALLED, PATIENCE_S, Home, wait_for_line
from support.experiments import Listener, carried_out
from support.fleet_nodes import look_often
from support.teams import TEAMS, team_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made as root")

RATE_MBIT_S = 4.0
FRAME_BYTES = 66  # headers of Ethernet (14), IPv4 (20), TCP (20 and a time stamp of 12) per segment
SEGMENT_BYTES = 1448
OFFSETS_S = [7200.05, -60.0]
"""Clock offsets. The second clock is behind, by less than the machine's uptime."""
TESTBED = Testbed(
    subnets=[
        Subnet(name="a", hosts=2, link_mbit_s=RATE_MBIT_S, clock_offset_s=OFFSETS_S),
        Subnet(name="b", hosts=2, server_link_mbit_s=RATE_MBIT_S),
    ]
)
WEB_SERVERS = [
    name
    for name, driver in DRIVERS.items()
    if driver.settings_type.listens_elsewhere
    and driver.settings_type.protocol == HTTP.name
    and driver.installed()
]


def planned(folder: Path, testbed: Testbed, server: ServerPlan, **shape: Any) -> Path:
    """Create an experiment on a testbed, without starting it."""
    wanted: dict[str, Any] = {
        "workload": "webbench-static",
        "clients": [4],
        "length_s": 1.0,
        "think_time_s": 0.01,
    }
    suite = Suite(name="tiny", source="a test", **(wanted | shape))
    plan = Plan(name="tiny", suite="tiny", repetitions=1, servers=[server], testbed=testbed)
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def links_here() -> set[str]:
    told = subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True).stdout
    return {link["ifname"] for link in json.loads(told)}


def document() -> str:
    """Return a path of the tree whose file has the size in its folder's name."""
    from serverdyno.servers.documents import document_root  # noqa: PLC0415

    root = document_root()
    found = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size == 11426)
    return f"/{found[0].relative_to(root)}"


def share_of_a_link(response_bytes: float) -> float:
    """Return the share of a link's rate that responses of this size can use, without the packet headers."""
    return response_bytes / (response_bytes + FRAME_BYTES * math.ceil(response_bytes / SEGMENT_BYTES))


@pytest.mark.skipif("nginx" not in INSTALLED, reason="nginx is not installed")
def test_links_carry_their_rates_clocks_are_hours_apart_and_the_server_counts_the_sum(tmp_path: Path) -> None:
    before, listener = links_here(), Listener()
    server = ServerPlan(server="nginx", settings={"access_log": True})
    folder = planned(
        tmp_path / "e",
        TESTBED,
        server,
        workload="url",
        think_time_s=0.0,
        clients=[16],
        length_s=5.0,
        ramp_up_s=1.0,
        ramp_down_s=0.5,
        sections={"documents": DocumentsSettings(paths=[document()])},
    )
    assert carried_out(folder, listener), listener.failures
    assert links_here() == before
    experiment = Experiment.open(folder)
    [record] = experiment.levels()
    assert record.errors == []

    def rate(name: str) -> float:
        return nodes[name].bytes_in * 8 / record.window_s / 1e6

    nodes = {row.node.removeprefix("node "): row for row in record.nodes}
    assert nodes.keys() == {"a-1", "a-2", "b-1", "b-2"}
    link = RATE_MBIT_S * share_of_a_link(record.bytes_in / record.operations)
    # In subnet a, each host has its own link; in subnet b, both hosts share the server's.
    for carried in (rate("a-1"), rate("a-2"), rate("b-1") + rate("b-2")):
        assert carried <= link * 1.03
        # Within 3 % of the rate on a quiet machine; links are idle at times if processes wait for CPUs.
        assert carried > link / 2
    # Each clock is off by what the plan says, within the measured error.
    for name, offset_s in zip(("a-1", "a-2", "b-1", "b-2"), [*OFFSETS_S, 0.0, 0.0], strict=True):
        assert abs(nodes[name].clock_offset_s - offset_s) <= nodes[name].clock_error_s
    # A node that started late, or hours off, would be missing in whole seconds of the series.
    inner = [row.bytes_in for row in record.by_second if 1 <= row.second < 4]
    assert len(inner) == 3
    assert min(inner) > 0
    assert sum(row.operations_total for row in record.nodes) == record.operations_total
    [note] = experiment.run_notes().values()
    assert note.requests_by_server_count == note.requests_answered
    network = experiment.disclosure()["fleet"]["network"]
    assert network["subnet a"]["link_mbit_s"] == RATE_MBIT_S
    assert network["server"]["address"] == SERVICE


class Puller(Listener):
    """Cuts links in the middle of the first level, and measures the time until the run has failed."""

    def __init__(self, made: list[standing.StandingTestbed], interfaces: tuple[str, ...]) -> None:
        super().__init__()
        self.made, self.interfaces = made, interfaces
        self.pulled_s: float | None = None
        self.told_after_s: float | None = None

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if self.pulled_s is None and snapshot["operations"]:
            self.made[-1].pull("lan-2", *self.interfaces)
            self.pulled_s = time.monotonic()

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        super().run_failed(run, error)
        assert self.pulled_s is not None
        self.told_after_s = time.monotonic() - self.pulled_s


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[standing.StandingTestbed]:
    """Collect the testbeds that a test creates, so that it can break their levels."""
    look_often(monkeypatch)
    found: list[standing.StandingTestbed] = []
    make = standing.standing

    @contextmanager
    def remembered(testbed: Testbed) -> Iterator[standing.StandingTestbed]:
        with make(testbed) as each:
            found.append(each)
            yield each

    monkeypatch.setattr(standing, "standing", remembered)
    return found


@pytest.mark.parametrize(
    ("interfaces", "words"),
    [
        (("lan",), "the link lan, which connects node lan-2 to the server, is down"),
        (("lan", "control"), "node lan-2 is lost: its machine does not answer"),
    ],
    ids=["lan", "all"],
)
def test_a_cut_link_loses_the_level_in_words_and_resume_does_it_on_a_new_testbed(
    tmp_path: Path,
    made: list[standing.StandingTestbed],
    interfaces: tuple[str, ...],
    words: str,
    record_property: Any,
) -> None:
    folder = planned(tmp_path / "e", of_option("namespaces:2"), ServerPlan(server="reference"))
    puller = Puller(made, interfaces)
    assert not carried_out(folder, puller)
    assert words in puller.failures[0]
    record_property("told_after_s", puller.told_after_s)
    assert Experiment.open(folder).finished() == set()
    if "control" not in interfaces:  # once is enough
        last = Listener()
        assert carried_out(folder, last), last.failures


@pytest.mark.skipif("apache" not in INSTALLED, reason="Apache is not installed")
def test_the_servers_own_log_has_the_start_of_each_node_whose_clocks_are_hours_and_50_ms_apart() -> None:
    for found in node_starts.measured(2):
        assert len(found.spread_ms) == len(node_starts.OFFSETS_S)
        assert min(found.spread_ms) == 0
        for clock, offset_s in zip(found.clocks, node_starts.OFFSETS_S, strict=True):
            assert abs(clock.offset_s - offset_s) <= clock.error_s


def test_a_run_that_is_killed_leaves_nothing_of_its_testbed(home: Home, tmp_path: Path) -> None:
    before, clients = links_here(), range(4, 24)
    testbed, server = of_option("namespaces:2"), ServerPlan(server="reference")
    folder = planned(tmp_path / "e", testbed, server, clients=list(clients))
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "4 clients")
        left = psutil.Process(dyno.pid).children(recursive=True)
        assert sum("node" in process.cmdline() for process in left) == 2
        dyno.kill()
        dyno.wait(PATIENCE_S)
    assert psutil.wait_procs(left, timeout=PATIENCE_S)[1] == []
    assert links_here() == before
    home.assert_nothing_is_left([])


FILE_SERVERS = [
    name
    for name, driver in DRIVERS.items()
    if driver.settings_type.listens_elsewhere
    and driver.settings_type.protocol in (SMB.name, NFS.name)
    and driver.installed()
]
ELSEWHERE: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in [*WEB_SERVERS, *FILE_SERVERS] if name != "team"),
    ("nginx", BOTH),
    *(("team", settings) for settings in TEAMS if settings["front"] in ("haproxy", "varnish")),
]


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """Create a network namespace with the address of servers."""
    host = Host("alone")
    try:
        host.wait_until_ready()
        host.run("ip", "-batch", "-", text=f"link set lo up\naddress add {SERVICE}/32 dev lo\n")
        yield host
    finally:
        host.end()


@pytest.mark.parametrize(
    ("name", "settings"), ELSEWHERE, ids=lambda given: given if isinstance(given, str) else ""
)
def test_a_server_elsewhere_consents_to_who_started_it_and_to_nobody_else(
    host: Host, name: str, settings: dict[str, Any]
) -> None:
    spoken = DRIVERS[name].settings_type.protocol
    assert spoken is not None
    protocol = protocols.of(spoken)
    settings = team_of(settings) if name == "team" else settings
    with standing.inside(host.network), running(name, settings, address=SERVICE) as server:
        access = server.access()
        section = json.dumps(protocol.target_section(access, protocol.settings_type()))

        def opened(token: str | None) -> _native.Target:
            return _native.Target.open(protocol.name, section, consent_token=token, password=access.password)

        assert not opened(access.consent_token).loopback
        for wrong in (None, "x" * 32):
            with pytest.raises(PermissionError):
                opened(wrong)
        described = json.dumps([server.describe().command, server.describe().files])
        assert access.consent_token is not None
        assert access.consent_token not in described
        members = server.members.values() if isinstance(server, Team) else [server]
        own = [each.directory for each in members if isinstance(each, LocalServer)]
        places = [*own, *(place for each in members for place in each.data_directories())]
        named = [path for place in places for path in place.rglob(f"*{access.consent_token}*")]
        assert not [path for path in named if path.parent.stat().st_mode & stat.S_IROTH]


def test_what_this_kernel_or_user_can_not_do_is_refused_in_words(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = Testbed(subnets=[Subnet(name="far", hosts=1, delay_ms=5.0)])
    try:
        host.run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    except DynoError:
        with pytest.raises(UserError, match="no netem"), standing.standing(lossy):
            pass
    else:
        host.run("tc", "qdisc", "delete", "dev", "lo", "root")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="only root can create"), standing.standing(lossy):
        pass


PLAN = """
name = "spread"
suite = "quick-static"
[[servers]]
server = "reference"
[[testbed.subnets]]
name = "a"
hosts = 2
"""


def test_a_plan_says_everything_that_is_wrong_with_its_testbed_at_once() -> None:
    assert parse_plan(PLAN, "plan", settings_types()).testbed is not None
    wrong = PLAN.replace('"reference"', '"haproxy"') + '[generator]\nfleet = "lab"\n'
    with pytest.raises(PlanError) as found:
        parse_plan(wrong, "plan", settings_types())
    assert [problem for problem in found.value.problems if "can't reach the server haproxy" in problem]
    assert [problem for problem in found.value.problems if "remove generator.fleet" in problem]
    with pytest.raises(PlanError, match="3 clock offsets, but only 2 hosts"):
        parse_plan(PLAN + "clock_offset_s = [1, 2, 3]\n", "plan", settings_types())
    with pytest.raises(UserError, match=r"expected namespaces:N"):
        of_option("vms:4")


def test_a_testbed_of_the_command_is_checked_as_one_of_the_plan(home: Home, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.partition("[[testbed")[0])
    assert load_plan(plan, settings_types()).plan.testbed is None
    refused = home.here("run", plan, "--testbed", "namespaces:0")
    assert (refused.returncode, "expected namespaces:N" in refused.stderr) == (2, True), refused.stderr
    plan.write_text(plan.read_text().replace("reference", "varnish"))
    refused = home.here("run", plan, "--testbed", "namespaces:2")
    assert (refused.returncode, "can't reach the server varnish" in refused.stderr) == (2, True)


def test_every_subnet_has_its_part_of_few_clients() -> None:
    testbed = Testbed(subnets=[Subnet(name="a", hosts=2), Subnet(name="b", hosts=1)])
    assert testbed.host_names() == ["a-1", "b-1", "a-2"]
    network = network_of(testbed)
    addresses = [leg.address for switch in network.switches for leg in switch.legs]
    assert len(set(addresses)) == len(addresses) == 2 * 3 + 1 + 2
    assert [leg.interface for leg in network.legs_of(SERVER)] == ["control", "lan0", "lan1"]
