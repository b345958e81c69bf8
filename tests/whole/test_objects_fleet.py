"""Object clients on the nodes of a fleet: each node has the key and the ledger of its clients.

A node may run the server, and nothing is left of a lost node's clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serverdyno import _native
from serverdyno.plan.model import ServerPlan
from serverdyno.store.experiment import Experiment
from support.dyno_process import PATIENCE_S
from support.experiments import Listener, carried_out
from support.fleet_nodes import RunningFleet, running_fleet
from support.objects import PARTS, bucket, keys, planned, tiny
from support.reference_servers import start_s3

KEY_ID, SECRET = "AKIDTEST", "a-secret/that+nobody=shows"
SERVERS = [
    ServerPlan(server="reference-s3", name="here"),
    ServerPlan(server="reference-s3", name="there", node="s"),
]
EVERY = {"get": 5, "put": 4, "head": 3, "delete": 2, "list": 2, "copy": 1, "get_range": 1, "delete_many": 1}
SEEN: dict[str, Any] = {"length_s": 4.0, "shape": {"think_time_s": 0.02}}
"""A level that a controller sees in progress: its nodes report every 1.2 s, and at the end."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet") / "lab", ("a", "b", "s")) as running:
        yield running


def test_each_node_keeps_the_ledger_of_its_clients_and_the_server_counts_what_all_have_asked(
    fleet: RunningFleet, tmp_path: Path
) -> None:
    folder, listener = tmp_path / "e", Listener()
    planned(folder, tiny([3, 5], weights=EVERY), SERVERS, fleet=str(fleet.path))
    assert carried_out(folder, listener), listener.failures
    experiment = Experiment.open(folder)
    assert len(experiment.levels()) == 4
    for record in experiment.levels():
        # A byte or an ETag that differed from the ledger of its client would be an error of the side `check`.
        assert record.errors == []
        assert record.bytes_checked is not None and record.bytes_checked > 0
        assert record.clients_participating == record.clients
        assert [row.client for row in record.by_client] == list(range(record.clients))
        assert {row.node for row in record.nodes} == {"node a", "node b"}
        assert sum(row.operations_total for row in record.nodes) == record.operations_total
        assert min(row.operations for row in record.nodes) > 0
    notes = experiment.run_notes()
    for run in experiment.head.order:
        note = notes[run.number]
        assert note.requests_by_server_count == note.requests_answered is not None, run


def test_nodes_share_objects_and_get_the_users_key_which_no_file_has(
    fleet: RunningFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    server, listener = start_s3(access_key_id=KEY_ID, secret=SECRET), Listener()
    try:
        url = f"s3://127.0.0.1:{server.port}/volume1"
        suite = tiny([2, 4], weights={"get": 1, "head": 1}, shared=True)
        planned(tmp_path / "e", suite, [bucket(url)], fleet=str(fleet.path))
        assert carried_out(tmp_path / "e", listener), listener.failures
    finally:
        server.stop()
    assert listener.notices == []
    for record in Experiment.open(tmp_path / "e").levels():
        assert record.errors == []
        assert min(row.operations for row in record.nodes) > 0
    for folder in (tmp_path / "e", fleet.path):
        written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        assert written and not any(SECRET.encode() in content for content in written)


class Killer(Listener):
    """Kills a node for good in the middle of a level; the test that uses it must be the last."""

    def __init__(self, fleet: RunningFleet) -> None:
        super().__init__()
        self.fleet, self.killed = fleet, False

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if not self.killed and snapshot["operations"]:
            self.killed = True
            self.fleet.nodes["b"].kill()
            self.fleet.nodes["b"].wait(PATIENCE_S)


def test_a_lost_node_leaves_no_object_and_no_upload_of_its_clients(
    fleet: RunningFleet, tmp_path: Path
) -> None:
    server, killer = start_s3(objects={"mine": b"of the user"}), Killer(fleet)
    try:
        url = f"s3://127.0.0.1:{server.port}/volume1"
        planned(tmp_path / "e", tiny([6], **SEEN, **PARTS), [bucket(url)], fleet=str(fleet.path))
        assert not carried_out(tmp_path / "e", killer)
        assert "node b is lost: it has ended" in killer.failures[0]
        assert killer.notices == []
        assert (keys(server.port), keys(server.port, "uploads")) == (["mine"], [])
    finally:
        server.stop()
