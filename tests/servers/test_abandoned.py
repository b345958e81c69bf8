"""Remains of a run whose tool and keeper were both killed are removed by the next run, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from serverdyno.plan.model import ServerPlan
from serverdyno.probes import abandoned
from serverdyno.probes.abandoned import OWNER, sweep
from serverdyno.servers.volumes import Volumes
from support.dyno_process import Home, experiment, wait_for_line

PATIENCE_S = 60.0
NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino
OF_NOBODY = f"2000000000 1 {NAMESPACE}\n"


def made(
    parent: Path, name: str = "serverdyno-nginx-0123456789abcdef", owner: str | None = OF_NOBODY
) -> Path:
    directory = parent / name
    directory.mkdir()
    (directory / "nginx.conf").write_text("")
    if owner is not None:
        (directory / OWNER).write_text(owner)
    return directory


def test_a_directory_whose_owner_has_ended_is_removed(tmp_path: Path) -> None:
    directory = made(tmp_path)
    assert sweep(tmp_path, age_s=-1) == [directory]
    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_a_process_that_lives_stays_and_that_of_a_number_used_again_goes(
    tmp_path: Path,
) -> None:
    living = made(tmp_path, "serverdyno-nginx-1111111111111111", None)
    abandoned.mark(living)
    again = made(tmp_path, "serverdyno-nginx-2222222222222222", f"{os.getpid()} 1 {NAMESPACE}\n")
    assert sweep(tmp_path, age_s=-1) == [again]
    assert living.is_dir()


@pytest.mark.parametrize("owner", [None, "", "nonsense", "1", "1 2", "1 2 3 4", "x" * 1000])
def test_what_is_not_marked_as_ours_stays(tmp_path: Path, owner: str | None) -> None:
    made(tmp_path, owner=owner)
    assert sweep(tmp_path, age_s=-1) == []


def test_the_directory_of_a_process_in_another_pid_namespace_stays(tmp_path: Path) -> None:
    # A process ID from another PID namespace is meaningless here: that process may be alive.
    made(tmp_path, owner=f"2000000000 1 {NAMESPACE + 1}\n")
    assert sweep(tmp_path, age_s=-1) == []


@pytest.mark.parametrize(
    "name",
    ["serverdyno-0", "serverdyno-nginx-short", "other-nginx-0123456789abcdef", "serverdyno-documents-x_y"],
)
def test_what_is_not_named_as_ours_stays(tmp_path: Path, name: str) -> None:
    made(tmp_path, name)
    assert sweep(tmp_path, age_s=-1) == []


def test_what_is_young_a_link_or_in_use_stays(tmp_path: Path) -> None:
    young = made(tmp_path)
    assert sweep(tmp_path) == []
    os.utime(young / OWNER, (0, 0))
    assert sweep(tmp_path) == []  # another file in it has changed recently
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = made(elsewhere)
    (tmp_path / "serverdyno-nginx-aaaaaaaaaaaaaaaa").symlink_to(target)
    with subprocess.Popen([sys.executable, "-c", "input()"], cwd=young, stdin=subprocess.PIPE) as working:
        assert sweep(tmp_path, age_s=-1) == []
        working.kill()
    assert sweep(tmp_path, age_s=-1) == [young]
    assert (target / "nginx.conf").exists()


def test_volumes_stay_as_long_as_a_process_was_told_of_the_private_directory_of_their_name(
    tmp_path: Path,
) -> None:
    left = made(tmp_path, "serverdyno-samba-0123456789abcdef")
    server = [sys.executable, "-c", "input()", f"--configfile=/elsewhere/{left.name}/smb.conf"]
    with subprocess.Popen(server, stdin=subprocess.PIPE) as serving:
        assert sweep(tmp_path, age_s=-1) == []
        serving.kill()
    assert sweep(tmp_path, age_s=-1) == [left]


def test_volumes_of_a_killed_run_go_when_the_next_are_made_next_to_them(tmp_path: Path) -> None:
    left = made(tmp_path, "serverdyno-samba-0123456789abcdef", None)
    volumes = Volumes(tmp_path / "serverdyno-samba-1111111111111111", 1, "none", "", 64)
    long_ago = time.time() - 3600
    for path in (left, *left.iterdir()):
        os.utime(path, (long_ago, long_ago))
    volumes.make_root()
    assert left.is_dir()  # it has no mark
    (left / OWNER).write_text(OF_NOBODY)
    for path in (left, *left.iterdir()):
        os.utime(path, (long_ago, long_ago))
    again = Volumes(tmp_path / "serverdyno-samba-2222222222222222", 1, "none", "", 64)
    again.make_root()
    assert not left.exists()
    assert volumes.top.is_dir() and (volumes.root / OWNER).is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_directory_of_another_user_stays(tmp_path: Path) -> None:
    os.chown(made(tmp_path), 65534, 65534)
    assert sweep(tmp_path, age_s=-1) == []


def test_what_a_killed_tool_and_a_killed_keeper_left_goes_at_the_next_start(
    home: Home, tmp_path: Path
) -> None:
    folder = experiment(tmp_path / "e", [ServerPlan(server="reference")], clients=range(1, 41))
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "2 clients")
        [left] = home.temporary.glob("serverdyno-reference-*")
        processes = psutil.Process(dyno.pid).children(recursive=True)
        keeper = processes[0]
        keeper.suspend()  # so that it can't clean up between the two
        dyno.kill()
        keeper.send_signal(signal.SIGKILL)
        for process in processes:
            if process.is_running():
                process.kill()
        psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert left.is_dir()
    long_ago = time.time() - 3600
    for path in (left, *left.iterdir()):
        os.utime(path, (long_ago, long_ago))
    done = home.dyno("selftest", "--help")
    assert done.returncode == 0 and left.is_dir()
    with home.started("resume", folder) as dyno:
        wait_for_line(dyno, "clients")
        assert not left.exists()
        dyno.terminate()
        dyno.communicate(timeout=PATIENCE_S)
    home.assert_nothing_is_left([])
