"""Errors of a user's smbd, each with the hint on its cause: a test per row of `advice.rs`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from benches.levels import smb_target

from serverdyno import _native
from serverdyno.plan.protocols.look import LOOK_S, look_s
from support.consenting import TOKEN
from support.dyno_process import PATIENCE_S, Home, wait_until
from support.file_server import needs_root
from support.users_smbd import PASSWORD, USER, UsersSmbd, started

pytestmark = [needs_root, pytest.mark.usefixtures("short_windows")]

SHARES = {
    "with space": "",
    "Žluťoučký": "",
    "veto": "veto files = /*.mrk/",
    "links": "msdfs root = yes",
    "read-only": "read only = yes",
    "not-entered": "",
    "removed": "",
    "others-alone": "valid users = root",
    "other-machines": "hosts deny = ALL",
    "kept": "vfs objects = recycle\n  recycle:repository = .recycle",
    "kept-below": "vfs objects = recycle\n  recycle:repository = .recycle",
    "full": "",
    "worm": "vfs objects = worm\n  worm:grace_period = 1",
    "few": "max connections = 2",
    "slow": "root preexec = /bin/sleep 4",
    "a-command-first": "root preexec = /bin/false\n  root preexec close = yes",
}
SUITE = """
name = "tiny"
title = "Tiny"
source = "a test"
workload = "diskmix"
clients = [1]
length_s = 1.0
[certainty]
clients = "choice: a test"
length_s = "choice: a test"
[files]
workspace_bytes = 15728640
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsersSmbd]:
    running = started(tmp_path_factory.mktemp("hints"), shares=SHARES)
    (running.at / "not-entered").chmod(0o700)
    (running.at / "removed").rmdir()
    (running.at / "links" / "elsewhere").symlink_to("msdfs:nas\\data")
    yield running
    running.kill()


class Asked(NamedTuple):
    """A share, by its URL path, and the user of the run; empty for a guest."""

    share: str
    path: str = ""
    user: str = USER


def run(home: Home, folder: Path, server: UsersSmbd, asked: Asked, more: str = "") -> str:
    (folder / "tiny.toml").write_text(SUITE + more)
    plan = folder / "plan.toml"
    who = f', user = "{asked.user}"' if asked.user else ""
    plan.write_text(
        f'name = "hints"\nsuite = "tiny.toml"\nrepetitions = 1\n[[servers]]\nserver = "external"\n'
        f'url = "{server.url}{asked.path}"\nsettings = {{ shares = ["{asked.share}"]{who} }}\n'
    )
    done = home.here("run", plan, "--into", folder / "e", DYNO_SMB_PASSWORD=PASSWORD)
    assert "Traceback" not in done.stderr
    return f"{done.returncode}\n{done.stderr}"


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        (Asked("share", "path", user="user"), "hint"),
        (Asked("veto"), "hides or removes it (Samba: veto files"),
        (Asked("links", "links/elsewhere"), "a DFS link to another server"),
        (Asked("links", "links/absent"), "create the directory of the URL"),
        (Asked("read-only"), "the share is read-only for this user"),
        (Asked("not-entered"), "chmod o+x the directory and all above it"),
        (Asked("removed"), "its directory may have been removed"),
        (Asked("absent"), "no share of this name: compare shares with `smbclient -L"),
        (Asked("others-alone"), "(Samba: valid users, invalid users, hosts allow, hosts deny)"),
        (Asked("a-command-first"), "(Samba: root preexec, preexec)"),
        (Asked("other-machines"), "or this machine: give access to it on the server"),
        (Asked("with space", user=""), "accepts no guests: name a user (user in the server's settings)"),
        (Asked("read-only"), "on Samba, read only = no, or the user in write list"),
        (
            Asked("with space", user="nobody-there"),
            "name or password is wrong (the password comes from DYNO_SMB",
        ),
        (Asked("with space", user="nobody-there"), "smbclient //HOST/SHARE -U USER"),
        (Asked("with space", user="nobody-there"), "smbpasswd -a USER sets one"),
    ],
)
def test_an_error_has_the_hint_of_its_cause(
    home: Home, server: UsersSmbd, tmp_path: Path, asked: Asked, hint: str
) -> None:
    said = run(home, tmp_path, server, asked)
    assert said[0] == "1" and hint in said, said


@pytest.mark.parametrize(("share", "path"), [("kept", ""), ("kept-below", "kept-below/here")])
def test_a_recycle_bin_that_fills_is_told_once_by_its_name(
    home: Home, server: UsersSmbd, tmp_path: Path, share: str, path: str
) -> None:
    here = server.at / "kept-below" / "here"
    here.mkdir(exist_ok=True)
    here.chmod(0o777)
    said = run(home, tmp_path, server, Asked(share, path))
    assert said[0] == "0" and said.count("recycle bin, .recycle, which has ") == 1, said
    assert (
        "Empty .recycle, and disable the recycle bin for this share (Samba: vfs objects without recycle)."
        in said
    )


