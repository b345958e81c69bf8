"""Files below a directory of this machine: the disk mix by system calls, its bounds, and a complete experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benches.levels import directory_target, files_level

from serverdyno import _native
from serverdyno.errors import UserError
from serverdyno.plan.load import parse_plan
from serverdyno.servers.registry import settings_types
from support.disk_mix import clients_directory, contents, passed, whole
from support.dyno_process import Home
from support.file_server import PATIENCE_S


def target(directory: Path, **section: object) -> _native.Target:
    return directory_target(f"file://{directory}", **section)


def mixed(
    to: _native.Target, *, clients: int = 2, workspaces: _native.Workspaces | None = None, **files: object
) -> dict[str, Any]:
    """Run a level to its end."""
    shape = {"clients": clients, "threads": 1, "length_s": 1.0, "timeout_s": 20.0}
    load = files_level(to, {"workload": "diskmix"} | files, workspaces, **shape).start()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


@pytest.mark.parametrize("direct", [False, True])
def test_the_disk_mix_on_a_directory_reads_what_it_wrote_and_leaves_what_was_there(
    tmp_path: Path, direct: bool
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("keep me")
    before = contents(tmp_path)
    result = mixed(target(tmp_path, direct=direct), keep_workspace=False)
    assert whole(result)
    requests = {row["request"]: row["count"] for row in result["requests"]}
    assert requests.get("fsync", 0) == passed(result).get("flush", 0)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and any(path.iterdir())] == ["theirs"]


def test_every_client_has_a_thread_of_its_own(tmp_path: Path) -> None:
    # With more threads than CPUs, a thread that waits in a system call must not stop others.
    result = mixed(target(tmp_path), clients=12, keep_workspace=False)
    assert whole(result)
    assert result["generator_threads"] == 12
    assert result["ready_work_s"] is None  # the same threads do the file system's work


def test_a_workspace_is_used_again_by_the_next_level(tmp_path: Path) -> None:
    workspaces = _native.Workspaces()
    to = target(tmp_path)
    assert whole(mixed(to, workspaces=workspaces))
    stood = {path.name for path in clients_directory(tmp_path).iterdir()}
    assert whole(mixed(to, workspaces=workspaces))
    assert {path.name for path in clients_directory(tmp_path).iterdir()} == stood


@pytest.mark.parametrize("direct", [1, "yes"])
def test_a_section_that_is_wrong_is_refused(tmp_path: Path, direct: object) -> None:
    with pytest.raises(ValueError, match="direct"):
        target(tmp_path, direct=direct)


def test_only_a_directory_below_the_root_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is not the URL of a directory"):
        directory_target("file://elsewhere/a")
    with pytest.raises(OSError, match="Not a directory"):
        target(tmp_path / "file")


PLAN = """
name = "directory"
title = "A directory"
suite = "quick-files"
repetitions = 1

[[servers]]
server = "external"
url = "{url}"
"""


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///", "names no directory"),
        ("file://elsewhere/a", "names no directory"),
        ("file:///a?direct=1", "has parameters (?direct=1)"),
    ],
)
def test_a_plan_whose_url_names_no_directory_is_refused(url: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_plan(PLAN.format(url=url), "p.toml", settings_types())
    assert said in str(raised.value)


def test_an_experiment_on_a_directory_runs_from_plan_to_report(home: Home, tmp_path: Path) -> None:
    # The suite is the shipped one, with short levels.
    place = tmp_path / "a disk"
    place.mkdir()
    suite = tmp_path / "short.toml"
    suite.write_text(
        'name = "short"\ntitle = "Short"\nsource = "a test"\nworkload = "diskmix"\nclients = [1, 2]\n'
        "length_s = 1\n[posix]\ndirect = true\n"
    )
    plan = tmp_path / "plan.toml"
    text = PLAN.format(url=f"file://{place}".replace(" ", "%20")).replace("quick-files", "./short.toml")
    plan.write_text(text)
    done = home.dyno("run", plan, "--into", tmp_path / "experiment")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "experiment" / "report" / "report.html").read_text()
    assert "System calls on a directory of this machine, bypassing the page cache" in page
    assert not any(path.is_file() for path in place.rglob("*"))
