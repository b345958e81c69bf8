"""What `.ci/run` counts in the log of a run: its last line sums the tests of both languages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.places import ROOT

SCRIPT = ROOT / ".ci" / "run"
RUST = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
RUST_FAILED = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n"


@pytest.mark.parametrize(
    ("log", "last"),
    [
        (f"{RUST}...\n1024 passed, 3 skipped in 5.02s\nmake: done\n", "Tests: 1036 passed, 0 failed"),
        (
            f"{RUST}{RUST_FAILED}1 failed, 1023 passed, 4 skipped, 2 errors in 300.12s (0:05:00)\n",
            "Tests: 1038 passed, 5 failed",
        ),
        (f"{RUST}1 error in 0.30s\n", "Tests: 12 passed, 1 failed"),
        (RUST_FAILED, "Tests: 3 passed, 2 failed"),
        (
            f"{RUST}1 failed, 1023 passed, 4 skipped, 1 rerun in 300.12s (0:05:00)\n"
            "Python tests failed: they are run once more, by themselves.\n1 passed in 3.50s\n",
            "Tests: 1036 passed, 0 failed",
        ),
        (
            f"{RUST}2 failed, 1022 passed in 300.12s (0:05:00)\n"
            "Python tests failed: they are run once more, by themselves.\n"
            "1 failed, 1 passed in 3.50s\n",
            "Tests: 1035 passed, 1 failed",
        ),
        (
            f"{RUST}{RUST_FAILED}Rust tests failed: all tests are run once more.\n{RUST}1024 passed in 5.02s\n",
            "Tests: 1036 passed, 0 failed",
        ),
        ("error: nothing was compiled\n", "Tests: 0 passed, 0 failed"),
    ],
)
def test_the_last_line_sums_what_passed_and_what_failed(tmp_path: Path, log: str, last: str) -> None:
    kept = tmp_path / "log"
    kept.write_text(log)
    done = subprocess.run(
        [SCRIPT, "--count", kept, "2"], capture_output=True, text=True, timeout=60, check=True
    )
    sentence, counted = done.stdout.splitlines()
    assert sentence.startswith("lint and tests failed with status 2. Rust: ")
    assert counted == last


def command(path: Path, *lines: str) -> None:
    """Makes a program that is a script of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("alone", "status", "last"),
    [
        ("1 passed in 1.00s", 0, "Tests: 21 passed, 0 failed"),
        ("1 failed in 1.00s", 1, "Tests: 20 passed, 1 failed"),
    ],
)
def test_a_failed_test_of_python_is_run_once_more_by_itself(
    tmp_path: Path, alone: str, status: int, last: str
) -> None:
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    output = f"printf '{RUST.strip()}\\n1 failed, 8 passed in 9.00s\\n'"
    command(tmp_path / "programs" / "make", f'[ "$1" != test ] || {{ {output}; exit 2; }}')
    command(tmp_path / ".venv" / "bin" / "pytest", f"echo '{alone}'", f"exit {status}")
    done = subprocess.run(
        [script],
        env={"PATH": f"{tmp_path / 'programs'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, last)
