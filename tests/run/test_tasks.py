"""Plans of tasks: what is refused, what a run keeps and a resume adds, who is said to lead, and what a report shows."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from serverdyno import report, scenarios
from serverdyno.analysis import steps as analysis
from serverdyno.errors import DynoError, PlanError, UserError
from serverdyno.plan.expand import configurations_of
from serverdyno.plan.model import RunKey
from serverdyno.plan.order import order
from serverdyno.report import tasks
from serverdyno.report.model import TaskReport
from serverdyno.report.views import charts, markdown, steps_document
from serverdyno.scenarios import carry_out as of_scenarios
from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from serverdyno.tasks.bonnie import BONNIE
from serverdyno.tasks.carry_out import carry_out, head_of
from serverdyno.tasks.experiment import StepRecord, TaskExperiment, TaskHead, TaskRecord
from serverdyno.tasks.load import LoadedTasks, load_tasks
from support.dyno_process import Home
from support.file_server import needs_root
from support.places import ROOT

SETTINGS_TYPES = {name: driver.settings_type for name, driver in DRIVERS.items()}
PLANS = ROOT / "plans"
SCENARIO = """
name = "small"
title = "A tree and a copy"
[trees.t]
files = [{ name = "a", count = 5, bytes = 100 }]
[local.big]
bytes = 70_000
[[steps]]
do = "make-tree"
tree = "t"
[[steps]]
do = "list"
tree = "t"
long = true
[[steps]]
do = "copy-to"
local = "big"
file = "big"
"""
PLAN = """
name = "p"
tasks = ["bonnie", "small.toml"]
repetitions = 2
[bonnie]
size_mib = 1
seeks = 30
[[servers]]
server = "reference-nfs"
[servers.settings]
capacity_mib = 64
[servers.factors]
flush = ["honour", "ignore"]
"""


def written(folder: Path, plan: str = PLAN) -> Path:
    (folder / "small.toml").write_text(SCENARIO)
    path = folder / "plan.toml"
    path.write_text(plan)
    return path


def test_the_shipped_plan_has_the_tasks_of_the_report_over_udp_and_one_over_tcp() -> None:
    loaded = load_tasks(PLANS / "etesting-2002-nfs.toml", SETTINGS_TYPES)
    assert list(loaded.tasks) == [BONNIE, "etesting-2002"]
    assert loaded.plan.published == "2002-etesting-sfu" and loaded.plan.bonnie.size_mib == 2047
    transports = {
        server.name or server.server: server.settings.get("proto") for server in loaded.plan.servers
    }
    assert transports == {"sync-tcp": None, "sync": "udp", "async": "udp"}


def test_all_problems_of_a_plan_come_at_once_with_key_and_line(tmp_path: Path) -> None:
    plan = """name = "p"
