"""Sessions with a user's file server: refused ones are reported before any load, with a remedy.

Sessions that are lost during a load level are counted and replaced.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benches.levels import smb_target

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.preflight import preflight
from serverdyno.plan.expand import levels
from serverdyno.plan.model import GeneratorPlan, Suite
from serverdyno.plan.protocols.smb import SMB, SmbSettings
from serverdyno.servers.proof import free_port
from serverdyno.servers.registry import create
from support.disk_mix import begun, ended, whole
from support.dyno_process import Home
from support.file_server import needs_root
from support.users_smbd import PASSWORD, USER, UsersSmbd, started

OPERATIONS = 300
PAUSE_STEP_S, LONGEST_PAUSE_S = 0.01, 1.0  # after each failure in a row, see docs/file-servers.md


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsersSmbd]:
    """Start a server that no test changes."""
    running = started(tmp_path_factory.mktemp("users"))
    yield running
    running.kill()


def refusal(url: str, shares: tuple[str, ...], smb: dict[str, Any], user: str, password: str) -> DynoError:
    """Return the error of a run before its first level."""
    suite = Suite(
        name="tiny",
        title="Tiny",
        source="a test",
        workload="diskmix",
        clients=[1],
        length_s=1.0,
        sections={"smb": SmbSettings(**smb)},
    )
    driver = create(
        "external",
        {"shares": list(shares), "user": user},
        documents=Path(os.devnull),
        url=url,
    )
    with pytest.MonkeyPatch.context() as environment, pytest.raises(DynoError) as raised:
        environment.setenv("DYNO_SMB_PASSWORD", password)
        driver.ready()
        access = driver.access()
        target = open_target(SMB, access, suite.settings(SMB))
        driver.ask(target)
        setup = LoadSetup(suite=suite, target=target, generator=GeneratorPlan(), cpus=(), bounds=None)
        preflight(setup, levels(suite)[0])
    return raised.value


@needs_root
@pytest.mark.parametrize(
    ("asked", "said", "hint"),
    [
        ({"password": "wrong"}, "STATUS_LOGON_FAILURE (0xc000006d)", "name or password is wrong"),
        ({"user": "nobody-here"}, "STATUS_LOGON_FAILURE (0xc000006d)", "name or password is wrong"),
        ({"shares": ("nothing",)}, "STATUS_BAD_NETWORK_NAME (0xc00000cc)", "compare shares"),
        ({"shares": ("data", "nothing")}, "STATUS_BAD_NETWORK_NAME (0xc00000cc)", "compare shares"),
        ({"shares": ("denied",)}, "STATUS_ACCESS_DENIED (0xc0000022)", "give access"),
        (
            {"shares": ("sealed",), "smb": {"encryption": "off"}},
            "STATUS_ACCESS_DENIED (0xc0000022)",
            'encryption = "auto"',
        ),
        ({"shares": ("IPC$",)}, "printer or pipes", "Name a share with files"),
    ],
    ids=["password", "user", "share", "second-share", "denied", "sealed", "pipes"],
)
def test_a_session_that_is_refused_is_told_before_any_load(
    server: UsersSmbd, asked: dict[str, Any], said: str, hint: str
) -> None:
    wanted = {"shares": ("data",), "smb": {}, "user": USER, "password": PASSWORD} | asked
    error = refusal(server.url, **wanted)
    assert said in str(error)
    assert hint in (error.hint or "")
    assert "wrong" not in str(error)  # it does not show the password


@needs_root
@pytest.mark.parametrize(
    ("settings", "smb", "said", "hint"),
    [
        ("server signing = mandatory", {"signing": "off"}, "requires signatures", 'signing = "auto"'),
        (
            "server smb encrypt = required",
            {"encryption": "off"},
            "STATUS_ACCESS_DENIED",
            'encryption = "auto"',
        ),
        ("server min protocol = SMB3_11", {"max_dialect": "3.0.2"}, "none of the versions", "max_dialect"),
    ],
    ids=["signing", "encryption", "dialect"],
)
def test_a_server_that_requires_what_the_plan_has_off_is_told(
    tmp_path: Path, settings: str, smb: dict[str, Any], said: str, hint: str
) -> None:
    demanding = started(tmp_path, settings)
    try:
        error = refusal(demanding.url, ("data",), smb, USER, PASSWORD)
    finally:
        demanding.kill()
    assert said in str(error)
    assert hint in (error.hint or "")


@needs_root
def test_a_server_that_requires_encryption_needs_no_key_in_the_plan(tmp_path: Path) -> None:
    demanding = started(tmp_path, "server smb encrypt = required")
    try:
        result = ended(begun(to(demanding)))
    finally:
        demanding.kill()
    assert whole(result)
    assert [session["encryption"] for session in result["sessions"]] == ["AES-128-GCM"]


def test_nobody_listening_is_told() -> None:
    error = refusal(f"smb://127.0.0.1:{free_port()}/", ("data",), {}, USER, PASSWORD)
    assert "nothing answers SMB" in str(error)
    assert error.hint


PLAN = """
name = "refused"
title = "Refused"
suite = "quick-files"
repetitions = 1

