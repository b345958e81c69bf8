"""A null protocol, kind of work and server pass through plan, engine, records and report without changes to these."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from serverdyno import report
from serverdyno.errors import DynoError, PlanError
from serverdyno.plan import suites
from serverdyno.plan.load import parse_plan
from serverdyno.plan.model import Level, RunKey
from serverdyno.report.views import text
from serverdyno.run.create import create_experiment
from serverdyno.run.experiment import carry_out
from serverdyno.servers.registry import settings_types
from serverdyno.store.experiment import Experiment
from serverdyno.store.records import LevelRecord
from support.null_protocol import added

if TYPE_CHECKING:
    from serverdyno._native import Snapshot

SUITE = """
name = "nothing"
title = "Nothing, more and more often"
source = "a test"
workload = "null"
clients = [1, 4]
length_s = 1.4
ramp_up_s = 0.2
ramp_down_s = 0.2

[nothing]
delay_s = 0.002
"""
PLAN = """
name = "nothing"
title = "Two servers that are not there"
suite = "nothing"
repetitions = 2

[[servers]]
server = "null"
factors = { colour = ["grey", "red"] }
"""


class SilentProgress:
    """Ignores everything but failures, which it raises."""

    def stage(self, text: str) -> None:
        pass

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        pass

    def level_tick(self, snapshot: Snapshot) -> None:
        pass

    def level_finished(self, record: LevelRecord) -> None:
        pass

    def notice(self, text: str, hint: str | None = None) -> None:
        pass

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        raise error


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the protocol, the kind of work and the server for one test."""
    added(monkeypatch)


def measured(folder: Path) -> Experiment:
    """Carry out the plan, and return its experiment."""
    suite = suites.parse(SUITE, "nothing.toml")
    plan = parse_plan(PLAN, "plan.toml", settings_types(), known=[suite])
    shorter = suite.model_copy(update={"length_s": 0.5, "ramp_up_s": 0.1, "ramp_down_s": 0.1})
    with create_experiment(folder, PLAN, plan, [shorter]) as experiment:
        assert carry_out(experiment, SilentProgress())
    return Experiment.open(folder)


def test_a_null_protocol_runs_through_plan_engine_records_and_report(tmp_path: Path) -> None:
    experiment = measured(tmp_path / "e")
    records = experiment.levels()
    assert len(records) == 2 * 2 * 2
    for record in records:
        # Each client does operations in sequence, which take a little more than 2 ms each.
        assert 0 < record.operations <= record.clients * record.window_s / 0.002
        assert [row.operation for row in record.by_operation] == ["nothing"]
        assert not record.errors
    assert [each.protocol for each in experiment.head.configurations] == ["null", "null"]

    built = report.build(experiment)
    said = io.StringIO()
    text.render(built, Console(file=said, width=200))
    assert "operations/s" in said.getvalue()
    page = report.write_report(built, experiment.report_folder(), list(report.View))
    assert "No protocol: nothing leaves the generator; timeout 30 s." in page.read_text()
    as_json = json.loads(page.with_name("report.json").read_text())
    assert as_json["experiment"]["protocol"] == "null"
    assert "Durability" not in page.read_text()


def test_a_suite_of_nothing_is_refused_on_a_server_of_documents() -> None:
    suite = suites.parse(SUITE, "nothing.toml")
    text = PLAN.replace('server = "null"', 'server = "nginx"').replace("factors", "#")
    with pytest.raises(PlanError, match="speaks HTTP, but the suite nothing measures nothing over null"):
        parse_plan(text, "plan.toml", settings_types(), known=[suite])


def test_its_section_is_checked_as_any_other() -> None:
    with pytest.raises(PlanError, match=r"line 12: nothing.delay_s: must be at most 60"):
        suites.parse(SUITE.replace("0.002", "61"), "nothing.toml")
