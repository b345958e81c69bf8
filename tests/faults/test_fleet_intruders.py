"""The holder of one node's certificate can run nothing in a fleet, and the fleet reports what is wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from benches.levels import http_target

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.fleet import cluster, link
from serverdyno.fleet.contract import Node
from serverdyno.fleet.folder import CONTROLLER, SCHEDULER, create
from serverdyno.fleet.membership import fleet_at
from serverdyno.fleet.serving import NodeServer
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.run.create import create_experiment
from serverdyno.servers.base import Access, Description
from serverdyno.servers.proof import free_port
from serverdyno.servers.running import running
from support import fleet_intruder
from support.dyno_process import PATIENCE_S, Home, wait_for_line
from support.experiments import Listener, carried_out
from support.file_server import needs_root
from support.fleet_level import carried, level
from support.fleet_nodes import RunningFleet, ended, running_fleet
from support.reference_servers import start_http

TOKEN = "0123456789abcdef"
NO_SECRETS: dict[str, str | None] = {"consent_token": None, "password": None}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    """Start a fleet of the real node a; the intruder uses the folder of node b."""
    folder = tmp_path_factory.mktemp("intruders") / "lab"
    with running_fleet(folder, ("a", "b")) as fleet:
        ended(fleet.nodes.pop("b"))
        yield fleet


@pytest.fixture
def target() -> Iterator[_native.Target]:
    server = start_http()
    try:
        yield http_target(f"http://127.0.0.1:{server.port}/")
    finally:
        server.stop()


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Return the path of a file that must never exist."""
    return tmp_path / "harm"


def command(how: str, fleet: RunningFleet, marker: Path, last: str) -> list[str]:
    module = "support.fleet_intruder"
    return [sys.executable, "-m", module, how, str(fleet.folder.node("b")), str(marker), last]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(fleet_intruder.__file__).parent.parent)}


def attacked(how: str, fleet: RunningFleet, marker: Path) -> dict[str, str]:
    """Return the outcome of each attack, as the intruder reports it."""
    with cluster.connected(fleet.folder) as connection:
        victim = connection.members()["a"]
    words = command(how, fleet, marker, victim)
    done = subprocess.run(
        words, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def hostile(how: str, fleet: RunningFleet, marker: Path, last: str) -> Iterator[None]:
    """Run the intruder as node b, after it has joined."""
    words = command(how, fleet, marker, last)
    with subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for_line(process, "b has joined")
            yield
        finally:
            process.kill()


def assert_node_a_still_works(fleet: RunningFleet, target: _native.Target) -> None:
    with fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS, apart=["b"]) as nodes:
        assert carried(nodes, level(target, length_s=1.0))["operations_total"] > 0


def test_dasks_own_client_runs_nothing_with_a_nodes_certificate(
    fleet: RunningFleet, target: _native.Target, marker: Path
) -> None:
    found = attacked("dask", fleet, marker)
    assert not marker.exists(), found
    assert len(found) == 11
    assert not [name for name, said in found.items() if said.startswith(("done", "answered"))], found
    assert_node_a_still_works(fleet, target)


def test_a_nodes_certificate_can_ask_nothing_but_to_join_as_that_node(
    home: Home, fleet: RunningFleet, target: _native.Target, marker: Path
) -> None:
    refused_before = refused(home, fleet)
    found = attacked("client", fleet, marker)
    assert not marker.exists(), found
    for name in fleet_intruder.REQUESTS:
        assert found.pop(name) == f"answered: {{'refused': \"unknown request '{name}'\"}}"
    assert "can't be used to join as 'a'" in found.pop("foreign name")
    assert "can't be used to join as 'controller'" in found.pop("controller's name")
    assert "only the controller may send this request" in found.pop("members")
    assert "can't be used to join as {'__Pickled__': 1}" in found.pop("a marked pickle")
    # The connection ends if its data can't be read, also for strangers to a node.
    assert len(found) == 4
    assert not [said for said in found.values() if said.startswith("answered")], found
    assert refused(home, fleet) == refused_before + 1
    assert_node_a_still_works(fleet, target)


def refused(home: Home, fleet: RunningFleet) -> int:
    """Return the number of connections that the fleet has refused so far."""
    told = home.dyno("fleet", "status", fleet.path).stdout.replace("\n", " ")
    return int(told.partition("connections refused: ")[2].split()[0])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("facts: an error", "node b is not used: it failed: boom"),
        ("facts: a pickle", "node b is not used: it sent a message that is not a map"),
        ("facts: frames of Dask", "node b is not used: it sent a message that is not plain data"),
        ("facts: nothing that it should", "node b sent a malformed description of itself: "),
        ("facts: another shape", "node b sent a malformed description of itself: host: Field required"),
        ("look: an error", "node b is lost: it failed: boom"),
        ("look: a pickle", "node b is lost: it sent a message that is not a map"),
        ("look: frames of Dask", "node b is lost: it sent a message that is not plain data"),
        (
            "look: a pickle in an answer",
            "can't parse the answer from node b: the message is damaged",
        ),
        ("look: nothing that it should", "node b is lost: its answer is malformed"),
        ("look: another shape", "node b sent a malformed answer to start: "),
    ],
)
def test_what_a_hostile_node_answers_is_not_run_and_ends_in_words(
    fleet: RunningFleet, target: _native.Target, marker: Path, kind: str, words: str
) -> None:
    with hostile("node", fleet, marker, kind), pytest.raises(DynoError, match=words):  # noqa: SIM117
        with fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS) as nodes:
            carried(nodes, level(target))
    assert not marker.exists()
    assert_node_a_still_works(fleet, target)


