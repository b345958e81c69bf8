"""Killing a server that dyno started ends every wait for it: the error says how it ended, and nothing is left.

Each test checks messages and states. A wait for the dead server would exceed the time limit of `support`.
"""

from __future__ import annotations

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from benches.levels import files_level, http_target, nfs_target, smb_target

from serverdyno import _native
from serverdyno.errors import ServerEndedError
from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.plan.protocols.files import FilesSettings
from serverdyno.run.create import create_experiment
from serverdyno.servers import waiting
from serverdyno.servers.process import ServerProcess
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home, wait_until
from support.experiments import LEAST_WORKSPACE_BYTES, Breaker, carried_out
from support.file_server import PATIENCE_S, machine, needs_root, skip_unless_installed, wait_until_machine_is
from support.jobs import carried_out_alone
from support.reference_servers import start_nfs, start_smb
from support.suites_of_steps import bonnie_suite

PROGRAMS = {"ganesha": "ganesha.nfsd", "samba": "smbd", "nginx": "nginx"}
LENGTH_S = 120.0
"""Length of a level, most of which remains when the server is killed."""
MISSING_WORDS = "does not answer"


def first_process(tool: psutil.Process, server: str) -> psutil.Process | None:
    """Return the server's first process, below the keeper of a running `dyno`."""
    for keeper in tool.children():
        for process in keeper.children():
            if process.name() == PROGRAMS[server]:
                return process
    return None


def kill_once(home: Home, tool_pid: int, server: str, file: str) -> None:
    """Kill the server's first process once a file of that name is on its volume."""
    tool = psutil.Process(tool_pid)
    wait_until(lambda: any(home.temporary.rglob(file)), f"{file} on the server")
    process = first_process(tool, server)
    assert process is not None
    process.kill()


def check_told(told: str, server: str) -> None:
    assert f"{server} exited under load.\nThe server ended by signal 9." in told, told
    assert MISSING_WORDS not in told and "Traceback" not in told, told


VERBS: dict[str, tuple[list[str], str]] = {
    "bonnie": (["bonnie", "-s", "4000"], "Bonnie.*"),
    "several bonnies": (["bonnie", "-s", "2000", "--clients", "3"], "Bonnie.*.3"),
    "scenario metadata": (["scenario", "metadata"], "0.1"),
    "scenario streams": (["scenario", "streams"], "stream.0"),
}


