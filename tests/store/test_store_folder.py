"""Nothing leads out of an experiment's folder: no link is followed, and only regular files are read."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from serverdyno import report
from serverdyno.errors import DynoError
from serverdyno.store.experiment import Experiment
from serverdyno.store.folder import Folder
from serverdyno.store.note import RunNote
from support.dyno_process import Home
from support.synthetic_experiment import Shape, experiment

SECRET = "the content of a file elsewhere"
FILES = [
    "experiment.json",
    "disclosure/host.json",
    "disclosure/apache/description.json",
    "disclosure/apache/files/httpd.conf",
    "runs/001-apache-r1/run.json",
    "runs/001-apache-r1/level-01.parquet",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a small finished experiment."""
    source = experiment({"apache": Shape(300)}, clients=(1, 8), repetitions=1)
    with Experiment.create(tmp_path / "experiment", "name = 'x'\n", source.head) as kept:
        for record in source.records:
            kept.write_level(record)
        for run in source.head.order:
            kept.write_run_note(run, RunNote(state="done"))
        kept.write_host({"kernel": "6.1"})
        kept.write_description(
            "apache", {"version": "2.4", "settings": {}, "files": {"httpd.conf": "Listen 1"}}
        )
    return tmp_path / "experiment"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder that only the test may change."""
    place = tmp_path / "elsewhere"
    (place / "figures").mkdir(parents=True)
    for name in ("file", "report.pdf", "figures/old.svg"):
        (place / name).write_text(SECRET)
    before = state(place)
    yield place
    assert state(place) == before


def state(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        f"{path.relative_to(folder)}": (path.read_text(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def reported(home: Home, folder: Path) -> str:
    """Return the output of `dyno report`, after checking that it ends in time and without a traceback."""
    done = home.here("report", folder)
    assert "Traceback" not in done.stderr
    page = folder / "report" / "report.html"
    return done.stderr + done.stdout + (page.read_text() if page.is_file() else "")


@pytest.mark.parametrize(
    "name", [*FILES, "runs", "runs/001-apache-r1", "disclosure", "disclosure/apache/files"]
)
def test_what_a_link_leads_to_is_not_read(folder: Path, elsewhere: Path, name: str) -> None:
    path = folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(elsewhere if "." not in path.name else elsewhere / "file")
    try:
        built = report.build(Experiment.open(folder))
    except DynoError as error:
        assert name == "experiment.json" and "symbolic link" in f"{error}"
        return
    assert any(f"{path}" in said and "link" in said for said in built.warnings)
    assert SECRET not in f"{built.disclosure}"


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_regular_file_is_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    try:
        said = report.build(Experiment.open(folder)).warnings
    except DynoError as error:
        said = (f"{error}",)
    assert any("it is not a regular file" in line for line in said)


def test_a_lock_that_is_a_link_leads_to_nothing(home: Home, folder: Path, elsewhere: Path) -> None:
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(elsewhere / "file")
    done = home.here("resume", folder)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert f"can't write {folder / '.lock'}: it is a symbolic link" in done.stderr
    new = folder.parent / "new"
    new.mkdir()
    (new / ".lock").symlink_to(elsewhere / "file")
    plan = folder.parent / "plan.toml"
    plan.write_text('name = "x"\ntitle = "x"\nsuite = "quick-static"\n[[servers]]\nserver = "reference"\n')
    done = home.here("run", plan, "--into", new)
    assert (done.returncode, "it is a symbolic link" in done.stderr) == (1, True)


def test_a_lock_with_a_second_name_elsewhere_is_not_written(folder: Path, elsewhere: Path) -> None:
    (folder / ".lock").unlink()
    (folder / ".lock").hardlink_to(elsewhere / "file")
    with pytest.raises(DynoError, match="has a second hard link elsewhere"):
        Experiment.open(folder, writable=True)


def test_a_report_is_not_written_where_a_link_leads(home: Home, folder: Path, elsewhere: Path) -> None:
    (folder / "report").symlink_to(elsewhere)
    assert "a link or a file has the name of a required folder" in reported(home, folder)
    (folder / "report").unlink()
    (folder / "report").mkdir()
    (folder / "report" / "figures").symlink_to(elsewhere / "figures")
    assert "a link or a file has the name of a required folder" in reported(home, folder)
    (folder / "report" / "figures").unlink()
    (folder / "report" / "report.html").symlink_to(elsewhere / "file")
    (folder / "report" / "report.pdf").symlink_to(elsewhere / "report.pdf")
    reported(home, folder)
    assert not (folder / "report" / "report.html").is_symlink()
    assert not (folder / "report" / "report.pdf").is_symlink()


@pytest.mark.parametrize("name", ["runs", "runs/001-apache-r1"])
def test_a_resume_does_not_write_where_a_link_leads(
    home: Home, folder: Path, elsewhere: Path, name: str
) -> None:
    shutil.rmtree(folder / name)
    (folder / name).symlink_to(elsewhere)
    done = home.here("resume", folder)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "a link or a file has the name of a required folder" in done.stderr


def test_names_do_not_lead_out_of_a_folder(tmp_path: Path) -> None:
    files = Folder.open(tmp_path)
    for name in ("../x", "/x", "a/../../x"):
        with pytest.raises(ValueError, match="not a name below a folder"):
            files.write(name, b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_what_is_larger_than_its_kind_can_be_is_not_read(folder: Path, name: str) -> None:
    os.truncate(folder / name, 1 << 40)
    try:
        said = report.build(Experiment.open(folder)).warnings
    except DynoError as error:
        said = (f"{error}",)
    assert any(f"{folder / name} is damaged: it has more than" in line for line in said)


def test_folders_far_below_one_another_are_not_looked_into(folder: Path) -> None:
    deep = os.open(folder / "runs", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=deep)
        inner = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = inner
    os.close(deep)
    with Experiment.open(folder, writable=True) as opened:
        assert opened.set_aside == []
    subprocess.run(["rm", "-rf", folder / "runs"], check=True)  # shutil can't remove such a deep tree
