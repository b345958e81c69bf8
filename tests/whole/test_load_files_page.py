"""The page on users' own load files: its plan and its files run as printed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.places import ROOT

PAGE = ROOT / "docs" / "load-files.md"
LINES = ROOT / "plans" / "load-files" / "reports.load"
SET_UP_LINES = 4


def test_the_example_of_the_page_runs_and_every_operation_of_a_pass_succeeds(
    home: Home, tmp_path: Path, short_windows: None
) -> None:
    shutil.copytree(LINES.parent, tmp_path / "plans" / "load-files")
    suite = tmp_path / "plans" / "load-files" / "reports-suite.toml"
    # The suite's path is relative to the checkout, but the test runs in another directory.
    text = suite.read_text().replace('"plans/', f'"{tmp_path}/plans/')
    suite.write_text(text)
    page = PAGE.read_text()
    [plan] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    named = re.search(r"(\d+) operations per pass", page)
    assert named is not None
    (tmp_path / "plan.toml").write_text(
        plan.replace('"samba"', '"reference-smb"').replace("repetitions = 3", "repetitions = 1")
    )
    done = home.here("run", tmp_path / "plan.toml", "--into", tmp_path / "e", "--scale", "0.1")
    assert done.returncode == 0, done.stdout + done.stderr
    with Experiment.open(tmp_path / "e") as kept:
        records = kept.levels()
    assert [record.clients for record in records] == [1, 4]
    operations = [line for line in LINES.read_text().splitlines() if line and not line.startswith("#")]
    assert int(named[1]) == len(operations) - SET_UP_LINES
    for record in records:
        assert record.errors == [] and (record.passes or 0) > 0
        assert record.pass_operations == int(named[1])
        assert (record.bytes_checked or 0) > 0


def test_the_page_has_every_operation_that_a_load_file_may_have() -> None:
    source = (ROOT / "crates" / "workload" / "src" / "loadfile" / "line.rs").read_text()
    [listed] = re.findall(r"^requests! \{(.*?)^\}", source, re.DOTALL | re.MULTILINE)
    names = re.findall(r'"(\w+)"', listed)
    assert len(names) > 10
    page = PAGE.read_text()
    assert [name for name in names if f"`{name} " not in page] == []
