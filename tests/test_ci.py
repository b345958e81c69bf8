"""What `.ci/run` counts in the log of a run: its last line sums the tests of both languages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "run"
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
