"""File clients on the nodes of a fleet: each node has the ledger of its clients.

A node may run the server, and nothing is left of a lost node's clients.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benches import load_files

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.plan.protocols import load_file
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.plan.testbed import of_option
from serverdyno.run.create import create_experiment
from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from serverdyno.store.note import RunNote
from support.dyno_process import PATIENCE_S
from support.experiments import Listener, carried_out
from support.file_server import needs_root
from support.fleet_nodes import RunningFleet, running_fleet
from support.users_smbd import PASSWORD, USER, left_on, started

pytestmark = needs_root
LEAST_WORKSPACE_BYTES = 15 << 20
SMALL_CLIENTS = 2
SMALL_DISK_BYTES = (SMALL_CLIENTS + 1) * (LEAST_WORKSPACE_BYTES + (4 << 20))
COUNTING = ("samba", "reference-nfs", "reference-smb")
"""Servers that report their counts; Ganesha doesn't here."""
SERVERS = [
    ServerPlan(server="reference-nfs", settings={"network": "loopback", "volumes": 2}),
    ServerPlan(server="reference-smb", node="s", settings={"network": "loopback", "volumes": 2}),
    *(
        ServerPlan(server=name, node="s", settings={"volumes": 2})
        for name in ("samba", "ganesha")
        if DRIVERS[name].installed()
    ),
]
ELSEWHERE = [
    ServerPlan(server="reference-smb", settings={"volumes": 2}),
    ServerPlan(server="reference-nfs", settings={"volumes": 2}),
    *(
        ServerPlan(server=server, name=name, settings={"volumes": 2, **settings})
        for server, name, settings in (
            ("samba", "samba", {}),
            ("ganesha", "ganesha", {}),
            ("ganesha", "ganesha-4.1", {"nfs_version": "4.1"}),
        )
        if DRIVERS[server].installed()
    ),
]
"""Servers on an address that the hosts of a testbed can reach."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet") / "lab", ("a", "b", "s")) as running:
        yield running


SEEN = {"length_s": 4.0, "think_time_s": 0.02}
"""A level that a controller sees in progress: its nodes report every 1.2 s, and at the end."""


def suite(clients: list[int], length_s: float = 0.6, think_time_s: float = 0.0) -> Suite:
    """Return a suite with shorter levels than a plan may have."""
    sections = {"files": FilesSettings(workspace_bytes=LEAST_WORKSPACE_BYTES)}
    shape: dict[str, Any] = {"workload": "diskmix", "length_s": length_s, "sections": sections}
    return Suite(name="tiny", source="a test", clients=clients, think_time_s=think_time_s, **shape)


def planned(folder: Path, fleet: Path, servers: list[ServerPlan], clients: list[int], **shape: float) -> Path:
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=servers,
        generator=GeneratorPlan(fleet=str(fleet)),
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite(clients, **shape)]):
        pass
    return folder


def counted_alike(note: RunNote, server: str) -> bool:
    """Return whether the server counted as many requests as its clients sent, or counts none."""
    if server not in COUNTING:
        return note.requests_by_server_count is None
    return note.requests_by_server_count == note.requests_answered is not None


def test_each_node_keeps_the_ledger_of_its_clients_and_the_server_counts_what_all_have_asked(
    fleet: RunningFleet, tmp_path: Path
) -> None:
    folder, listener = planned(tmp_path / "e", fleet.path, SERVERS, [3, 5]), Listener()
    assert carried_out(folder, listener), listener.failures
    experiment = Experiment.open(folder)
    for record in experiment.levels():
        # A byte that differed from the ledger of its client would be an error of the side `check`.
        assert record.errors == []
        assert record.bytes_checked is not None and record.bytes_checked > 0
        assert record.clients_participating == record.clients
        assert [row.client for row in record.by_client] == list(range(record.clients))
        assert sum(row.clients for row in record.nodes) == record.clients
        assert sum(row.operations_total for row in record.nodes) == record.operations_total
        assert min(row.operations for row in record.nodes) > 0
    notes = experiment.run_notes()
    assert {run.configuration for run in experiment.head.order} == {server.server for server in SERVERS}
    for run in experiment.head.order:
        assert counted_alike(notes[run.number], run.configuration), run


def test_clients_on_hosts_of_a_testbed_reach_file_servers_on_the_servers_host(tmp_path: Path) -> None:
    folder, listener = tmp_path / "e", Listener()
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=ELSEWHERE,
        testbed=of_option("namespaces:2"),
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite([4])]):
        pass
    assert carried_out(folder, listener), listener.failures
    experiment = Experiment.open(folder)
    for record in experiment.levels():
        assert record.errors == []
        assert record.bytes_checked is not None and record.bytes_checked > 0
        assert {row.node for row in record.nodes} == {"node lan-1", "node lan-2"}
    notes = experiment.run_notes()
    assert len(experiment.levels()) == len(notes) == len(ELSEWHERE)
    for run in experiment.head.order:
        note = notes[run.number]
        if run.configuration in COUNTING:
            assert counted_alike(note, run.configuration), run
        if run.configuration.startswith("reference"):
            continue  # its files are in memory
        # As without a fleet, the medium of the files is known and syncs are counted.
        assert note.media
        assert note.syncs_by_kernel is not None
        if run.configuration == "samba":
            assert note.syncs_by_kernel == note.syncs_by_server


def test_nodes_replay_a_load_file_that_they_can_not_read_themselves(tmp_path: Path) -> None:
    place = tmp_path / "inputs"
    place.mkdir()
    settings = FilesSettings(load_file=str(load_files.office(place / "office.load")))
    shape: dict[str, Any] = {"workload": "loadfile", "length_s": 1.0, "sections": {"files": settings}}
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=[ServerPlan(server="reference-smb", settings={"network": "loopback"})],
        generator=GeneratorPlan(fleet=str(tmp_path / "lab")),
    )
    folder, listener = tmp_path / "e", Listener()
    with create_experiment(
        folder, "# made by a test\n", plan, [Suite(name="t", source="a test", clients=[4], **shape)]
    ):
        pass
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(place)]
    names = ("a", "b")
    with running_fleet(tmp_path / "lab", names, dict.fromkeys(names, hidden)):
        assert carried_out(folder, listener), listener.failures
    [record] = Experiment.open(folder).levels()
    assert record.errors == []
    assert all(row.operations_total > 0 for row in record.nodes)
    assert record.bytes_checked


def test_a_packed_load_file_is_the_same_and_a_part_of_one_is_refused(tmp_path: Path) -> None:
    settings = FilesSettings(load_file=str(load_files.office(tmp_path / "office.load")))
    packed, read = load_file.packed(settings), load_file.read(settings)
    assert packed is not None and read is not None
    assert load_file.unpacked(packed).counts == read.counts
    for wrong in (packed[: len(packed) // 8 * 4], "AAAA", "not base64"):
        with pytest.raises(ValueError, match=r"load file|base64|padding"):
            load_file.unpacked(wrong)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Mount a file system with little more room than the workspaces need, which smbd's user can enter."""
    place = Path(tempfile.mkdtemp(prefix="dyno-disk-"))
    place.chmod(0o755)
    size = f"size={SMALL_DISK_BYTES},mode=755"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