def test_a_node_that_gives_the_address_of_another_is_told_by_its_certificate(
    fleet: RunningFleet, target: _native.Target, marker: Path
) -> None:
    with cluster.connected(fleet.folder) as connection:
        elsewhere = connection.members()["a"]
    with (
        hostile("at", fleet, marker, elsewhere),
        pytest.raises(DynoError, match="shows the certificate of a, not of b"),
        fleet_at(fleet.path, GeneratorPlan(), target, NO_SECRETS),
    ):
        pass
    assert_node_a_still_works(fleet, target)


@pytest.mark.parametrize(
    "harm",
    [
        {"url": "http://127.0.0.1:80"},
        {"secure_url": "https://[::1]:443"},
        {"connect_to": "/run/other.sock"},
        {"network_namespace": "/proc/1/ns/net"},
        {"network_namespace": "/dev/zero", "claims": True},
        {"network_namespace": "/proc/1/ns/net/../../root/run/fifo", "claims": True},
    ],
    ids=str,
)
def test_load_goes_nowhere_else_than_to_the_node_that_was_asked_to_serve(harm: dict[str, Any]) -> None:
    # `claims`: the node says that it is on this machine.
    access = dataclasses.asdict(Access("http://10.0.0.2:4000", secure_url="https://10.0.0.2:4001"))
    description = dataclasses.asdict(Description("nginx", "1", [], {}))
    told = {"number": 1, "access": access, "description": description}
    there: Node = SimpleNamespace(name="node b", on_this_machine=harm.pop("claims", False))
    assert NodeServer(there, told, {"address": "10.0.0.2"}, TOKEN).url == access["url"]
    with pytest.raises(DynoError, match="the server must be at 10\\.0\\.0\\.2"):
        NodeServer(there, told | {"access": access | harm}, {"address": "10.0.0.2"}, TOKEN)


def test_a_node_has_no_load_sent_to_a_server_of_this_machine_that_did_not_consent(
    fleet: RunningFleet, marker: Path, tmp_path: Path
) -> None:
    victim = start_http()
    try:
        failure = failure_of_a_false_server(
            fleet, marker, tmp_path, "reference", {"url": f"http://127.0.0.1:{victim.port}/"}
        )
        assert f"127.0.0.1:{victim.port} has not consented to load" in failure
        assert victim.requests == 1, "it is asked for its consent, and for nothing else"
    finally:
        victim.stop()


@needs_root
def test_a_node_has_no_load_sent_into_a_network_namespace_that_did_not_consent(
    fleet: RunningFleet, marker: Path, tmp_path: Path
) -> None:
    with running("reference-nfs", {"network": "namespace"}) as victim:
        access = victim.access()
        harm = {name: getattr(access, name) for name in ("url", "shares", "network_namespace")}
        failure = failure_of_a_false_server(fleet, marker, tmp_path, "reference-nfs", harm)
    assert access.network_namespace is not None
    assert f"{urlsplit(access.url).netloc} has not consented to load" in failure


def failure_of_a_false_server(
    fleet: RunningFleet, marker: Path, tmp_path: Path, server: str, harm: dict[str, Any]
) -> str:
    """Return the error of the run of a server on node b, which gives access to something else instead."""
    workload = "webbench-static" if server == "reference" else "diskmix"
    suite = Suite(name="tiny", source="a test", workload=workload, clients=[1], length_s=1.0)
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        servers=[ServerPlan(server=server, node="b")],
        generator=GeneratorPlan(fleet=str(fleet.path)),
    )
    with create_experiment(tmp_path / "e", "# made by a test\n", plan, [suite]):
        pass
    listener = Listener()
    with hostile("node", fleet, marker, f"serve: {json.dumps(harm)}"):
        assert not carried_out(tmp_path / "e", listener)
    [failure] = listener.failures
    return failure


def test_a_node_in_the_schedulers_place_is_told_by_its_certificate(tmp_path: Path) -> None:
    folder = create(tmp_path / "lab", f"127.0.0.1:{free_port()}", ["a", "b"], days=1)
    own = folder.path / SCHEDULER
    for name in ("certificate.pem", "certificate.key"):
        (own / name).write_bytes((folder.node("b") / name).read_bytes())
    scheduler = [sys.executable, "-m", "serverdyno.fleet.scheduler", str(folder.path)]
    with subprocess.Popen(scheduler) as process:
        try:
            with pytest.raises(
                DynoError, match="has the certificate of b, not that of the fleet's scheduler"
            ):
                link.wait_for(folder.at, folder.path / CONTROLLER, PATIENCE_S)
            with pytest.raises(
                DynoError, match="has the certificate of b, not that of the fleet's scheduler"
            ):
                link.check(folder.at, folder.node("a"))
        finally:
            process.kill()


def test_every_file_of_a_fleet_is_its_users_alone_whatever_the_umask(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "made" / "lab"
    before = os.umask(0)
    try:
        told = home.dyno("fleet", "init", folder, "--at", "127.0.0.1", "--nodes", "a,b")
        assert told.returncode == 0, told.stderr
        renewed = home.dyno("fleet", "init", folder, "--at", "127.0.0.1", "--nodes", "a", "--renew")
        assert renewed.returncode == 0, renewed.stderr
    finally:
        os.umask(before)
    paths = [folder.parent, folder, *folder.rglob("*")]
    assert len(paths) > 20
    assert not [path for path in paths if path.stat().st_mode & 0o077]


def test_a_node_can_not_have_the_name_of_a_role(home: Home, tmp_path: Path) -> None:
    told = home.dyno(
        "fleet", "init", tmp_path / "lab", "--at", "127.0.0.1", "--nodes", "a,scheduler,controller"
    )
    assert told.returncode == 2
    assert (
        "controller and scheduler: this name is reserved, so choose another one for the node" in told.stderr
    )
