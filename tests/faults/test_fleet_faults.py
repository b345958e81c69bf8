"""A fleet that loses a node, the scheduler or the controller during a load level, and the peers that it refuses."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from serverdyno.errors import DynoError
from serverdyno.fleet import cluster as backend
from serverdyno.fleet import link, membership
from serverdyno.fleet.certificates import Authority
from serverdyno.fleet.folder import CONTROLLER, create
from serverdyno.fleet.status import status_of
from serverdyno.fleet.up import scheduler_process, start_scheduler
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.probes.abandoned import AGE_S, OWNER
from serverdyno.run.create import create_experiment
from serverdyno.servers.proof import free_port
from serverdyno.store.experiment import Experiment
from support.dyno_process import DYNO, PATIENCE_S, Home, wait_for_line, wait_until
from support.experiments import Breaker, Listener, carried_out
from support.fleet_nodes import RunningFleet, look_often, running_fleet


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    look_often(monkeypatch)
    # On a busy machine, a node that is not stopped may get no CPU time for longer than the product's limit.
    monkeypatch.setattr(backend, "SILENT_S", 10.0)


def planned(folder: Path, fleet: Path, *servers: str, levels: int = 1, length_s: float = 1.0) -> Path:
    """Create an experiment with a run per server, without starting it."""
    suite = Suite(
        name="tiny",
        source="a test",
        workload="webbench-static",
        clients=list(range(2, 2 + levels)),
        length_s=length_s,
        think_time_s=0.01,
    )
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=[ServerPlan(server="reference", name=name) for name in servers],
        generator=GeneratorPlan(fleet=str(fleet)),
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def killed(fleet: RunningFleet) -> None:
    fleet.kill("b")


def stopped(fleet: RunningFleet) -> None:
    fleet.nodes["b"].send_signal(signal.SIGSTOP)


def back_after_kill(fleet: RunningFleet) -> None:
    fleet.start_nodes(["b"])


def back_after_stop(fleet: RunningFleet) -> None:
    """Let the stopped node notice that its controller is gone, so that it ends the load and stays or joins again."""
    fleet.nodes["b"].send_signal(signal.SIGCONT)


@pytest.mark.parametrize(
    ("breaks", "level", "comes_back", "words"),
    [
        (killed, 2, back_after_kill, "node b is lost: it has ended"),
        (stopped, 1, back_after_stop, "node b is lost: its machine answers, but the node does not run"),
    ],
    ids=["killed", "stopped"],
)
def test_a_lost_node_loses_its_level_alone_and_the_experiment_is_resumed(  # noqa: PLR0917
    fleet: RunningFleet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    breaks: Callable[[RunningFleet], None],
    level: int,
    comes_back: Callable[[RunningFleet], None],
    words: str,
) -> None:
    def broken() -> None:
        breaks(fleet)
        impatient.setattr(membership, "PATIENCE_S", 1.0)
        impatient.setattr(membership, "FACTS_S", 1.0)

    # On a busy machine the node may be stopped late, and the level must still be under way then.
    folder = planned(tmp_path / "e", fleet.path, "first", "second", levels=level, length_s=2.0)
    breaker = Breaker(broken, level)
    # The rest of the experiment needs the node, too, so it stops with the error of its last check.
    with (
        monkeypatch.context() as impatient,
        pytest.raises(
            DynoError,
            match=r"b of the 3 nodes of the fleet lab have not joined|nodes of the fleet lab that did not answer: b",
        ),
    ):
        carried_out(folder, breaker)
        pytest.fail(f"not missed: {breaker.broken}, {breaker.failures}, {breaker.notices}, {breaker.stages}")
    assert words in breaker.failures[0]
    assert Experiment.open(folder).finished() == {(1, kept) for kept in range(1, level)}
    assert not [child for child in psutil.Process().children() if "keeper" in " ".join(child.cmdline())]
    comes_back(fleet)
    last = Listener()
    assert carried_out(folder, last), last.failures
    assert len(Experiment.open(folder).finished()) == 2 * level


def test_without_its_scheduler_a_level_is_lost_in_words_and_the_nodes_join_the_next_one(
    fleet: RunningFleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = planned(tmp_path / "e", fleet.path, "first", "second")
    process = scheduler_process(fleet.folder)
    assert process is not None
    breaker = Breaker(process.kill, level=1)
    with pytest.raises(DynoError, match="no answer from the fleet's scheduler at"):
        carried_out(folder, breaker)
    assert "The fleet's scheduler at" in breaker.failures[0]
    for node in fleet.nodes.values():
        wait_for_line(node, "lost its connection to the scheduler")
    start_scheduler(fleet.folder)
    for node in fleet.nodes.values():
        wait_for_line(node, "has joined")
    assert carried_out(folder)
    assert "Traceback" not in capfd.readouterr().err


def test_when_the_controller_is_killed_its_nodes_end_the_load_and_serve_the_next(
    fleet: RunningFleet, home: Home, tmp_path: Path
) -> None:
    folder = planned(tmp_path / "e", fleet.path, "first", levels=8)
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "2 clients")
        dyno.kill()
        dyno.wait(PATIENCE_S)
    # Nothing else notifies the nodes. They admit a second controller once they have given up the first one.
    with backend.connected(fleet.folder) as cluster:
        wait_until(lambda: not in_use(cluster), "the nodes are free")
    assert carried_out(planned(tmp_path / "next", fleet.path, "first", length_s=0.5))


def in_use(cluster: backend.Cluster) -> bool:
    """Return whether a node is still in use after it had time to notice that it is free."""
    told = membership.free_again(cluster, cluster.members())
    return any(one is None or one["in_use"] for one in told.values())


def test_who_has_no_certificate_of_the_fleet_is_refused_counted_and_told(
    fleet: RunningFleet, home: Home, tmp_path: Path
) -> None:
    before = status_of(fleet.path)["refused_connections"]
    strangers = Authority.new("lab", datetime.now(UTC) + timedelta(days=1))
    wrong, expired = tmp_path / "wrong", tmp_path / "expired"
    strangers.issue("a", wrong, datetime.now(UTC) + timedelta(days=1))
    # It trusts the right authority, and shows a certificate of another one.
    (wrong / "authority.pem").write_bytes((fleet.path / "authority.pem").read_bytes())
    Authority.read(fleet.path).issue("a", expired, datetime.now(UTC) - timedelta(hours=1))
    for folder in (wrong, expired):
        (folder / "node.toml").write_bytes((fleet.folder.node("a") / "node.toml").read_bytes())
    with pytest.raises(DynoError, match="refused this certificate"):
        link.check(fleet.folder.at, wrong)
    told = home.here("node", expired)
    assert (told.returncode, " expired on " in told.stderr) == (2, True), told.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("serverdyno.fleet.certificates.check_valid", lambda _: None)
        with pytest.raises(DynoError, match=r"refused this certificate.*expired"):
            link.check(fleet.folder.at, expired)
    host, _, port = fleet.folder.at.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as plain:
        plain.settimeout(PATIENCE_S)
        plain.sendall(b"in plain words, and more of them than a TLS record's head has\r\n\r\n")
        try:
            while plain.recv(4096):
                pass
        except ConnectionError:
            pass
    with socket.create_connection((host, int(port)), PATIENCE_S) as hasty:
        # Only the header of a handshake (RFC 8446, sections 4 and 5.1): a peer that hangs up has not been refused.
        hasty.sendall(bytes.fromhex("1603010200 010001fc"))
        hasty.shutdown(socket.SHUT_WR)
        hasty.settimeout(PATIENCE_S)
        while hasty.recv(4096):
            pass
    status = home.here("fleet", "status", fleet.path)
    assert f"connections refused: {before + 3}" in status.stdout.replace("\n", " "), status.stdout


def test_a_second_fleet_in_one_folder_is_refused_and_all_mistakes_are_told_at_once(
    home: Home, tmp_path: Path
) -> None:
    folder = tmp_path / "lab"
    assert home.here("fleet", "init", folder, "--at", "127.0.0.1", "--nodes", "a").returncode == 0
    assert (folder / "authority.key").stat().st_mode & 0o077 == 0
    assert (folder / "nodes" / "a" / "certificate.key").stat().st_mode & 0o077 == 0
    told = home.here("fleet", "init", folder, "--at", "0.0.0.0", "--nodes", "a,A b,a", "--days", "0")
    assert told.returncode == 2
    for words in (
        "'A b' is not a valid node name",
        "the same name",
        "more than 0",
        "nodes can't reach 0.0.0.0",
        "already contains a fleet",
    ):
        assert words in told.stderr, words
    nobody = home.here("fleet", "status", folder)
    assert "no answer from the fleet's scheduler at 127.0.0.1:8786" in nobody.stderr
    assert link.context(folder / CONTROLLER)


def test_a_node_whose_folder_is_taken_away_while_it_has_no_scheduler_ends(tmp_path: Path) -> None:
    folder = create(tmp_path / "lab", f"127.0.0.1:{free_port()}", ["a"], days=1)
    command = [*DYNO, "node", str(folder.node("a"))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as node:
        try:
            wait_for_line(node, "waiting for it")
            shutil.rmtree(folder.node("a"))
            wait_for_line(node, "was removed: this node no longer belongs to a fleet")
            assert node.wait(PATIENCE_S) == 0
        finally:
            node.kill()


def test_nodes_that_are_to_end_leave_nothing_and_the_next_takes_away_what_a_killed_one_left(
    home: Home, own_tmpdir: Path, tmp_path: Path
) -> None:
    def places() -> list[Path]:
        return sorted(own_tmpdir.glob("serverdyno-node-*"))

    with running_fleet(tmp_path / "lab", ("a", "b")) as fleet:
        [left] = [place for place in places() if str(fleet.nodes["a"].pid) in (place / OWNER).read_text()]
        fleet.kill("a")
        long_ago_s = time.time() - 2 * AGE_S
        for path in (left, *left.iterdir()):
            os.utime(path, (long_ago_s, long_ago_s))
        fleet.start_nodes(["a"])
        assert left not in places()
        fleet.nodes["a"].send_signal(signal.SIGINT)
        assert fleet.nodes["a"].wait(PATIENCE_S) == 0
        assert home.here("fleet", "status", fleet.path).returncode == 1
        assert len(places()) == 1
        done = home.here("fleet", "down", fleet.path)
        assert done.returncode == 0, done.stderr
        assert fleet.nodes["b"].wait(PATIENCE_S) == 0
        assert scheduler_process(fleet.folder) is None
        assert places() == []


IN_SMALL_TMP = ("unshare", "--mount", "sh", "-c")
MOUNTED = 'mount -t tmpfs -o size=256k none "$1" && export TMPDIR="$1" && shift && exec "$@"'


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own takes root")
def test_a_full_disk_of_a_load_node_is_told_when_it_joins_and_loses_nothing_later(
    fleet: RunningFleet, tmp_path: Path
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    fleet.kill("b")
    fleet.start_nodes(["b"], {"b": (*IN_SMALL_TMP, MOUNTED, "sh", str(place))})
    there = Path(f"/proc/{fleet.nodes['b'].pid}/root{place}")
    filler = there / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while file.write(bytes(4096)):
            pass
    folder, listener = planned(tmp_path / "e", fleet.path, "first", length_s=0.5), Listener()
    assert carried_out(folder, listener), listener.failures
    [note] = Experiment.open(folder).run_notes().values()
    assert note.requests_by_server_count == note.requests_answered
    scheduler = scheduler_process(fleet.folder)
    assert scheduler is not None
    scheduler.kill()
    for node in fleet.nodes.values():
        wait_for_line(node, "lost its connection to the scheduler")
    # Its files are removed, so that others may use the space; without space it says why it can't join again.
    wait_until(lambda: [path.name for path in there.iterdir()] == ["filler"], "its directory has gone")
    with filler.open("ab", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while file.write(bytes(4096)):
            pass
    start_scheduler(fleet.folder)
    wait_for_line(fleet.nodes["b"], "No space left on device")
    assert [path.name for path in there.iterdir()] == ["filler"]
    filler.unlink()
    for node in fleet.nodes.values():
        wait_for_line(node, "has joined")
    fleet.kill("b")  # the next node must have the usual directory
