"""Levels that end when their work is done, on several nodes and processes: one start, one end, and nothing left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from serverdyno.plan import suites
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.plan.testbed import of_option
from serverdyno.run.create import create_experiment
from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from serverdyno.store.records import LevelRecord
from support.dyno_process import Home, wait_until
from support.experiments import Listener, carried_out
from support.file_server import needs_root
from support.fleet_nodes import RunningFleet, look_often, running_fleet
from support.suites_of_steps import bonnie_suite, steps_suite
from support.users_smbd import PASSWORD, USER, left_on, started

pytestmark = needs_root
MIB = 1 << 20
BONNIES, SEEKERS, SEEKS = 3, 2, 40
PHASES = ["putc", "rewrite", "write", "getc", "read", "seeks"]
FILES, STREAM_BYTES, BLOCK_BYTES = 30, 4 * MIB, 1 << 16
STEPS = f"""
[trees.t]
files = [{{ name = "a", count = 10, bytes = 100 }}]
[local.big]
bytes = 200_000
[[steps]]
do = "make-tree"
tree = "t"
[[steps]]
do = "copy-to"
local = "big"
file = "big"
[[steps]]
do = "copy-from"
file = "big"
[[steps]]
do = "metadata"
clients = 4
files = {FILES}
bytes = 1000
shared = true
[[steps]]
do = "streams"
writers = 2
readers = 3
bytes = {STREAM_BYTES}
block_bytes = {BLOCK_BYTES}
depth = 4
"""


def both() -> list[Suite]:
    bonnie = bonnie_suite("bonnies", clients=BONNIES, size_mib=1, seeks=SEEKS, seekers=SEEKERS)
    return [suites.parse(text, "a test") for text in (bonnie, steps_suite("steps", STEPS))]


def planned(folder: Path, servers: list[ServerPlan], **where: Any) -> Path:
    plan = Plan(name="p", suites=["bonnies", "steps"], repetitions=1, servers=servers, **where)
    with create_experiment(folder, "# made by a test\n", plan, both()):
        pass
    return folder


def check_levels(records: Sequence[LevelRecord], nodes: Mapping[str, int]) -> None:
    """Check what all nodes did together; `nodes` gives the number of Bonnies on each."""
    assert [record.step for record in records[:6]] == PHASES
    for record in records:
        assert record.started_unix_s > 0
        assert sum(row.clients for row in record.nodes) == record.clients
        assert sum(row.operations for row in record.nodes) == record.operations
        assert record.window_s > 0
    for record in records[:6]:
        per = SEEKERS if record.step == "seeks" else 1
        assert {row.node: row.clients // per for row in record.nodes} == nodes
    moved = {record.step: (record.bytes_read, record.bytes_written) for record in records}
    assert moved["putc"] == (0, BONNIES * MIB) and moved["getc"] == (BONNIES * MIB, 0)
    assert moved["seeks"][0] == BONNIES * SEEKS * 16384
    made, to, cold, warm, create, stat, read, remove, write, back = records[6:]
    for alone in (made, to, cold, warm):
        assert len(alone.nodes) == 1
    assert to.bytes_written == cold.bytes_read == 200_000
    for phase in (create, stat, read, remove):
        assert phase.entries == 4 * FILES and len(phase.nodes) == len(nodes)
    assert (write.bytes_written, back.bytes_read) == (2 * STREAM_BYTES, 3 * STREAM_BYTES)
    assert (write.entries, back.entries) == (2, 3)


def test_clients_of_several_processes_begin_and_end_each_phase_together(tmp_path: Path) -> None:
    servers = [ServerPlan(server="reference-nfs", settings={"network": "loopback", "capacity_mib": 64})]
    folder, listener = planned(tmp_path / "e", servers, generator=GeneratorPlan(processes=2)), Listener()
    assert carried_out(folder, listener), listener.failures
    with Experiment.open(folder) as opened:
        check_levels(opened.levels(), {"generator process 1 of 2": 2, "generator process 2 of 2": 1})


ELSEWHERE = [
    ServerPlan(server="reference-nfs", settings={"capacity_mib": 64}),
    *(ServerPlan(server=name) for name in ("samba", "ganesha") if DRIVERS[name].installed()),
]


def test_nodes_on_hosts_of_a_testbed_with_consent_of_the_servers_host_do_each_phase_together(
    tmp_path: Path,
) -> None:
    folder, listener = planned(tmp_path / "e", ELSEWHERE, testbed=of_option("namespaces:2")), Listener()
    assert carried_out(folder, listener), listener.failures
    with Experiment.open(folder) as opened:
        records, notes = opened.levels(), opened.run_notes()
    for run in opened.head.order:
        own = [record for record in records if record.run == run.number]
        check_levels(own, {"node lan-1": 2, "node lan-2": 1})
        assert all(record.server_cpu_s is not None for record in own if record.state != "write")
        if run.configuration == "reference-nfs":
            continue
        # Each level has its own syncs.
        assert all(record.syncs_known for record in own if record.state != "write")
        calls = sum(row.count for record in own for row in record.syncs)
        of_run = notes[run.number].syncs_by_kernel
        assert of_run is not None and 0 < calls <= of_run, run


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet") / "lab", ("a", "b")) as running:
        yield running


class Killer(Listener):
    """Kills a node as a level begins."""

    def __init__(self, fleet: RunningFleet, level: str) -> None:
        super().__init__()
        self.fleet, self.level = fleet, level

    def stage(self, words: str) -> None:
        if words.endswith(self.level):
            self.fleet.kill("b")


@pytest.mark.parametrize("level", [": getc", ", read"])
def test_a_lost_node_leaves_nothing_on_a_users_server_and_a_resume_does_its_group_anew(
    fleet: RunningFleet,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
) -> None:
    look_often(monkeypatch)
    monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)
    server, killer = started(tmp_path_factory.mktemp("users")), Killer(fleet, level)
    settings = {"shares": ["data"], "user": USER}
    users = ServerPlan(server="external", url=server.url, settings=settings)
    folder = planned(tmp_path / "e", [users], generator=GeneratorPlan(fleet=str(fleet.path)))
    try:
        assert not carried_out(folder, killer)
        assert "node b is lost: it has ended" in killer.failures[0]
        with Experiment.open(folder) as opened:
            kept = 0 if level == ": getc" else len(PHASES)
            assert opened.finished() == {(1, place) for place in range(1, kept + 1)}
        assert left_on(server, "data") == []
        fleet.start_nodes(["b"])
        last = Listener()
        assert carried_out(folder, last), last.failures
        assert left_on(server, "data") == []
    finally:
        server.kill()
    with Experiment.open(folder) as opened:
        check_levels(opened.levels(), {"node a": 2, "node b": 1})


PLAN = """
name = "p"
suites = ["bonnies.toml", "steps.toml"]
repetitions = 1
[[servers]]
server = "reference-nfs"
[servers.settings]
capacity_mib = 64
"""


def test_a_tool_that_is_killed_leaves_no_load_and_a_resume_goes_on_with_the_next_group(
    home: Home, tmp_path: Path
) -> None:
    for suite, text in (
        ("bonnies", bonnie_suite("bonnies", clients=BONNIES, size_mib=1, seeks=SEEKS, seekers=SEEKERS)),
        ("steps", steps_suite("steps", STEPS)),
    ):
        (tmp_path / f"{suite}.toml").write_text(text)
    plan, folder = tmp_path / "plan.toml", tmp_path / "e"
    plan.write_text(PLAN)
    with home.started("run", plan, "--testbed", "namespaces:2", "--into", folder) as tool:
        wait_until(lambda: bool(list(folder.glob("runs/*/level-06.parquet"))), "the first suite is kept")
        tool.kill()
    kept = {path: path.read_bytes() for path in folder.glob("runs/*/level-*.parquet")}
    done = home.here("resume", folder)
    assert done.returncode == 0, done.stderr
    assert all(path.read_bytes() == content for path, content in kept.items())
    with Experiment.open(folder) as opened:
        check_levels(opened.levels(), {"node lan-1": 2, "node lan-2": 1})