def filled(place: Path) -> None:
    """Fill the remaining space."""
    with (place / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass


class Filler(Listener):
    """Fills the disk in the middle of a level."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place, self.full = place, False

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if not self.full and snapshot["operations"]:
            self.full = True
            filled(self.place)


def on_disk(place: Path) -> ServerPlan:
    return ServerPlan(server="samba", node="s", settings={"data_directory": str(place)})


@pytest.mark.skipif(not DRIVERS["samba"].installed(), reason="Samba is not installed")
def test_a_disk_that_fills_up_under_a_server_node_is_told_and_everything_is_taken_away(
    fleet: RunningFleet, tmp_path: Path, small_disk: Path
) -> None:
    filler = Filler(small_disk)
    longer = {
        **SEEN,
        "length_s": 10.0,
    }  # On a busy machine the disk is full late, and then clients must still write.
    folder = planned(tmp_path / "e", fleet.path, [on_disk(small_disk)], [SMALL_CLIENTS], **longer)
    carried_out(folder, filler)
    assert filler.full
    told = [error.example for record in Experiment.open(folder).levels() for error in record.errors]
    assert any("volume is full" in words for words in [*told, *filler.failures]), (told, filler.failures)
    for record in Experiment.open(folder).levels():
        assert {error.side for error in record.errors} == {"server"}
        assert [row.node for row in record.nodes] == ["node a", "node b"]
        assert sum(row.operations_total for row in record.nodes) == record.operations_total
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@pytest.mark.skipif(not DRIVERS["samba"].installed(), reason="Samba is not installed")
def test_a_server_nodes_disk_without_room_is_told_before_the_load(
    fleet: RunningFleet, tmp_path: Path, small_disk: Path
) -> None:
    filled(small_disk)
    listener = Listener()
    assert not carried_out(planned(tmp_path / "e", fleet.path, [on_disk(small_disk)], [2]), listener)
    assert "room" in listener.failures[0] or "No space left" in listener.failures[0], listener.failures
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


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
            server="external", url=server.url, settings={"shares": ["data", "more"], "user": USER}
        )
        folder = planned(tmp_path / "e", fleet.path, [users], [6], **SEEN)
        assert not carried_out(folder, killer)
        assert "node b is lost: it has ended" in killer.failures[0]
        assert killer.notices == []
        assert left_on(server, "data", "more") == []
        monkeypatch.setattr("serverdyno.fleet.membership.PATIENCE_S", 1.0)
        with pytest.raises(DynoError, match="b of the 3 nodes of the fleet lab have not joined"):
            carried_out(folder)
        assert left_on(server, "data", "more") == []
    finally:
        server.kill()