[[servers]]
server = "external"
url = "{url}"
[servers.settings]
shares = ["data"]
user = "{user}"
"""


@needs_root
def test_a_run_with_a_wrong_password_ends_with_one_sentence_and_a_hint(
    server: UsersSmbd, home: Home, tmp_path: Path
) -> None:
    plan = tmp_path / "refused.toml"
    plan.write_text(PLAN.format(url=server.url, user=USER))
    done = home.here("run", plan, "--into", tmp_path / "e", DYNO_SMB_PASSWORD="wrong-one")
    words = " ".join(done.stderr.split())
    assert done.returncode == 1, words
    assert "the log-on was refused: STATUS_LOGON_FAILURE (0xc000006d)" in words
    assert "name or password is wrong" in words
    assert "Traceback" not in words and "wrong-one" not in words


def to(server: UsersSmbd) -> _native.Target:
    return smb_target(server.url, shares=["data"], user=USER, password=PASSWORD)


def until(load: _native.Load, operations: int) -> None:
    while load.snapshot()["operations"] < operations:
        assert not load.wait(0.02)


def faults(result: dict[str, Any]) -> dict[str, int]:
    """Return the faults with their counts, after checking that all are the server's or the network's."""
    assert {each["side"] for each in result["errors"]} <= {"server", "network"}, result["errors"]
    return {each["fault"]: each["count"] for each in result["errors"]}


@needs_root
@pytest.mark.parametrize("cache", ["none", "leases"])
def test_a_server_that_is_killed_and_started_again_is_used_on(
    tmp_path_factory: pytest.TempPathFactory, cache: str
) -> None:
    # Calls under way fail with an unknown outcome, so no later content counts as wrong.
    clients = 2
    server = started(tmp_path_factory.mktemp("users"))
    try:
        load = begun(
            to(server), files={"cache": cache}, clients=clients, length_s=600.0, leave_after_errors=None
        )
        until(load, OPERATIONS)
        server.kill()
        killed = time.monotonic()
        while load.snapshot()["errors"] < 5 * clients:
            assert not load.wait(0.02)
        server.start()
        # Too many for one client to have done them all while the other paused after a failure.
        until(load, load.snapshot()["operations"] + 10 * OPERATIONS)
        away_s = time.monotonic() - killed
        load.stop()
        result = ended(load)
    finally:
        server.kill()
    found = faults(result)
    assert found["connection_refused"] >= clients
    # The n-th failure in a row causes a pause of n steps, so that a dead server is not flooded with requests.
    pauses = math.sqrt(2 * away_s / PAUSE_STEP_S) + away_s / LONGEST_PAUSE_S
    assert sum(found.values()) <= clients * (pauses + 5)
    assert result["clients_participating"] == clients
    assert result["reconnects"] == clients
    # Processes that are being killed may accept some.
    assert result["connections"] >= 2 * clients
    checked = result["bytes_checked"]
    assert checked is not None and checked > 0


@needs_root
@pytest.mark.parametrize("cache", ["none", "leases"])
def test_a_share_that_is_taken_away_and_comes_back_costs_its_users_a_session(
    tmp_path_factory: pytest.TempPathFactory, cache: str
) -> None:
    clients = 1  # of several clients, one could do all the work while the others are still logging on
    server = started(tmp_path_factory.mktemp("users"))
    try:
        load = begun(
            to(server), files={"cache": cache}, clients=clients, length_s=600.0, leave_after_errors=None
        )
        until(load, OPERATIONS)
        server.close_share("data")
        while load.snapshot()["errors"] < clients:
            assert not load.wait(0.02)
        until(load, load.snapshot()["operations"] + OPERATIONS)
        load.stop()
        result = ended(load)
    finally:
        server.kill()
    assert faults(result)["session_lost"] >= clients
    assert result["reconnects"] == clients