@pytest.mark.parametrize(
    ("make", "said", "hint"),
    [
        (lambda file: (file.touch(), file.chmod(0o600)), "STATUS_ACCESS_DENIED", "(chmod a+r)"),
        (lambda file: file.mkdir(), "STATUS_FILE_IS_A_DIRECTORY", "must be a regular file of this name"),
    ],
    ids=["unreadable", "directory"],
)
def test_a_consent_that_can_not_be_read_is_told_with_its_file(
    server: UsersSmbd, make: Callable[[Path], Any], said: str, hint: str
) -> None:
    make(file := server.at / "few" / f"serverdyno-{TOKEN}.txt")
    try:
        with pytest.raises(_native.SessionError) as caught:
            smb_target(f"{server.url}few", password=PASSWORD, consent_token=TOKEN, user=USER)
    finally:
        file.rmdir() if file.is_dir() else file.unlink()
    why, advice = caught.value.args
    assert f"the file {file.name} in the root of the share few: " in why and said in why
    assert hint in advice


def test_a_suite_without_signatures_is_told_of_the_suites_section(
    home: Home, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    running = started(tmp_path_factory.mktemp("signing"), "server signing = mandatory")
    try:
        said = run(home, tmp_path, running, Asked("data"), '[smb]\nsigning = "off"\n')
    finally:
        running.kill()
    assert 'In [smb] of the suite, set signing = "auto" or "required".' in said, said


def test_a_share_that_is_slow_at_first_has_the_timeout_of_the_load(server: UsersSmbd) -> None:
    """A disk that wakes up: the share's command takes four seconds."""
    url = f"{server.url}slow"
    hurried, patient = (
        smb_target(url, password=PASSWORD, timeout_s=timeout_s, user=USER) for timeout_s in (1.0, 60.0)
    )
    [look] = hurried.look(1)
    assert "did not end in time" in (look["why"] or "") and "sleeping disk" in (look["advice"] or "")
    assert patient.look(2)[0]["why"] is None
    assert look_s(60) == 60 and look_s(0.1) == LOOK_S


def test_a_recycle_bin_is_told_of_bonnie_too(home: Home, server: UsersSmbd) -> None:
    done = bonnie(home, f"smb://127.0.0.1:{server.port}/kept")
    assert done.returncode == 0 and "recycle bin, .recycle, which has grown by 1 entry" in done.stderr, (
        done.stderr
    )


def test_a_share_that_takes_too_few_connections_is_told(home: Home, server: UsersSmbd) -> None:
    done = bonnie(home, f"smb://127.0.0.1:{server.port}/few")
    assert done.returncode == 1 and "(Samba: max connections)" in done.stderr, done.stderr
    assert bonnie(home, f"smb://127.0.0.1:{server.port}/few", "--seekers", "2").returncode == 0


def test_a_failure_of_bonnie_is_told_once(home: Home, server: UsersSmbd) -> None:
    (server.at / "full").chmod(0o555)
    done = bonnie(home, f"smb://127.0.0.1:{server.port}/full")
    (server.at / "full").chmod(0o777)
    assert done.stderr.count("STATUS_ACCESS_DENIED") == done.stderr.count("hint: ") == 1, done.stderr


def test_a_url_of_a_file_is_told(home: Home, server: UsersSmbd) -> None:
    (server.at / "veto" / "afile").touch()
    done = bonnie(home, f"smb://127.0.0.1:{server.port}/veto/afile")
    assert done.returncode in (1, 2) and "The URL names a file: name its directory." in done.stderr, (
        done.stderr
    )


@pytest.mark.parametrize(
    ("settings", "command", "hint"),
    [
        ("ntlm auth = disabled", (), "The server accepts only Kerberos, not NTLM"),
        ("", ("-d",), "The account is disabled: have it enabled"),
        (
            "map to guest = Bad Password\n  guest account = nobody",
            ("-a", "else"),
            "check the spelling of --user",
        ),
    ],
)
def test_a_server_that_lets_nobody_in_has_the_hint_of_its_cause(
    home: Home, tmp_path_factory: pytest.TempPathFactory, settings: str, command: tuple[str, ...], hint: str
) -> None:
    at = tmp_path_factory.mktemp("refusing")
    running = UsersSmbd(at, settings)
    if command == ("-d",):
        configured = ["smbpasswd", "-c", str(at / "smb.conf"), "-d", USER]
        subprocess.run(configured, check=True, capture_output=True, timeout=PATIENCE_S)
    running.start()
    try:
        password = "wrong" if "Bad Password" in settings else PASSWORD
        done = bonnie(home, f"smb://127.0.0.1:{running.port}/data", password=password)
    finally:
        running.kill()
    assert done.returncode in (1, 2) and hint in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("user", "password", "hint"),
    [
        (f"{USER}%{PASSWORD}", PASSWORD, "as in user%password of smbclient"),
        (f"{USER}:x", PASSWORD, "contains a % or a colon"),
        (USER, "", "The password is empty: export DYNO_SMB_PASSWORD"),
        (USER, f"{PASSWORD}\n", 'DYNO_SMB_PASSWORD="$(cat FILE)"'),
        (USER, f'"{PASSWORD}"', "leave them out of DYNO_SMB_PASSWORD"),
        (USER, "wrong", "Write a domain's user as DOMAIN\\user"),
    ],
)
def test_a_log_on_that_is_written_wrongly_is_told(
    home: Home, server: UsersSmbd, user: str, password: str, hint: str
) -> None:
    done = bonnie(home, f"{server.url}with space", "--user", user, password=password)
    assert done.returncode == 1 and hint in done.stderr, done.stderr
    assert PASSWORD not in done.stderr or "%" in user


