"""Records as tables: the script of docs/frames.md runs as printed, and the tables agree with the records."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import serverdyno
from serverdyno.cli.progress import PlainLines
from serverdyno.plan.model import ServerPlan
from serverdyno.run.experiment import carry_out
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home, experiment
from support.places import ROOT

TIME_LIMIT_S = 120


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measure two configurations of the reference server that differ in a factor, at two load levels each."""
    servers = [ServerPlan(server="reference", factors={"threads": [1, 2]})]
    folder = experiment(tmp_path_factory.mktemp("frames") / "e", servers, clients=[1, 2])
    with Experiment.open(folder, writable=True) as opened:
        assert carry_out(opened, PlainLines(Console(quiet=True)))
    return folder


def test_the_script_in_the_docs_runs_as_it_stands(measured: Path) -> None:
    [script] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "frames.md").read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", script, measured],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (
        len(
            re.findall(r"reference-threads-[12] +[12] clients +(?:[\d,]+|\d\.\d\d) operations/s", done.stdout)
        )
        == 4
    )
    assert "seconds without a success" in done.stdout


def test_the_tables_agree_with_the_records(measured: Path) -> None:
    records, tables = Experiment.open(measured).levels(), serverdyno.open(measured)
    assert tables.levels["operations"].to_pylist() == [record.operations for record in records]
    assert tables.levels["factor_threads"].to_pylist() == ["1", "1", "2", "2"]
    in_classes = sum(tables.operations["count"].to_pylist())
    assert in_classes == sum(record.operations for record in records)
    assert tables.clients.num_rows == sum(len(record.by_client) for record in records)
    assert tables.timeline.num_rows == sum(len(record.by_second) for record in records)
    times = [row for row in tables.histograms.to_pylist() if row["run"] == 1 and row["level"] == 1]
    assert [row["share"] for row in times] == sorted(row["share"] for row in times)
    by_share = {row["share"]: row["response_time_ms"] for row in times}
    assert by_share[0.99] == tables.levels["response_time_p99_ms"][0].as_py()


def test_every_column_begins_with_the_same_keys(measured: Path) -> None:
    tables = serverdyno.open(measured)
    for table in (tables.levels, tables.clients, tables.operations, tables.timeline, tables.histograms):
        assert table.column_names[:3] == ["run", "configuration", "factor_threads"]


def test_experiments_are_listed_and_shown(home: Home, measured: Path) -> None:
    done = home.here("list", measured.parent, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert re.search(r"tiny +reference-threads-1,? ", done.stdout) and "complete" in done.stdout
    shown = home.here("show", measured)
    assert shown.returncode == 0, shown.stderr
    assert "001-reference-threads-1-r1  2 of 2 levels, done" in shown.stdout
    assert f"no report yet; to write it: dyno report {measured}" in shown.stdout
    assert home.here("list", measured / "none").returncode == 2