@needs_root
@pytest.mark.parametrize("server", ["ganesha", "samba"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_whose_server_is_killed_says_so_and_leaves_nothing(home: Home, verb: str, server: str) -> None:
    skip_unless_installed(PROGRAMS[server])
    arguments, file = VERBS[verb]
    before = machine(home.temporary)
    with home.started(*arguments, "--server", server) as tool:
        kill_once(home, tool.pid, server, file)
        _, told = tool.communicate(timeout=PATIENCE_S)
    assert tool.returncode == 1
    check_told(told, server)
    assert home.processes() == []
    assert list(home.temporary.glob(f"serverdyno-{server}-*")) == []
    wait_until_machine_is(before)


PLAN = """
name = "p"
suite = "./large.toml"
repetitions = 1
[[servers]]
server = "ganesha"
name = "killed"
[[servers]]
server = "reference-nfs"
name = "other"
[servers.settings]
capacity_mib = 300
"""


@needs_root
def test_a_plan_of_steps_goes_on_with_the_next_server(home: Home, tmp_path: Path) -> None:
    skip_unless_installed(PROGRAMS["ganesha"])
    plan, folder = tmp_path / "plan.toml", tmp_path / "e"
    plan.write_text(PLAN)
    (tmp_path / "large.toml").write_text(bonnie_suite("large", size_mib=200, seeks=1))
    with home.started("run", plan, "--into", folder) as tool:
        kill_once(home, tool.pid, "ganesha", "Bonnie.*")
        _, told = tool.communicate(timeout=PATIENCE_S)
    assert "FAILED 001-killed-r1: ganesha exited under load" in told, told
    assert len(list((folder / "runs" / "002-other-r1").glob("level-*.parquet"))) == 6, told
    noted = json.loads((folder / "runs" / "001-killed-r1" / "run.json").read_text())
    assert noted["state"] == "failed"
    check_told(noted["reason"], "ganesha")
    assert home.processes() == []


class Killer(Breaker):
    """Kills the server's first process in the first level, and remembers how far that level came."""

    def __init__(self, server: str) -> None:
        super().__init__(self.kill, level=1)
        self.server, self.elapsed_s = server, 0.0

    def kill(self) -> None:
        process = first_process(psutil.Process(), self.server)
        assert process is not None
        process.kill()

    def level_tick(self, snapshot: _native.Snapshot) -> None:
        super().level_tick(snapshot)
        self.elapsed_s = snapshot["elapsed_s"]


@needs_root
@pytest.mark.parametrize("server", PROGRAMS)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_level_ends_with_its_server(tmp_path: Path, server: str, processes: int) -> None:
    skip_unless_installed(PROGRAMS[server])
    shape = {"name": "long", "title": "Long", "source": "a test", "clients": [2], "length_s": LENGTH_S}
    files = {"files": FilesSettings(workspace_bytes=LEAST_WORKSPACE_BYTES)}
    work = (
        {"workload": "webbench-static"} if server == "nginx" else {"workload": "diskmix", "sections": files}
    )
    suite = Suite.model_validate(shape | work)
    plan = Plan(
        name="long",
        title="Long",
        suite="long",
        repetitions=1,
        servers=[ServerPlan(server=server)],
        generator=GeneratorPlan(processes=processes),
    )
    folder = tmp_path / "e"
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
    killer = Killer(server)
    assert not carried_out(folder, killer)
    [failure] = killer.failures
    check_told(failure, server)
    assert 0 < killer.elapsed_s < LENGTH_S
    assert Experiment.open(folder).finished() == set()
    assert first_process(psutil.Process(), server) is None


SERVING = """
import socket, time
there = socket.create_server(("127.0.0.1", 0))
open("port", "w").write(str(there.getsockname()[1]) + "\\n")
client, _ = there.accept()
client.send(b"x")
client.recv(1)
"""


def test_whoever_sees_the_connection_end_finds_the_server_ended(tmp_path: Path) -> None:
    # A process closes its sockets before its parent can know that it has ended, yet it must never be reported as
    # running.
    for number in range(20):
        directory = tmp_path / str(number)
        directory.mkdir()
        server = ServerProcess.start([sys.executable, "-I", "-S", "-c", SERVING], directory)
        try:
            port = directory / "port"
            wait_until(lambda: port.exists() and port.read_text().endswith("\n"), "it listens")  # noqa: B023
            with socket.create_connection(("127.0.0.1", int(port.read_text()))) as client:
                assert client.recv(1) == b"x"
                [pid] = server.pids()
                psutil.Process(pid).kill()
                assert client.recv(1) == b""
                assert not server.running()
            assert "by signal 9" in server.failure()
        finally:
            server.stop()


def nobody_answers() -> tuple[socket.socket, _native.Target]:
    """Open a port that accepts connections and never answers, and a target for it."""
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
    return silent, http_target(url)


def test_a_question_ends_with_what_the_look_of_its_thread_raises() -> None:
    looks: list[str] = []

    def look() -> None:
        looks.append("looked")
        if len(looks) == 3:
            raise ServerEndedError("it ended")

    silent, target = nobody_answers()
    with silent, waiting.ended_by(look), pytest.raises(ServerEndedError, match="it ended"):
        _native.http_get(target, "/", timeout_s=PATIENCE_S, most_bytes=1)
    assert len(looks) == 3
    with silent, pytest.raises(_native.AnswerError):
        _native.http_get(target, "/", timeout_s=0.2, most_bytes=1)
    assert len(looks) == 3


def test_the_look_of_one_thread_ends_no_wait_of_another() -> None:
    def look() -> None:
        raise ServerEndedError("it ended")

    silent, target = nobody_answers()

    def ask() -> None:
        with pytest.raises(_native.AnswerError):
            _native.http_get(target, "/", timeout_s=0.2, most_bytes=1)

    with silent, waiting.ended_by(look), ThreadPoolExecutor(1) as pool:
        pool.submit(ask).result(PATIENCE_S)
        with pytest.raises(ServerEndedError):
            waiting.look()


def bonnie() -> dict[str, object]:
    spec = {
        "clients": 1,
        "file": "Bonnie.1",
        "bytes": 1 << 30,
        "chunk_bytes": 16384,
        "stdio_bytes": 1 << 20,
        "seeks": 1,
        "seekers": 1,
        "seed": 1,
        "check": True,
    }
    return {"bonnie": spec}


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_where_nothing_listens_any_more_a_users_server_is_not_said_to_accept_connections(
    version: str,
) -> None:
    # Like a hard mount, the client retries until its time is up, and then reports the last error.
    server = start_nfs()
    url = f"nfs://127.0.0.1:{server.port}/volume1?vers={version}&mountport={server.port}"
    target = nfs_target(url)

    def stop_once_written() -> None:
        if server.requests().get("WRITE"):
            server.stop()

    with waiting.ended_by(stop_once_written), pytest.raises(_native.AnswerError) as raised:
        carried_out_alone(target, bonnie(), 2.0)
    fault, side, words, advice, _ = raised.value.args
    assert (fault, side) == ("connection_refused", "server"), words
    assert advice is not None and "othing listens" in advice, advice


BLOCKS = {
    "workload": "failover",
    "blocks": 8,
    "block_bytes": 4096,
    "writes_per_flush": 4,
    "cut_connections_percent": None,
    "cache": "none",
}


@pytest.mark.parametrize("workload", [BLOCKS, {"workload": "diskmix"}], ids=["failover", "disk mix"])
def test_calls_of_durable_handles_that_meet_no_listener_say_so_and_not_that_nobody_answered(
    workload: dict[str, object],
) -> None:
    server = start_smb()
    url = f"smb://127.0.0.1:{server.port}/"
    target = smb_target(url, shares=["volume1"], durable_handles=True)
    shape = {"clients": 2, "threads": 1, "length_s": PATIENCE_S, "timeout_s": 0.5, "leave_after_errors": 1}
    load = files_level(target, workload, None, **shape).start()
    while not load.snapshot()["operations"]:
        assert not load.wait(0.02), load.result()["errors"]
    server.stop()
    while load.snapshot()["clients_active"]:
        assert not load.wait(0.02)
    load.stop()
    assert load.wait(PATIENCE_S)
    assert {error["fault"] for error in load.result()["errors"]} == {"connection_refused"}