@pytest.mark.parametrize("user", ["BENCH/nobody", "BENCH\\nobody"])
def test_a_domain_stands_before_either_slash(home: Home, server: UsersSmbd, user: str) -> None:
    done = bonnie(home, f"{server.url}with space", "--user", user)
    assert done.returncode == 0, done.stderr


def test_doubled_slashes_of_a_url_count_as_one(home: Home, server: UsersSmbd) -> None:
    done = bonnie(home, f"smb://127.0.0.1:{server.port}//with%20space//")
    assert done.returncode == 0, done.stderr


def test_a_server_that_is_killed_under_load_is_told_as_gone(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    running = started(tmp_path_factory.mktemp("killed"))
    place = f"smb://127.0.0.1:{running.port}/data"
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("DYNO_SMB_PASSWORD", PASSWORD)
            arguments = ("bonnie", "-s", "64", "--user", USER, "-d", place)
            with home.started(*arguments) as tool:
                wait_until(lambda: bool(list((running.at / "data").iterdir())), "Bonnie has its file")
                running.kill()
                said = tool.communicate(timeout=PATIENCE_S)[1]
    finally:
        running.kill()
    assert tool.returncode == 1 and "still runs" in said, said


def bonnie(
    home: Home, place: str, *options: str, password: str = PASSWORD
) -> subprocess.CompletedProcess[str]:
    arguments = ("bonnie", "-s", "1", "--seeks", "10", "--user", USER, "-d", place, *options)
    return home.here(*arguments, DYNO_SMB_PASSWORD=password)


@pytest.mark.parametrize(
    "path", ["with%20space", "with space", "%C5%BDlu%C5%A5ou%C4%8Dk%C3%BD", "Žluťoučký", "Žluťoučký/a b"]
)
def test_a_share_may_have_any_name(home: Home, server: UsersSmbd, path: str) -> None:
    (server.at / "Žluťoučký" / "a b").mkdir(exist_ok=True)
    (server.at / "Žluťoučký" / "a b").chmod(0o777)
    done = bonnie(home, f"smb://127.0.0.1:{server.port}/{path}")
    assert done.returncode == 0, done.stderr


def refused_log_ons(server: UsersSmbd, *options: str) -> int:
    """Return the number of log-ons with a wrong password that Samba counted for the user."""
    command = ["pdbedit", "-s", str(server.at / "smb.conf"), *options]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout
    return int(said.partition("Bad password count  :")[2].split()[0]) if "Bad password count" in said else 0


@pytest.mark.parametrize(
    "command",
    [
        ("bonnie", "-s", "1", "--seeks", "20", "-c", "4"),
        ("scenario", "metadata", "--scale", "0.01"),
    ],
)
def test_a_wrong_password_is_sent_once_since_servers_lock_accounts(
    home: Home, server: UsersSmbd, command: tuple[str, ...]
) -> None:
    refused_log_ons(server, "-P", "bad lockout attempt", "-C", "500")
    before = refused_log_ons(server, "-Lv", "-u", USER)
    done = home.here(*command, "-d", f"{server.url}veto", "--user", USER, DYNO_SMB_PASSWORD="wrong")
    assert done.returncode == 1 and "name or password is wrong" in done.stderr, done.stderr
    assert refused_log_ons(server, "-Lv", "-u", USER) == before + 1