tasks = ["bonie", "bonnie", "bonnie"]
published = "1066"
scale = 2.0
[[servers]]
server = "nginx"
[[servers]]
server = "external"
url = "nfs://192.0.2.1/export"
"""
    with pytest.raises(PlanError) as caught:
        load_tasks(written(tmp_path, plan), SETTINGS_TYPES)
    told = caught.value.problems
    for expected in (
        'line 2: tasks[0]: no task "bonie"; did you mean bonnie?',
        "line 2: tasks[2]: bonnie is there twice",
        'line 3: published: no published report "1066"',
        "line 4: scale: must be at most 1",
        "line 6: servers[0].server: speaks HTTP, but tasks are carried out over",
        "line 9: servers[1].url: is not on this machine",
    ):
        assert any(problem.startswith(expected) for problem in told), (expected, told)
    assert not any("bounds" in problem.partition(":")[0] for problem in told)  # they would not help


def test_bonnies_file_and_the_files_of_scenarios_follow_the_scale(tmp_path: Path) -> None:
    plan = load_tasks(written(tmp_path), SETTINGS_TYPES, 0.5).plan
    assert plan.bonnie.size_mib == 1 and plan.scaled_bonnie.size_mib == 1
    large = plan.model_copy(update={"bonnie": plan.bonnie.model_copy(update={"size_mib": 2047})})
    assert large.scaled_bonnie.size_mib == 1024 and large.scaled_bonnie.seeks == plan.bonnie.seeks


@needs_root
def test_a_run_keeps_each_task_and_a_resume_does_what_is_missing(home: Home, tmp_path: Path) -> None:
    plan, folder = written(tmp_path), tmp_path / "e"
    done = home.here("run", plan, "--into", folder)
    assert done.returncode == 0, done.stderr
    runs = sorted((folder / "runs").iterdir())
    names = [f"reference-nfs-flush-{flush}" for flush in ("honour", "ignore", "ignore", "honour")]
    assert [run.name[4:-3] for run in runs] == names
    kept = {path: path.read_bytes() for run in runs for path in run.iterdir()}
    assert sorted(path.name for path in kept) == ["bonnie.json"] * 4 + ["small.json"] * 4
    for path, content in kept.items():
        record = json.loads(content)
        assert all(step["elapsed_s"] > 0 for step in record["steps"]), path
        if path.name == "bonnie.json":
            assert [step["step"] for step in record["steps"]][:2] == ["putc", "rewrite"]
        else:
            make, cold, warm, copy = record["steps"]
            assert make["requests"]["CREATE"] == 5 and copy["bytes"] == 70_000
            assert (cold["state"], warm["state"], cold["entries"]) == ("cold", "warm", 5)
    # One record is damaged, another is gone: both are measured again, and nothing else is.
    (runs[0] / "bonnie.json").write_text("{")
    (runs[3] / "small.json").unlink()
    again = home.here("resume", folder)
    assert again.returncode == 0 and "set aside as" in again.stderr, again.stderr
    for path, content in kept.items():
        redone = path in (runs[0] / "bonnie.json", runs[3] / "small.json")
        assert path.is_file() and (path.read_bytes() != content) == redone, path
    with (folder / "report" / "tables" / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * (6 + 4) and {row["task"] for row in rows} == {"bonnie", "small"}
    page = (folder / "report" / "report.html").read_text()
    assert "Per Char- --Block---" in page  # the rows of the original
    views = home.here("report", folder, "--pdf", "--json", "--markdown")
    assert views.returncode == 0, views.stderr
    assert (folder / "report" / "report.pdf").read_bytes().startswith(b"%PDF-")
    assert len(json.loads((folder / "report" / "report.json").read_text())["steps"]) == 6 + 4
    listed = home.here("list", tmp_path, COLUMNS="300")
    assert "complete" in listed.stdout and "reference-nfs-flush-honour" in listed.stdout, listed.stdout
    shown = home.here("show", folder).stdout
    assert "state: complete" in shown and "2 of 2 tasks" in shown and "report.html" in shown
    for refused in (("compare", folder), ("run", plan, "--until", "2%")):
        told = home.here(*refused)
        assert told.returncode == 2 and "tasks" in told.stderr and "Traceback" not in told.stderr, told.stderr


@needs_root
def test_repetitions_have_other_contents_and_all_configurations_have_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    carried_out = of_scenarios.carry_out

    def noting(*words: Any) -> None:
        seeds.append(words[2].seed)
        carried_out(*words)

    monkeypatch.setattr(of_scenarios, "carry_out", noting)
    loaded = load_tasks(written(tmp_path, PLAN.replace('"bonnie", ', "")), SETTINGS_TYPES)
    with TaskExperiment.create(tmp_path / "e", loaded.text, head_of(loaded)) as experiment:
        assert carry_out(experiment, lambda _: None)
    first = loaded.plan.seed
    assert seeds == [first, first, first + 1, first + 1]


def test_a_server_that_cannot_start_is_noted_and_the_others_go_on(home: Home, tmp_path: Path) -> None:
    plan = PLAN.replace(
        '[servers.factors]\nflush = ["honour", "ignore"]\n',
        '[[servers]]\nserver = "external"\nurl = "nfs://127.0.0.1:9/export"\n',
    ).replace("repetitions = 2", "repetitions = 1")
    done = home.here("run", written(tmp_path, plan), "--into", tmp_path / "e")
    assert done.returncode == 1 and "FAILED 002-" in done.stderr and "dyno resume" in done.stderr, done.stderr
    assert sorted(path.name for path in (tmp_path / "e" / "runs").glob("*/*")) == [
        "bonnie.json",
        "failure.json",
        "small.json",
    ]
    assert "tasks are missing" in done.stdout


def times(seconds: float, scatter: float, seed: int, runs: int = 3) -> dict[int, float]:
    noise = np.random.default_rng(seed).normal(0, scatter, runs)
    return {run + 1: float(seconds * np.exp(each)) for run, each in enumerate(noise)}


def test_who_leads_is_who_is_faster_than_all_others_and_by_how_much_than_the_next() -> None:
    step = {"a": times(1, 0.01, 1), "b": times(2, 0.01, 2), "c": times(8, 0.01, 3)}
    [gaps] = analysis.gaps([step], paired=True)
    lead = analysis.lead(gaps)
    assert lead is not None and (lead.winner, lead.next) == ("a", "b")
    assert lead.low < 2 < lead.high and lead.ratio == pytest.approx(2, rel=0.05)
    assert analysis.beaten(gaps) == {"b", "c"}
    tie = {"a": times(1, 0.3, 1), "b": times(1.02, 0.3, 2), "c": times(80, 0.01, 3)}
    [gaps] = analysis.gaps([tie], paired=True)
    assert analysis.lead(gaps) is None and analysis.beaten(gaps) == {"c"}
    [gaps] = analysis.gaps([{"a": {1: 1.0}, "b": {1: 9.0}}], paired=True)
    assert analysis.lead(gaps) is None and not analysis.beaten(gaps)


def test_equal_servers_of_many_noisy_steps_seldom_have_a_leader() -> None:
    """Of 60 experiments of 12 steps, which scatter by 1 % to 50 %, at most a tenth claims anything."""
    scatters = [0.01, 0.05, 0.1, 0.5] * 3
    claimed = 0
    for seed in range(60):
        steps = [
            {name: times(1, scatter, hash((seed, place, name)) % 2**32) for name in (1, 2, 3)}
            for place, scatter in enumerate(scatters)
        ]
        named = [{f"s{name}": found for name, found in step.items()} for step in steps]
        claimed += any(analysis.beaten(gaps) for gaps in analysis.gaps(named, paired=True))
    assert claimed <= 6, claimed


def made_up(folder: Path, elapsed: Mapping[str, float]) -> TaskExperiment:
    """Bonnie and the scenario of 2002 on servers that take so many times as long."""
    text = (PLANS / "etesting-2002-nfs.toml").read_text()
    loaded: LoadedTasks = load_tasks(PLANS / "etesting-2002-nfs.toml", SETTINGS_TYPES, 0.02)
    configurations = [
        each
        for server in loaded.plan.servers
        for each in configurations_of(server, SETTINGS_TYPES)
        if each.name in elapsed
    ]
    head = TaskHead(
        tool_version="0",
        created=datetime(2026, 11, 23, tzinfo=UTC),
        plan=loaded.plan,
        scenarios={"etesting-2002": scenarios.load("etesting-2002")},
        cpus=[0],
        configurations=configurations,
        tasks=list(loaded.tasks),
        order=order(configurations, 3, "interleaved", 1),
    )
    experiment = TaskExperiment.create(folder, text, head)
    for run in head.order:
        base = elapsed[run.configuration] * (1 + run.repetition / 1000)
        bonnie = [(phase, "", None) for phase in ("putc", "rewrite", "write", "getc", "read", "seeks")]
        lists = [("ls aaa*", "cold", 8), ("ls aaa*", "warm", 8), ("mkfile 10240m", "", 13)]
        for task, steps in ((BONNIE, bonnie), ("etesting-2002", lists)):
            rows = [
                StepRecord(
                    step=name,
                    state=state,
                    figure=figure,
                    elapsed_s=base,
                    user_s=base / 4,
                    system_s=base / 8,
                    bytes=1000,
                    requests={"WRITE": 7, "COMMIT": 2}
                    | ({"(sent again without an answer in time)": 1} if run.configuration == "sync" else {}),
                )
                for name, state, figure in steps
            ]
            syncs = {"fsync": 18 if run.configuration == "sync-tcp" else 0}
            experiment.write_task(
                run, TaskRecord(task=task, started_unix_s=1.0, steps=rows, server_cpu_s=0.5, syncs=syncs)
            )
    return experiment


def page_of(experiment: TaskExperiment) -> TaskReport:
    return tasks.build(tasks.source_of(experiment))


def test_the_first_screen_says_who_leads_by_how_much_and_who_did_not_sync(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        page = page_of(experiment)
    assert page.answer.verdict == "async leads in 9 of 9 steps."
    [leads, sure] = page.answer.lines
    assert leads[0] == "async leads in" and "Bonnie's putc 2.0 times as fast as sync (" in leads[1]
    assert "3 repetitions of each, interleaved" in sure[1] and "27 comparisons" in sure[1]
    claims = [caveat.claim for caveat in page.answer.caveats]
    assert "async made no sync for the 54 flushes that it answered." in claims
    assert "sync: 27 of 243 requests got no answer in time and were sent again." in claims
    assert not any(claim.startswith("sync-tcp") for claim in claims)
    assert any(claim.startswith("Scale 0.02") for claim in claims)
    text = markdown.text(page)
    assert "can't tell" not in text and "ls aaa\\*" in text


def test_each_step_of_each_task_is_drawn_with_its_range_and_each_pair_with_its_interval(
    tmp_path: Path,
) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        page = page_of(experiment)
    bars = [figure for figure in page.figures if figure.kind == "bars"]
    panels = [panel for figure in bars for panel in figure.panels]
    assert [panel.title for panel in panels][5:8] == ["seeks", "ls aaa*, cold", "ls aaa*, warm"]
    for panel in panels:
        assert [line.name for line in panel.series] == ["sync-tcp", "sync", "async"]
        [point] = panel.series[0].points
        assert (point.low, point.y, point.high) == pytest.approx((4.004, 4.008, 4.012))
    effects = [figure for figure in page.figures if figure.kind == "effects"]
    assert [len(figure.panels[0].series) for figure in effects] == [9, 9]
    [point] = effects[1].panels[0].series[0].points
    assert point.y == pytest.approx(300) and point.low is not None and point.low <= 300
    drawn = "".join(charts.svg(figure) for figure in bars)
    assert drawn.count("4.01 s (4.00 to 4.01)") == 2 * len(panels)  # as text, and when it is pointed at


def test_the_published_schema_of_reports_of_tasks_is_that_of_the_document(tmp_path: Path) -> None:
    made = json.dumps(steps_document.TaskReportDocument.schema(), indent=1, ensure_ascii=False) + "\n"
    place = ROOT / "docs" / steps_document.SCHEMA_NAME
    if os.environ.get("DYNO_UPDATE_GOLDEN"):
        place.write_text(made, encoding="utf-8")
    assert place.read_text(encoding="utf-8") == made
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        document = json.loads(steps_document.TaskReportDocument(page_of(experiment)).as_json())
    jsonschema.validate(document, json.loads(made))
    first = document["steps"][0]
    assert (first["step"], first["leader"]) == ("putc", "async")
    assert first["configurations"][0]["elapsed_s"]["mean"] == pytest.approx(4.008)
    assert first["configurations"][0]["requests"] == {"WRITE": 7.0, "COMMIT": 2.0}


def test_equal_times_have_no_leader(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 1.0, "sync": 1.0, "async": 1.0}) as experiment:
        page = page_of(experiment)
    assert page.answer.verdict == "In none of 9 steps is one configuration proven faster than all others."


def test_the_published_figures_stand_beside_as_they_were_printed(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        page = page_of(experiment)
        found = {table.key: table for table in page.tables}
        rows = [[cell.text for cell in row] for row in found["published-times"].rows]
        assert ["ls aaa*", "SFU 3.0", "2.069", "0.030", "0.890"] in rows
        assert ["mkfile 10240m", "SFU 2.0", "–", "–", "–"] in rows  # noqa: RUF001  not measured
        bonnie = [[cell.text for cell in row] for row in found["published-bonnie"].rows]
        assert bonnie[0][:8] == ["SFU 3.0", "–", "10,394", "97.3", "10,485", "7.9", "5,744", "4.2"]  # noqa: RUF001
        written = report.write_report(page, experiment.report_folder())
        content = written.read_text()
    assert "Not comparable: another time, other hardware" in content and "Dell PowerEdge 4400" in content


def test_names_that_lead_out_of_the_folder_and_impossible_records_are_damage(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    made_up(folder, {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}).__exit__()
    record = next((folder / "runs").glob("*/bonnie.json"))
    record.write_text(re.sub(r'"elapsed_s": [0-9.]+', '"elapsed_s": -1', record.read_text(), count=1))
    with TaskExperiment.open(folder) as experiment:
        found, _, problems = experiment.records()
    assert len(problems) == 1 and "elapsed_s" in f"{problems[0]}" and len(found) == 17
    with pytest.raises(UserError, match="an experiment of tasks"):
        Experiment.open(folder)
    head = folder / "tasks.json"
    head.write_text(head.read_text().replace('"bonnie",', '"../../out",'))
    with pytest.raises(DynoError, match="not a name"):
        TaskExperiment.open(folder)


def test_a_finished_task_is_never_replaced(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        [(run, task), record] = next(iter(experiment.records()[0].items()))
        assert isinstance(run, RunKey) and task == record.task
        with pytest.raises(ValueError, match="finished already"):
            experiment.write_task(run, record)
