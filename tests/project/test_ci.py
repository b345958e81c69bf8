"""`.ci/run`: it runs every part once, and its last line sums the tests of both languages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.places import ROOT

SCRIPT = ROOT / ".ci" / "run"
RUST = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
ALL = ["lint", "packages", "python-tests", "rust-tests", "setup"]
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
        (f"{RUST}3 skipped, 12 deselected in 0.30s\n", "Tests: 12 passed, 0 failed"),
        (RUST_FAILED, "Tests: 3 passed, 2 failed"),
        ("error: nothing was compiled\n", "Tests: 0 passed, 0 failed"),
    ],
)
def test_the_last_line_sums_what_passed_and_what_failed(tmp_path: Path, log: str, last: str) -> None:
    kept = tmp_path / "log"
    kept.write_text(log)
    done = subprocess.run([SCRIPT, "--count", kept], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == last


@pytest.mark.parametrize(
    ("failing", "run", "last"),
    [
        (None, ALL, "21 passed, 0 failed"),
        ("lint", ALL, "21 passed, 0 failed"),
        ("rust-tests", ALL, "21 passed, 0 failed"),
        ("setup", ["packages", "setup"], "0 passed, 0 failed"),
    ],
)
def test_each_part_runs_once_and_one_that_fails_makes_the_run_fail(
    tmp_path: Path, failing: str | None, run: list[str], last: str
) -> None:
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    make = tmp_path / "programs" / "make"
    make.parent.mkdir()
    make.write_text(
        f"""#!/bin/sh
for target; do :; done
case $target in
servers-for-tests) part=packages ;;
test-rust) part=rust-tests && printf '{RUST.strip()}\\n' ;;
test-python) part=python-tests && echo '9 passed in 9.00s' ;;
lint-rust) part=lint ;;
*) part=$target ;;
esac
echo $part >>{tmp_path}/run
[ $part != {failing} ]
"""
    )
    make.chmod(0o755)
    done = subprocess.run(
        [script],
        env={"PATH": f"{make.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == f"Tests: {last}"
    assert done.returncode == (0 if failing is None else 1)
    assert sorted((tmp_path / "run").read_text().split()) == run
    rows = re.findall(r"^([a-z-]+) +\d+:\d\d +\d+\.\d(?: +(failed))?$", done.stdout, re.MULTILINE)
    assert sorted(part for part, _ in rows) == sorted(["all", *run])
    assert [part for part, failed in rows if failed] == ([] if failing is None else [failing])
