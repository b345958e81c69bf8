"""A run leaves nothing on a user's file server, or names it."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benches.levels import files_level, smb_target

from serverdyno import _native
from serverdyno.plan.model import Level, Plan, RunKey, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.run.create import create_experiment
from serverdyno.store.experiment import Experiment
from support.disk_mix import CLIENTS_DIRECTORY, begun, clients_directory, ended
from support.dyno_process import PATIENCE_S, Home, wait_for_line
from support.experiments import Listener, carried_out
from support.file_server import needs_root
from support.users_smbd import PASSWORD, USER, UsersSmbd, left_on, started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsersSmbd]:
    """Return a server that runs at the start of each test."""
    running = started(tmp_path_factory.mktemp("users"))
    yield running
    running.kill()


pytestmark = needs_root
LEAST_WORKSPACE_BYTES = 15 << 20


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)


def created(folder: Path, url: str, clients: list[int], length_s: float, *shares: str) -> Path:
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="diskmix",
        clients=clients,
        length_s=length_s,
        sections={"files": FilesSettings(workspace_bytes=LEAST_WORKSPACE_BYTES)},
    )
    settings = {"shares": list(shares), "user": USER}
    users = ServerPlan(server="external", url=url, settings=settings)
    plan = Plan(name="tiny", title="Tiny", suite="tiny", repetitions=1, servers=[users])
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    return folder


def test_a_run_that_ends_well_leaves_the_shares_as_they_were(server: UsersSmbd, tmp_path: Path) -> None:
    # This includes a share that no client uses, because the preflight looks at it, too.
    folder = created(tmp_path / "e", server.url, [1], 0.5, "data", "more")
    listener = Listener()
    assert carried_out(folder, listener)
    assert (listener.notices, listener.failures) == ([], [])
    assert left_on(server, "data", "more") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_run_takes_its_workspaces_away(
    home: Home, server: UsersSmbd, tmp_path: Path, number: int
) -> None:
    folder = created(tmp_path / "e", server.url, [2, 3], 30.0, "data", "more")
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "starting")
        wait_until_made(dyno, server.at / "data", "0")
        dyno.send_signal(number)
        _, told = dyno.communicate(timeout=PATIENCE_S)
    assert dyno.returncode == 128 + number, told
    assert "removing the clients' workspaces" in told and "60 s at most" in told
    assert "are left" not in told and "Traceback" not in told
    assert left_on(server, "data", "more") == []


def wait_until_made(dyno: subprocess.Popen[str], share: Path, client: str) -> None:
    """Wait until a client's workspace exists; only the file system shows it."""
    deadline = time.monotonic() + PATIENCE_S
    while not [*share.glob(f"{CLIENTS_DIRECTORY}-*/{client}/bulk/complete.mrk")]:
        if time.monotonic() >= deadline or dyno.poll() is not None:
            dyno.kill()
            raise AssertionError(f"no workspace is made: {dyno.communicate()[1]}")
        time.sleep(0.01)


@contextmanager
def held_still(server: UsersSmbd) -> Iterator[None]:
    """Stop the server's processes without ending them."""
    processes = server.processes()
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def test_what_a_second_interrupt_leaves_is_named_with_a_command_that_removes_it(
    home: Home, server: UsersSmbd, tmp_path: Path
) -> None:
    folder = created(tmp_path / "e", server.url, [3], 30.0, "data", "more")
    with home.started("resume", folder) as dyno:
        for share, client in (("data", "0"), ("more", "1"), ("data", "2")):
            wait_until_made(dyno, server.at / share, client)
        directory = clients_directory(server.at / "data").name
        with held_still(server):
            dyno.send_signal(signal.SIGINT)
            wait_for_line(dyno, "a second interrupt stops this and leaves the rest")
            dyno.send_signal(signal.SIGINT)
            _, told = dyno.communicate(timeout=PATIENCE_S)
    assert dyno.returncode == 130, told
    assert f"some workspaces could not be removed from {server.url}:" in told
    assert f"share data: {directory}/0, {directory}/2" in told
    assert f"share more: {directory}/1" in told
    assert PASSWORD not in told
    assert left_on(server, "data", "more") == [f"data/{directory}", f"more/{directory}"]
    commands = re.findall(r"smbclient [^;\n]+", told)
    assert len(commands) == 2
    for command in commands:
        subprocess.run(
            [*shlex.split(command), "--password", PASSWORD, "-s", server.at / "smb.conf"],
            check=True,
            capture_output=True,
            timeout=PATIENCE_S,
        )
    assert left_on(server, "data", "more") == []


class Killer(Listener):
    """Ends the server in the middle of the level with this number of clients."""

    def __init__(self, server: UsersSmbd, clients: int) -> None:
        super().__init__()
        self.server, self.clients, self.due = server, clients, False

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        self.due = level.clients == self.clients

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        if self.due and snapshot["operations"] > 0:
            self.server.kill()
            self.due = False


def test_a_level_whose_server_is_gone_is_no_measurement(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    server = started(tmp_path_factory.mktemp("dies"))
    try:
        folder = created(tmp_path / "e", server.url, [1, 2, 3], 0.5, "data")
        killer = Killer(server, 2)
        assert not carried_out(folder, killer)
        assert "nothing accepted the connection" in killer.failures[0]
        assert Experiment.open(folder).finished() == {(1, 1)}  # a resume does the others
    finally:
        server.kill()


def test_two_loads_on_one_share_do_not_touch_each_others_files(server: UsersSmbd) -> None:
    target = smb_target(server.url, shares=["data"], user=USER, password=PASSWORD)
    first = begun(target, length_s=PATIENCE_S, files={"keep_workspace": False})
    while first.snapshot()["operations"] == 0:
        assert not first.wait(0.01), ended(first)["errors"]
    second = ended(begun(target, length_s=0.5, files={"keep_workspace": False}))
    first.stop()
    for result in (ended(first), second):
        assert (result["errors"], result["clients_participating"]) == ([], 2)


def test_what_a_server_that_is_gone_keeps_is_removed_once_it_is_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    server = started(tmp_path_factory.mktemp("gone"))
    try:
        target = smb_target(server.url + "data/below", shares=["data"], user=USER, password=PASSWORD)
        (server.at / "data" / "below").mkdir(mode=0o777)
        (server.at / "data" / "below").chmod(0o777)
        workspaces = _native.Workspaces()
        load = begun(target, workspaces=workspaces, length_s=60.0)
        while load.snapshot()["operations"] == 0:
            assert not load.wait(0.01)
        directory = clients_directory(server.at / "data" / "below").name
        server.kill()
        load.stop()
        ended(load)
        level = files_level(target, {"workload": "diskmix"}, workspaces, clients=2, length_s=1.0)
        gone = level.remove_workspaces(0.3)
        assert gone is not None
        assert gone.wait(PATIENCE_S)
        left = gone.left()
        assert [(one["share"], one["directory"]) for one in left] == [
            ("data", f"below/{directory}/0"),
            ("data", f"below/{directory}/1"),
        ]
        assert all("nothing accepted the connection" in (one["why"] or "") for one in left)
        server.start()
        back = level.remove_workspaces(PATIENCE_S)
        assert back is not None
        assert back.wait(PATIENCE_S)
        assert (back.left(), workspaces.standing()) == ([], [])
        assert list((server.at / "data" / "below").iterdir()) == []
    finally:
        server.kill()
