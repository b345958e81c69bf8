"""What an smbd of the user's can refuse, and the hint that leads to its cause: a row of `advice.rs` each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.dyno_process import Home
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
    "full": "",
    "worm": "vfs objects = worm\n  worm:grace_period = 1",
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
    """A share, by the URL's path, as a user; empty: a guest."""

    share: str
    path: str = ""
    user: str = USER


def run(home: Home, folder: Path, server: UsersSmbd, asked: Asked) -> str:
    """Return what `dyno run` says of one run on a share, or in a directory of it."""
    (folder / "tiny.toml").write_text(SUITE)
    plan = folder / "plan.toml"
    who = f', user = "{asked.user}"' if asked.user else ""
    plan.write_text(
        f'name = "hints"\nsuite = "tiny.toml"\nrepetitions = 1\n[[servers]]\nserver = "external-smb"\n'
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
        (Asked("links", "links/absent"), "make the directory that the URL names"),
        (Asked("read-only"), "may be read-only (Samba: read only, write list)"),
        (Asked("not-entered"), "chmod o+x the directory and all above it"),
        (Asked("removed"), "its directory may have been removed"),
        (Asked("absent"), "no share of this name: check shares against `smbclient -L"),
        (Asked("others-alone"), "(Samba: valid users, invalid users, hosts allow, hosts deny)"),
        (Asked("other-machines"), "or this machine: give access to it on the server"),
        (Asked("with space", user=""), "lets no guest in: name a user (`user` in a plan, --user"),
        (Asked("with space", user="nobody-there"), "name or password is wrong"),
    ],
)
def test_an_error_has_the_hint_of_its_cause(
    home: Home, server: UsersSmbd, tmp_path: Path, asked: Asked, hint: str
) -> None:
    said = run(home, tmp_path, server, asked)
    assert said[0] == "1" and hint in said, said


def test_a_recycle_bin_that_fills_is_told_once_by_its_name(
    home: Home, server: UsersSmbd, tmp_path: Path
) -> None:
    said = run(home, tmp_path, server, Asked("kept"))
    assert said[0] == "0" and said.count("recycle bin, .recycle, which has ") == 1, said
    assert (
        "Empty .recycle, and switch the bin off for this share (Samba: vfs objects without recycle)." in said
    )


@pytest.mark.parametrize(
    "path", ["with%20space", "with space", "%C5%BDlu%C5%A5ou%C4%8Dk%C3%BD", "Žluťoučký", "Žluťoučký/a b"]
)
def test_a_share_may_have_any_name(home: Home, server: UsersSmbd, path: str) -> None:
    (server.at / "Žluťoučký" / "a b").mkdir(exist_ok=True)
    (server.at / "Žluťoučký" / "a b").chmod(0o777)
    place = f"smb://127.0.0.1:{server.port}/{path}"
    arguments = ("bonnie", "-s", "1", "--seeks", "10", "--user", USER, "-d", place)
    done = home.here(*arguments, DYNO_SMB_PASSWORD=PASSWORD)
    assert done.returncode == 0, done.stderr
