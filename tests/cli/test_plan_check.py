"""`dyno plan check` reports everything that `dyno run` would refuse on this machine, and the duration of a plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.dyno_process import Home
from support.places import ROOT

SUITE = """
name = "s"
title = "S"
source = "a test"
workload = "loadfile"
clients = [1]
length_s = 6
[files]
cache = "none"
load_file = "{file}"
"""
PLAN = 'name = "p"\nsuite = "{suite}"\nrepetitions = 1\n[[servers]]\n{server}\n'
OURS = 'server = "reference-smb"'


def plan(folder: Path, suite: str, server: str = OURS) -> Path:
    path = folder / "plan.toml"
    path.write_text(PLAN.format(suite=suite, server=server))
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "there is no such file"),
        (b"12.5 NTCreateX a 1 2\n", "line 1"),
        ("Mkdir\n".encode("utf-16"), "it is UTF-16, not UTF-8"),
    ],
)
def test_a_load_file_that_a_run_refuses_is_refused(
    home: Home, tmp_path: Path, text: bytes | None, told: str
) -> None:
    file = tmp_path / "the.load"
    if text is not None:
        file.write_bytes(text)
    (tmp_path / "s.toml").write_text(SUITE.format(file=file))
    checked = home.here("plan", "check", plan(tmp_path, "./s.toml"))
    run = home.here("run", tmp_path / "plan.toml", "--into", tmp_path / "e")
    assert (checked.returncode, checked.stdout) == (run.returncode, "") == (2, "")
    assert checked.stderr == run.stderr
    assert f"{file} can't be replayed: " in checked.stderr and told in checked.stderr
    assert not (tmp_path / "e").exists()


def test_a_load_file_may_begin_with_a_byte_order_mark(home: Home, tmp_path: Path) -> None:
    lines = (ROOT / "plans" / "load-files" / "reports.load").read_bytes()
    file = tmp_path / "the.load"
    file.write_bytes(b"\xef\xbb\xbf" + lines)
    (tmp_path / "s.toml").write_text(SUITE.format(file=file))
    done = home.here("plan", "check", plan(tmp_path, "./s.toml"))
    assert done.returncode == 0, done.stderr


def test_what_is_not_there_on_this_machine_is_a_problem_of_this_machine(home: Home, tmp_path: Path) -> None:
    user = 'server = "external"\nurl = "smb://127.0.0.1/"\nsettings = { shares = ["a"], user = "me" }'
    done = home.here("plan", "check", plan(tmp_path, "quick-files", user))
    assert done.returncode == 1
    first, second = done.stdout.splitlines()[:2]
    assert first.endswith(": no mistakes, but this machine can't run it: 1 problem")
    assert second.startswith("  external: the password of me is missing: the variable DYNO_SMB_PASSWORD ")
    assert "note: your own servers were not checked" in done.stdout
    small = f"{OURS}\nsettings = {{ capacity_mib = 16 }}"
    done = home.here("plan", "check", plan(tmp_path, "bonnie", small), "--scale", "0.1")
    assert (done.returncode, "note: " in done.stdout) == (0, False), done.stdout  # 10 MiB of 100
    done = home.here("plan", "check", plan(tmp_path, "quick-files", small))
    assert done.returncode == 1 and "  too little free space: the files of " in done.stdout


def test_a_directory_of_this_machine_is_looked_at(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "a b").mkdir()
    for name, told in (
        ("absent", "there is no directory "),
        ("file", " is not a directory"),
        ("a%20b", None),
    ):
        server = f'server = "external"\nname = "dir"\nurl = "file://{tmp_path}/{name}"'
        done = home.here("plan", "check", plan(tmp_path, "quick-files", server))
        assert done.returncode == (0 if told is None else 1), done.stdout + done.stderr
        assert told is None or ("dir: " in done.stdout and told in done.stdout)


def test_a_directory_without_room_for_the_files_is_refused_as_by_the_run(home: Home, tmp_path: Path) -> None:
    streams = SUITE.replace("loadfile", "streams").replace("[1]", "[2, 400]")
    streams = streams.partition("load_file")[0] + "[files.streams]\nblock_bytes = 1048576\nfile_bytes = "
    (tmp_path / "s.toml").write_text(f"{streams}{2**40}\n")
    server = f'server = "external"\nname = "dir"\nurl = "file://{tmp_path}"'
    checked = home.here("plan", "check", plan(tmp_path, "./s.toml", server))
    run = home.here("run", tmp_path / "plan.toml", "--into", tmp_path / "e")
    assert (checked.returncode, run.returncode) == (1, 1), checked.stdout + checked.stderr
    assert "too little free space" in run.stderr and f"{400 * 2**20:,} MiB" in run.stderr
    assert f"dir: {tmp_path} has too little free space: the files of 400 clients need" in checked.stdout
    (tmp_path / "s.toml").write_text(f"{streams}{2**21}\n")
    fits = home.here("plan", "check", plan(tmp_path, "./s.toml", server))
    assert fits.returncode == 0, fits.stdout + fits.stderr


def test_the_time_of_workspaces_is_that_of_the_links_that_they_go_over(home: Home, tmp_path: Path) -> None:
    def minutes(more: str) -> float:
        path = plan(tmp_path, "quick-files", f'server = "samba"\n{more}')
        said = home.here("plan", "check", path)
        found = re.search(r"about (?:(\d+) h )?(?:(\d+) min )?(?:(\d+) s)?", said.stdout)
        assert found is not None, said.stdout + said.stderr
        hours, whole, seconds = (int(part or 0) for part in found.groups())
        return hours * 60 + whole + seconds / 60

    subnet = '[testbed]\n[[testbed.subnets]]\nname = "a"\nhosts = 2\nlink_mbit_s = 10\n'
    assert minutes(subnet) > 2 * minutes("")
