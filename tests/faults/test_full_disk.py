"""An experiment on a full disk: a message, nothing lost, and a resume once there is space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from serverdyno.errors import DynoError
from serverdyno.plan.model import ServerPlan
from serverdyno.store.experiment import Experiment
from serverdyno.store.folder import Folder
from support.dyno_process import Home, experiment
from support.reference_servers import start_http

REFERENCE = ServerPlan(server="reference")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system takes root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of one MiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True, timeout=60)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True, timeout=60)


def fill(place: Path, left_bytes: int) -> Path:
    """Create a file that leaves this much free space."""
    room = os.statvfs(place)
    filler = place / "filler"
    filler.write_bytes(bytes(room.f_bavail * room.f_frsize - left_bytes))
    return filler


@needs_root
def test_a_full_disk_ends_a_run_in_a_sentence_and_a_resume_goes_on(home: Home, small_disk: Path) -> None:
    folder = experiment(small_disk / "e", [REFERENCE], clients=[1, 2], think_time_s=0.005)
    filler = fill(small_disk, 0)
    done = home.here("resume", folder)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "No space left on device\nhint: Free some space on this disk." in done.stderr, done.stderr
    assert f"The finished load levels are kept. To continue: dyno resume {folder}\n" in done.stderr
    assert not list(folder.rglob(".unfinished-*"))
    filler.unlink()
    done = home.here("resume", folder)
    assert Experiment.open(folder).finished() == {(1, 1), (1, 2)}, done.stderr


@needs_root
def test_an_experiment_without_room_for_its_head_leaves_nothing(home: Home, small_disk: Path) -> None:
    fill(small_disk, 4096)
    done = home.here("bonnie", "-s", "1", "-d", home.temporary, "--into", small_disk / "experiments" / "e")
    assert done.returncode == 1 and "No space left on device" in done.stderr, done.stderr
    assert "hint: Nothing was measured. Free some space" in done.stderr
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@needs_root
def test_a_file_that_has_no_room_leaves_the_former_as_it_was(small_disk: Path) -> None:
    files = Folder.open(small_disk)
    files.write("a/file", b"former")
    fill(small_disk, 4096)
    with pytest.raises(DynoError, match="No space left on device"):
        files.write("a/file", bytes(100_000))
    assert files.read("a/file", 100) == b"former"
    assert files.names("a") == ["file"]


@needs_root
@pytest.mark.usefixtures("short_windows")
def test_each_stage_that_finds_the_disk_full_names_the_command_that_goes_on(
    home: Home, small_disk: Path
) -> None:
    folder = small_disk / "e"
    server = start_http({"/a": b"hello"})
    try:
        load = (
            "load",
            f"http://127.0.0.1:{server.port}/a",
            "--clients",
            "1",
            "--length",
            "0.5s",
            "--into",
            folder,
        )
        filler = fill(small_disk, 0)
        done = home.here(*load)
        assert done.returncode == 1 and "plan.toml: No space left on device" in done.stderr, done.stderr
        assert "dyno resume" not in done.stderr and not folder.exists()
        filler.unlink()
        fill(small_disk, 100_000)
        done = home.here(*load, "--report")
        assert done.returncode == 1 and "No space left on device" in done.stderr, done.stderr
        assert f"dyno report {folder}\n" in done.stderr and "dyno resume" not in done.stderr
        (small_disk / "filler").unlink()
    finally:
        server.stop()
    done = home.here("report", folder)
    assert done.returncode == 0 and (folder / "report" / "report.html").exists(), done.stderr
