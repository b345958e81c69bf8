"""File clients on the nodes of a fleet: each has the ledger of its clients, a node may have the server, and of a lost
node's clients nothing stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dyno_process import PATIENCE_S
from file_server import needs_root
from fleet_nodes import RunningFleet, running_fleet
from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.plan.testbed import of_option
from serverdyno.protocols.files import FilesSettings
from serverdyno.runner.create import create_experiment
from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from test_runner import Listener, carried_out
from test_users_workspaces import left_on
from users_smbd import PASSWORD, USER, started

pytestmark = needs_root
LEAST_WORKSPACE_BYTES = 15 << 20
SERVERS = [
    ServerPlan(server="reference-nfs", settings={"network": "loopback", "volumes": 2}),
    *(
        [ServerPlan(server="samba", node="s", settings={"volumes": 2})]
        if DRIVERS["samba"].installed()
        else []
    ),
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet") / "lab", ("a", "b", "s")) as running:
        yield running


def suite(clients: list[int]) -> Suite:
    """Mixes shorter than a plan may have."""
    sections = {"files": FilesSettings(workspace_bytes=LEAST_WORKSPACE_BYTES)}
    shape: dict[str, Any] = {"workload": "diskmix", "length_s": 1.0, "sections": sections}
    return Suite(name="tiny", source="a test", clients=clients, **shape)


def planned(folder: Path, fleet: Path, server: ServerPlan, clients: list[int]) -> Path:
    """An experiment that was not begun."""
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=[server],
        generator=GeneratorPlan(fleet=str(fleet)),
    )
    with create_experiment(folder, "# made by a test\n", plan, suite(clients)):
        pass
    return folder


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.server)
def test_each_node_keeps_the_ledger_of_its_clients_and_the_server_counts_what_all_have_asked(
    fleet: RunningFleet, tmp_path: Path, server: ServerPlan
) -> None:
    folder, listener = planned(tmp_path / "e", fleet.path, server, [3, 5]), Listener()
    assert carried_out(folder, listener), listener.failures
    experiment = Experiment.open(folder)
    for record in experiment.mixes():
        # A byte that differed from the ledger of its client would be an error of the side `check`.
        assert record.errors == []
        assert record.bytes_checked is not None and record.bytes_checked > 0
        assert record.clients_participating == record.clients
        assert [row.client for row in record.by_client] == list(range(record.clients))
        assert sum(row.clients for row in record.nodes) == record.clients
        assert sum(row.operations_total for row in record.nodes) == record.operations_total
        assert min(row.operations for row in record.nodes) > 0
    [note] = experiment.run_notes().values()
    assert note.requests_by_server_count is not None
    assert note.requests_by_server_count == note.requests_answered


@pytest.mark.skipif(not DRIVERS["samba"].installed(), reason="Samba is not installed")
def test_clients_on_hosts_of_a_testbed_reach_samba_on_the_servers_host(tmp_path: Path) -> None:
    folder, listener = tmp_path / "e", Listener()
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=[ServerPlan(server="samba", settings={"volumes": 2})],
        testbed=of_option("namespaces:2"),
    )
    with create_experiment(folder, "# made by a test\n", plan, suite([4])):
        pass
    assert carried_out(folder, listener), listener.failures
    [record] = Experiment.open(folder).mixes()
    assert record.errors == []
    assert record.bytes_checked is not None and record.bytes_checked > 0
    assert {row.node for row in record.nodes} == {"node lan-1", "node lan-2"}
    [note] = Experiment.open(folder).run_notes().values()
    assert note.requests_by_server_count == note.requests_answered
    # As on this machine alone, it is known what the files lie on and which syncs were made.
    assert note.media
    assert note.syncs_by_kernel == note.syncs_by_server is not None


class Killer(Listener):
    """Kills a node in the middle of a mix."""

    def __init__(self, fleet: RunningFleet) -> None:
        super().__init__()
        self.fleet, self.killed = fleet, False

    def mix_tick(self, snapshot: _native.Snapshot) -> None:
        if not self.killed and snapshot["operations"]:
            self.killed = True
            self.fleet.nodes["b"].kill()
            self.fleet.nodes["b"].wait(PATIENCE_S)


def test_a_lost_node_leaves_nothing_of_its_clients_on_a_server_of_the_users(
    fleet: RunningFleet,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)
    server, killer = started(tmp_path_factory.mktemp("users")), Killer(fleet)
    try:
        users = ServerPlan(
            server="external-smb", url=server.url, settings={"shares": ["data", "more"], "user": USER}
        )
        folder = planned(tmp_path / "e", fleet.path, users, [6])
        assert not carried_out(folder, killer)
        assert "node b is lost: it has ended" in killer.failures[0]
        assert killer.notices == []
        assert left_on(server, "data", "more") == []
        monkeypatch.setattr("serverdyno.fleet.membership.PATIENCE_S", 1.0)
        with pytest.raises(DynoError, match="lacks b of its 3 nodes"):
            carried_out(folder)
        assert left_on(server, "data", "more") == []
    finally:
        server.kill()
