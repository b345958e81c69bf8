"""The user's own servers are checked before anything takes time; all problems are reported at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benches.levels import smb_target

from serverdyno.errors import ServerError
from serverdyno.plan.model import ServerPlan
from serverdyno.servers.proof import free_port
from serverdyno.store.experiment import Experiment
from support.consenting import said
from support.disk_mix import CLIENTS_DIRECTORY
from support.experiments import Listener, carried_out, created
from support.file_server import needs_root
from support.places import TESTS
from support.users_smbd import PASSWORD, USER, UsersSmbd, started

BLOCKS = 1024  # of 1 KiB, a MiB
# smbd runs it in the share's directory and believes its output.
DFREE = '#!/bin/sh\ncat "$PWD.dfree" 2>/dev/null || echo 100000000 50000000\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsersSmbd]:
    """Start a server that reports the free space in `SHARE.dfree`: total blocks and free blocks."""
    script = tmp_path_factory.mktemp("dfree") / "dfree"
    script.write_text(DFREE)
    for path in (script, script.parent):
        path.chmod(0o755)
    running = started(tmp_path_factory.mktemp("users"), f"dfree command = {script}")
    yield running
    running.kill()


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNO_SMB_PASSWORD", PASSWORD)


def users(name: str, url: str, *shares: str, **settings: Any) -> ServerPlan:
    given = {"shares": list(shares or ["data"]), "user": USER} | settings
    return ServerPlan(server="external", name=name, url=url, settings=given)


def refusal(folder: Path) -> tuple[ServerError, Listener]:
    """Return the error that stops the experiment before it starts, and the listener."""
    listener = Listener()
    with pytest.raises(ServerError) as raised:
        carried_out(folder, listener)
    opened = Experiment.open(folder)
    assert (opened.levels(), opened.run_notes()) == ([], {})
    assert listener.stages == [
        "recording the properties of this machine",
        "checking that your servers answer",
    ]
    return raised.value, listener


@needs_root
def test_every_file_server_that_cannot_be_used_is_named_before_any_load(
    server: UsersSmbd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "not-it")
    monkeypatch.delenv("NEVER_SET", raising=False)
    folder = created(
        tmp_path / "e",
        [1],
        ServerPlan(server="reference-smb", name="private"),
        users("good", server.url),
        users("stranger", server.url, password_variable="WRONG"),
        users("elsewhere", server.url, "data", "nothing", "denied"),
        users("dead", f"smb://127.0.0.1:{free_port()}/"),
        users("speechless", server.url, password_variable="NEVER_SET"),
        users("lost", f"{server.url}data/nowhere"),
    )
    error, _ = refusal(folder)
    told = str(error).splitlines()
    assert told[0] == "5 servers can't be loaded:"
    problems = {line.split(":")[0].strip(): line for line in told if line.startswith("  ") and line[2] != " "}
    assert list(problems) == ["stranger", "elsewhere", "dead", "speechless", "lost"]
    assert "STATUS_LOGON_FAILURE" in problems["stranger"]
    assert "share nothing: " in problems["elsewhere"] and "STATUS_BAD_NETWORK_NAME" in problems["elsewhere"]
    assert "share denied: " in problems["elsewhere"] and "share data: " not in problems["elsewhere"]
    assert "nothing answers SMB" in problems["dead"]
    assert "NEVER_SET is not set" in problems["speechless"]
    assert "STATUS_OBJECT_NAME_NOT_FOUND" in problems["lost"]
    assert sum("hint: " in line for line in told) >= 4
    assert "not-it" not in str(error) and list((server.at / "data").iterdir()) == []


def test_every_web_server_that_cannot_be_used_is_named_before_any_load(
    namespace: str,
) -> None:
    # One server does not answer, and one has not consented to load.
    script = f"""
        import os, sys, tempfile
        sys.path.insert(0, {str(TESTS)!r})
        from pathlib import Path
        os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp()
        from serverdyno.errors import DynoError
        from serverdyno.plan.model import Bounds, ServerPlan
        from support.experiments import created
        from support.experiments import Listener, carried_out

        bounds = Bounds(max_clients=1, max_rate_per_s=1, max_length_s=1)
        url = serve(lambda path, host: (404, ""))
        servers = [
            ServerPlan(server="reference", name="private"),
            ServerPlan(server="external", name="unasked", url=url, bounds=bounds),
            ServerPlan(server="external", name="dead", url="http://127.0.0.1:9/"),
        ]
        folder = created(Path(tempfile.mkdtemp()) / "e", [1], *servers, workload="webbench-static")
        listener = Listener()
        try:
            carried_out(folder, listener)
        except DynoError as error:
            print(error)
        print(listener.stages)
    """
    lines = said(namespace, script).splitlines()
    assert lines[0] == "2 servers can't be loaded:"
    assert lines[1].startswith("  unasked: ") and "has not consented to load" in lines[1]
    assert any(line.startswith("  dead: nothing answers HTTP") for line in lines)
    assert lines[-1] == "['recording the properties of this machine', 'checking that your servers answer']"


@needs_root
def test_shares_without_the_room_for_the_largest_level_are_told_before_any_workspace_is_made(
    server: UsersSmbd, tmp_path: Path
) -> None:
    room = server.at / "data.dfree"
    room.write_text(f"{1000 * BLOCKS} {40 * BLOCKS}\n")
    try:
        folder = created(tmp_path / "e", [1, 6], users("small", server.url, "data", "more"))
        error, _ = refusal(folder)
    finally:
        room.unlink()
    # Each share has 3 of the 6 clients; a workspace of 15 MiB grows a little in a pass.
    assert "share data needs 3 x " in str(error) and "40 MiB are free" in str(error)
    assert "share more" not in str(error)
    assert "fewer clients" in (error.hint or "")
    assert list((server.at / "data").iterdir()) == []


@needs_root
def test_a_server_that_says_nothing_true_of_its_room_is_measured(server: UsersSmbd, tmp_path: Path) -> None:
    target = smb_target(server.url, shares=["data"], user=USER, password=PASSWORD)
    room = server.at / "data.dfree"
    try:
        for text in (f"{10 * BLOCKS} {20 * BLOCKS}", "", "0 0"):
            room.write_text(f"{text}\n")
            [look] = target.look(1)
            assert (look["free_bytes"], look["why"]) == (None, None), text
        listener = Listener()
        assert carried_out(created(tmp_path / "e", [1], users("odd", server.url)), listener), (
            listener.failures
        )
    finally:
        room.unlink()
    assert (listener.failures, listener.notices) == ([], [])


@needs_root
def test_what_a_killed_load_has_left_is_told_with_a_command_that_removes_it(
    server: UsersSmbd, tmp_path: Path
) -> None:
    stranger = server.at / "more" / f"{CLIENTS_DIRECTORY}-0123abcd" / "77"
    stranger.mkdir(parents=True)
    stranger.parent.chmod(0o777)
    try:
        listener = Listener()
        folder = created(tmp_path / "e", [1], users("mine", server.url, "data", "more"))
        assert carried_out(folder, listener), listener.failures
        assert stranger.is_dir()
    finally:
        stranger.rmdir()
        stranger.parent.rmdir()
    [notice] = listener.notices
    assert f"{CLIENTS_DIRECTORY}-* already exists on share more" in notice
    assert f"smbclient //127.0.0.1/more -p {server.port} -U {USER}" in notice
