"""`dyno` for users without root: web servers are measured in full, and features that need root say so."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import serverdyno
from serverdyno.store.experiment import Experiment
from support.dyno_process import INSTALLED, short_suite

NOBODY = 65534
PATIENCE_S = 400
PLAN = """
name = "ordinary"
title = "As an ordinary user"
suite = "{suite}"
repetitions = 1
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become another user")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create a directory of that user, with a Python that all may run and that finds the modules of this one."""
    folder = Path("/tmp") / f"ordinary-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        python = shutil.which(version, path="/usr/bin:/usr/local/bin")
        if python is None:
            pytest.skip(f"no {version} that everybody may execute")
        subprocess.run([python, "-m", "venv", "--without-pip", folder / "venv"], check=True, timeout=60)
        packages = [Path(serverdyno.__file__).parent.parent, *site.getsitepackages()]
        (folder / "venv" / "lib" / version / "site-packages" / "these.pth").write_text(
            "".join(f"{path}\n" for path in packages)
        )
        os.chown(folder, NOBODY, NOBODY)
        if as_nobody(folder, ["--version"]).returncode != 0:
            pytest.skip("an ordinary user can't read this checkout")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_nobody(place: Path, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    become = ["setpriv", "--reuid", f"{NOBODY}", "--regid", f"{NOBODY}", "--clear-groups"]
    return subprocess.run(
        [*become, place / "venv/bin/python", "-m", "serverdyno", *map(str, arguments)],
        env={
            "HOME": str(place),
            "TMPDIR": str(place),
            "PATH": "/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def written(place: Path, name: str, suite: str, servers: Sequence[str]) -> Path:
    plan = place / f"{name}.toml"
    plan.write_text(
        PLAN.format(suite=suite) + "".join(f'[[servers]]\nserver = "{each}"\n' for each in servers)
    )
    plan.chmod(0o644)
    return plan


@needs_root
def test_web_servers_are_measured_by_an_ordinary_user(place: Path) -> None:
    if not INSTALLED:
        pytest.skip("no web server is installed here")
    plan = written(place, "web", f"{short_suite(place / 'tiny.toml', [4])}", INSTALLED)
    done = as_nobody(place, ["run", plan, "--into", place / "web"])
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    opened = Experiment.open(place / "web")
    assert len(opened.finished()) == len(opened.head.order) * len(opened.head.levels)
    assert {note.state for note in opened.run_notes().values()} == {"done"}
    assert not any(record.errors for record in opened.levels())
    assert list(place.glob("serverdyno-*-*")) == []
    assert (place / "web" / "report" / "report.html").stat().st_uid == NOBODY


@needs_root
def test_a_folder_that_may_not_be_read_or_written_is_said_to_be_so(place: Path, tmp_path: Path) -> None:
    for name in ("unread", "unwritten"):
        plan = written(place, name, "quick-static", ["reference"])
        folder = place / name
        folder.mkdir()
        done = as_nobody(place, ["run", plan, "--into", folder])
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert f"can't write {folder / '.lock'}: Permission denied" in done.stderr
    (place / "unread" / "experiment.json").write_text("{}")
    (place / "unread" / "experiment.json").chmod(0)
    for verb in ("report", "resume"):
        done = as_nobody(place, [verb, place / "unread"])
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert "Permission denied" in done.stderr
    (place / "unread").chmod(0)
    done = as_nobody(place, ["report", place / "unread"])
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "is not readable" in done.stderr
