"""Load without the extras, whose modules are blocked as if they were not installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from serverdyno.cli import extras
from support.places import ROOT
from support.reference_servers import start_http

TIME_LIMIT_S = 240
BLOCKED = f"""
import sys
from serverdyno.cli import extras

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sum((modules for _, modules in extras.EXTRAS.values()), ())!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
from serverdyno.cli import main
sys.argv[0] = "dyno"
main()
"""


def dyno(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `dyno` in a process that can't import the extra's modules."""
    command = [sys.executable, "-c", BLOCKED, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Create an experiment by `dyno load` without the extra."""
    folder = tmp_path_factory.mktemp("extras") / "e"
    server = start_http(body_bytes=100)
    try:
        url = f"http://127.0.0.1:{server.port}/"
        return folder, dyno("load", url, "--clients", "1", "--length", "2s", "--into", str(folder))
    finally:
        server.stop()


def test_load_is_made_and_kept_and_the_report_is_left_for_later(
    measured: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = measured
    assert done.returncode == 0, done.stderr
    assert "no report: jinja2, numpy, scipy not installed" in done.stderr
    assert f"dyno report {folder}" in done.stderr
    assert len(list(folder.glob("runs/*/level-*.parquet"))) == 1


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_what_was_asked_for_and_can_not_be_made_is_an_error_before_the_load(
    tmp_path: Path, option: str
) -> None:
    done = dyno("load", "http://127.0.0.1:9/", option, "--into", str(tmp_path / "e"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: reports need the Python module " in done.stderr
    assert not (tmp_path / "e").exists()


def test_pages_need_an_extra_of_their_own(measured: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    done = dyno("open", str(measured[0]))
    assert done.returncode == 2
    assert "error: local pages need the Python module " in done.stderr
    assert "hint: pip install 'starlette>=1' 'uvicorn>=" in done.stderr


def test_what_needs_the_extra_says_so_and_how_to_get_it(
    measured: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, _ = measured
    done = dyno("report", str(folder))
    assert done.returncode == 2
    assert "error: reports need the Python module " in done.stderr
    assert "hint: pip install 'jinja2>=3.1' 'numpy>=2' 'scipy>=1.15'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["suites"], ["servers"], ["plan", "check", "plans/quick-static.toml"]]
)
def test_what_makes_load_starts_without_the_extra(arguments: list[str]) -> None:
    done = dyno(*arguments)
    assert done.returncode == 0, done.stderr


def test_a_fleet_says_which_extra_it_needs() -> None:
    done = dyno("fleet", "init", "/nowhere/lab", "--at", "127.0.0.1", "--nodes", "a")
    assert done.returncode == 2
    assert "error: a fleet needs the Python module " in done.stderr
    assert "hint: pip install 'cryptography>=44' 'distributed>=" in done.stderr


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_the_modules_are_those_of_the_extra(extra: str) -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    names = {requirement.partition(">")[0] for requirement in listed}
    # Dask is installed together with its distributed part.
    assert names == set(extras.EXTRAS[extra][1]) - {"dask"}


def test_a_pdf_needs_an_extra_of_its_own(measured: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = measured
    done = dyno("report", str(folder), "--pdf")
    assert done.returncode == 2
    assert "error: a PDF needs the Python module typst" in done.stderr
    assert "hint: pip install 'typst>=0.15'" in done.stderr
