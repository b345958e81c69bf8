"""Standard streams that are closed, full or in another encoding cause a message, never a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.dyno_process import DYNO, PATIENCE_S, Home
from support.places import ROOT, TESTS

CORPUS = ROOT / "tests" / "data" / "corpus" / "closed"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace takes root")


def dyno(
    home: Home, streams: str, *arguments: str | Path, **changed: str
) -> subprocess.CompletedProcess[str]:
    """Run `dyno` with its standard streams redirected; `streams` is shell syntax."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", *DYNO, *map(str, arguments)],
        env=home.environment | changed,
        cwd=home.temporary,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("streams", [">&-", "1</dev/null", "<&- >&-"])
def test_a_closed_standard_output_is_an_error_before_anything_is_done(home: Home, streams: str) -> None:
    done = dyno(home, streams, "load", "http://127.0.0.1:9/", "--into", home.temporary / "closed")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: standard output is closed\nhint: To print nothing: >/dev/null.\n"
    assert not (home.temporary / "closed").exists()


@pytest.mark.parametrize("arguments", [["suites"], ["bonnie", "-s", "1", "--seeks", "10", "--json"]])
def test_a_full_disk_behind_standard_output_is_an_error(home: Home, arguments: list[str]) -> None:
    done = dyno(home, ">/dev/full", *arguments)
    assert done.returncode == 1
    assert (
        "error: standard output can't be written: No space left on device\nhint: Free some space"
        in done.stderr
    )
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_nobody_has_to_listen_to_standard_error(home: Home, streams: str) -> None:
    done = dyno(home, streams, "bonnie", "-s", "1", "--seeks", "10")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_report_is_printed_in_any_encoding(home: Home, tmp_path: Path, encoding: str) -> None:
    shutil.copytree(CORPUS, tmp_path / "e")
    done = dyno(home, "", "report", tmp_path / "e", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nginx" in done.stdout and "\n* " in done.stdout


@needs_root
def test_without_proc_a_verb_says_what_it_needs(home: Home) -> None:
    command = ["unshare", "--mount", "sh", "-c", 'umount --lazy /proc; exec "$@"', "sh", *DYNO]
    done = home.run([*command, "scenario", "unpack-and-build", "--scale", "0.01"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: dyno needs /proc, which is not mounted\nhint: mount -t proc proc /proc\n" in done.stderr


@pytest.mark.parametrize(("limit_kib", "told"), [(240_000, "234"), (300_000, "292")])
def test_a_limit_of_the_address_space_is_told_in_a_line(home: Home, limit_kib: int, told: str) -> None:
    experiment = TESTS / "data" / "corpus" / "closed"
    limited = f'ulimit -v {limit_kib}; exec "$@"'
    command = ["sh", "-c", limited, "sh", *DYNO, "report", str(experiment), "--json"]
    done = subprocess.run(
        command, env=home.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        f"error: not enough memory: this shell limits the address space of a process to {told} MiB\n"
        "hint: ulimit -v unlimited\n"
    )
