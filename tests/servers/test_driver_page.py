"""The page on writing a driver: its example works as printed, and refuses TLS, as the page says."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.places import ROOT

PAGE = ROOT / "docs" / "write-a-driver.md"
PLAN = """\
name = "python-web"
suite = "quick-web"
repetitions = 1
[[servers]]
server = "python-web"
"""


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "driver_of_the_page.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(DRIVERS, "python-web", import_module("driver_of_the_page").PythonWeb)
    monkeypatch.delitem(sys.modules, "driver_of_the_page")


def test_the_driver_of_the_page_serves_every_document_of_a_suite(
    home: Home, tmp_path: Path, short_windows: None, driver: None
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    done = home.here("run", tmp_path / "plan.toml", "--scale", "0.1", "--into", tmp_path / "e")
    assert done.returncode == 0, done.stdout + done.stderr
    with Experiment.open(tmp_path / "e") as kept:
        records = list(kept.levels())
    assert records
    assert all(record.operations_total and not record.errors for record in records), records


def test_the_driver_of_the_page_refuses_tls_before_load(home: Home, tmp_path: Path, driver: None) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.replace("quick-web", "quick-tls"))
    done = home.here("plan", "check", tmp_path / "plan.toml")
    assert done.returncode == 2
    assert "TLS" in done.stdout + done.stderr
