"""Levels that end when their work is done: what a run stores, a resume adds and a report shows."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serverdyno import report
from serverdyno.analysis import steps as analysis
from serverdyno.analysis.durability import SyncExtent
from serverdyno.analysis.improvement import Verdict
from serverdyno.cli.run import check_published
from serverdyno.counted import RequestRow
from serverdyno.errors import PlanError, UserError
from serverdyno.plan.expand import configurations, levels_of, with_scaled_work
from serverdyno.plan.load import load_plan
from serverdyno.plan.model import RunKey
from serverdyno.plan.order import order
from serverdyno.plan.protocols.files import FILES
from serverdyno.report.build import build_from, half_width_percent, source_of
from serverdyno.report.model import Report
from serverdyno.report.subjects.durability import promises_of_steps
from serverdyno.report.views import charts, markdown
from serverdyno.report.views.document import ReportDocument
from serverdyno.run import steps as of_steps
from serverdyno.run.create import create_experiment
from serverdyno.run.experiment import carry_out
from serverdyno.servers.registry import DRIVERS
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import ExperimentHead
from serverdyno.store.note import RunNote
from serverdyno.store.records import LevelRecord, SyncRow
from support.dyno_process import Home
from support.experiments import Listener
from support.file_server import needs_root
from support.places import ROOT
from support.records import TIMES, make_record
from support.suites_of_steps import bonnie_suite, steps_suite

SETTINGS_TYPES = {name: driver.settings_type for name, driver in DRIVERS.items()}
PLANS = ROOT / "plans"
STEPS = """
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
suites = ["bonnie.toml", "small.toml"]
repetitions = 2
[[servers]]
server = "reference-nfs"
[servers.settings]
capacity_mib = 64
[servers.factors]
flush = ["honour", "ignore"]
"""


def written(folder: Path, plan: str = PLAN) -> Path:
    (folder / "small.toml").write_text(steps_suite("small", STEPS))
    (folder / "bonnie.toml").write_text(bonnie_suite("bonnie", size_mib=1, seeks=30))
    path = folder / "plan.toml"
    path.write_text(plan)
    return path


def test_the_shipped_plan_has_the_suites_of_the_report_over_udp_and_one_over_tcp() -> None:
    loaded = load_plan(PLANS / "etesting-2002-nfs.toml", SETTINGS_TYPES)
    assert [suite.name for suite in loaded.suites] == ["etesting-2002-bonnie", "etesting-2002"]
    bonnie = loaded.suites[0].settings(FILES).bonnie
    assert loaded.plan.published == "2002-etesting-sfu" and bonnie is not None and bonnie.size_mib == 2047
    transports = {
        server.name or server.server: server.settings.get("proto") for server in loaded.plan.servers
    }
    assert transports == {"sync-tcp": None, "sync": "udp", "async": "udp"}
    # The laboratory rebooted both machines before each command.
    assert loaded.plan.drop_caches


def test_all_problems_of_a_plan_come_at_once_with_key_and_line(tmp_path: Path) -> None:
    plan = """name = "p"
suites = ["bonie", "etesting-2002"]
scale = 2.0
[[servers]]
server = "nginx"
[[servers]]
server = "external"
url = "nfs://192.0.2.1/export"
"""
    with pytest.raises(PlanError) as caught:
        load_plan(written(tmp_path, plan), SETTINGS_TYPES)
    told = caught.value.problems
    for expected in (
        'line 2: suites[0]: no suite "bonie"; did you mean bonnie?',
        "line 3: scale: must be at most 1",
        "line 5: servers[0].server: speaks HTTP, but the suite etesting-2002 measures files over",
        "line 6: servers[1].bounds: missing",
    ):
        assert any(problem.startswith(expected) for problem in told), (expected, told)
    loaded = load_plan(written(tmp_path), SETTINGS_TYPES)
    with pytest.raises(UserError, match='no published report "1066"'):
        check_published(loaded.plan.model_copy(update={"published": "1066"}))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ('suites = ["bonnie", "bonnie"]', "a suite is listed twice"),
        ('suite = "bonnie"\nsuites = ["streams"]', "needs either suite or suites"),
        ('suites = ["bonnie", "quick-open"]', "it must be the only suite of a plan"),
    ],
)
def test_what_a_plan_of_steps_can_not_have_is_refused(tmp_path: Path, plan: str, words: str) -> None:
    text = f'name = "p"\n{plan}\n[[servers]]\nserver = "reference-nfs"\n'
    with pytest.raises(PlanError) as caught:
        load_plan(written(tmp_path, text), SETTINGS_TYPES)
    assert any(words in problem for problem in caught.value.problems), caught.value.problems


def test_bonnies_file_and_the_files_of_scenarios_follow_the_scale(tmp_path: Path) -> None:
    small, steps = load_plan(written(tmp_path), SETTINGS_TYPES).suites
    large = load_plan(PLANS / "etesting-2002-nfs.toml", SETTINGS_TYPES).suites[0]
    for suite, size_mib in ((small, 1), (large, 1024)):
        before, after = (each.settings(FILES).bonnie for each in (suite, with_scaled_work(suite, 0.5)))
        assert before is not None and after is not None
        assert (after.size_mib, after.seeks) == (size_mib, before.seeks)
    halved = with_scaled_work(steps, 0.5).settings(FILES).scenario
    assert halved is not None and halved.local["big"].bytes == 35_000
    assert halved.trees["t"].files[0].count == math.ceil(2.5)


@needs_root
def test_a_run_keeps_each_level_and_a_resume_does_a_group_anew_as_a_whole(home: Home, tmp_path: Path) -> None:
    plan, folder = written(tmp_path), tmp_path / "e"
    done = home.here("run", plan, "--into", folder)
    assert done.returncode == 0, done.stderr
    runs = sorted((folder / "runs").iterdir())
    names = [f"reference-nfs-flush-{flush}" for flush in ("honour", "ignore", "ignore", "honour")]
    assert [run.name[4:-3] for run in runs] == names
    kept = {path: path.read_bytes() for run in runs for path in run.glob("level-*")}
    assert len(kept) == 4 * (6 + 4)
    with Experiment.open(folder) as opened:
        records = opened.levels()
    assert all(record.window_s > 0 for record in records)
    for run in opened.head.order:
        own = [record for record in records if record.run == run.number]
        assert [record.step for record in own][:2] == ["putc", "rewrite"]
        make, cold, warm, copy = own[6:]
        asked = {row.request: row.count for row in make.requests}
        assert asked["CREATE"] == 5 and copy.bytes_written == 70_000
        assert (cold.state, warm.state, cold.entries, copy.state) == ("cold", "warm", 5, "")
    note = json.loads((runs[0] / "run.json").read_text())
    # Six phases of Bonnie, the last with three seekers, and four passes of steps.
    assert [(each["dialect"], each["clients"]) for each in note["sessions"]] == [("3", 5 + 3 + 4)]
    assert note["client_cache"] is not None
    # One of Bonnie's levels is damaged, and one of the steps is missing: only these two groups are measured again.
    (runs[0] / "level-02.parquet").write_text("{")
    (runs[3] / "level-09.parquet").unlink()
    again = home.here("resume", folder)
    assert again.returncode == 0 and "renamed to" in again.stderr, again.stderr
    for path, content in kept.items():
        place = int(path.stem[6:])
        redone = (path.parent == runs[0] and place <= 6) or (path.parent == runs[3] and place > 6)
        assert path.is_file() and (path.read_bytes() != content) == redone, path
    with (folder / "report" / "tables" / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * (6 + 4) and {row["suite"] for row in rows} == {"bonnie", "small"}
    page = (folder / "report" / "report.html").read_text()
    assert "Per Char- --Block---" in page  # the rows of the original
    views = home.here("report", folder, "--pdf", "--json", "--markdown")
    assert views.returncode == 0, views.stderr
    assert (folder / "report" / "report.pdf").read_bytes().startswith(b"%PDF-")
    assert len(json.loads((folder / "report" / "report.json").read_text())["steps"]) == 6 + 4
    listed = home.here("list", tmp_path, COLUMNS="300")
    assert "complete" in listed.stdout and "reference-nfs-flush-honour" in listed.stdout, listed.stdout
    shown = home.here("show", folder).stdout
    assert "state: complete" in shown and "10 of 10 levels" in shown and "report.html" in shown


@needs_root
@pytest.mark.usefixtures("short_windows")
def test_a_plan_may_have_steps_and_load_one_after_the_other_on_one_server(home: Home, tmp_path: Path) -> None:
    timed = """
name = "timed"
source = "a test"
workload = "streams"
clients = [1, 2]
length_s = 0.5
[files]
cache = "none"
[files.streams]
file_bytes = 131072
"""
    (tmp_path / "timed.toml").write_text(timed)
    (tmp_path / "again.toml").write_text(timed.replace('"timed"', '"again"'))
    plan = PLAN.replace('"small.toml"]', '"timed.toml", "again.toml"]').replace("= 2", "= 1", 1)
    folder = tmp_path / "e"
    done = home.here("run", written(tmp_path, plan), "--into", folder)
    assert done.returncode == 0, done.stderr
    with Experiment.open(folder) as opened:
        records = opened.levels()
        built = report.build(opened)
    own = [(record.suite, record.level, record.step is None) for record in records if record.run == 1]
    assert own[5:] == [
        ("bonnie", 6, False),
        *(("timed", place, True) for place in (7, 8)),
        *(("again", place, True) for place in (9, 10)),
    ]
    keys = {table.key for table in built.tables}
    assert {"timed-peaks", "again-peaks", "leads", "bonnie"} <= keys, keys
    # A phase of Bonnie is not a point of a curve.
    assert {level.index for result in built.results.configurations for level in result.finished} == {7, 8}
    assert built.answer.verdict.startswith("timed: ") and " again: " in built.answer.verdict
    assert "so no difference can be proven." in built.answer.verdict


@needs_root
def test_repetitions_have_other_contents_and_all_configurations_have_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    carried_out = of_steps.carry_out

    def noting(*words: Any, **more: Any) -> list[of_steps.LevelDone]:
        seeds.append(words[2])
        return carried_out(*words, **more)

    monkeypatch.setattr(of_steps, "carry_out", noting)
    loaded = load_plan(written(tmp_path, PLAN.replace('"bonnie.toml", ', "")), SETTINGS_TYPES)
    with create_experiment(tmp_path / "e", loaded.text, loaded.plan, loaded.suites) as experiment:
        assert carry_out(experiment, Listener())
    first, other = dict.fromkeys(seeds)
    assert seeds == [first, first, other, other]


def test_a_server_that_cannot_start_is_noted_and_the_others_go_on(home: Home, tmp_path: Path) -> None:
    text = PLAN.replace(
        '[servers.factors]\nflush = ["honour", "ignore"]\n',
        '[[servers]]\nserver = "external"\nurl = "nfs://127.0.0.1:9/export"\n',
    )
    done = home.here("run", written(tmp_path, text), "--into", tmp_path / "e")
    assert done.returncode == 1 and "external: " in done.stderr, done.stderr
    assert not (tmp_path / "e").exists()


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
    # Of 60 experiments of 12 steps that scatter by 1 % to 50 %, at most a tenth may claim a difference.
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


ON_A_DISK = RunNote.model_validate(
    {
        "state": "done",
        "disk_fsync_ms": {"count": 50.0, "p50": 4.2, "p99": 9.0, "max": 11.0},
        "media": [
            [
                {
                    "file_system": "ext4",
                    "options": ["rw"],
                    "device": "/dev/vda1",
                    "devices": [{"name": "vda1", "write_cache": "write through"}],
                }
            ]
        ],
        "synchronous": [False],
    }
)


def made_up(folder: Path, elapsed: Mapping[str, float]) -> Experiment:
    """Create an experiment of Bonnie and the scenario of 2002, on servers that take `elapsed` times as long."""
    loaded = load_plan(PLANS / "etesting-2002-nfs.toml", SETTINGS_TYPES, 0.02)
    found = [each for each in configurations(loaded.plan, SETTINGS_TYPES) if each.name in elapsed]
    made = [with_scaled_work(suite, 0.02) for suite in loaded.suites]
    kept = (*range(1, 7), 8, 9, 16)  # all of Bonnie, and the steps of figures 8 and 13
    levels = [level for level in levels_of(made, 0.02) if level.index in kept or level.index == 17]
    levels = [level for level in levels if level.step in ("ls aaa*", "mkfile 10240m") or level.index <= 6]
    head = ExperimentHead(
        tool_version="0",
        created=datetime(2026, 11, 23, tzinfo=UTC),
        seed=1,
        scale=0.02,
        plan=loaded.plan.model_copy(update={"scale": 0.02}),
        suites=made,
        configurations=found,
        levels=levels,
        order=order(found, 3, "interleaved", 1),
    )
    experiment = Experiment.create(folder, loaded.text, head)
    for run in head.order:
        base = elapsed[run.configuration] * (1 + run.repetition / 1000)
        for suite in head.suites:
            experiment.write_level(
                *(
                    _level(run, suite.name, level.index, base, head)
                    for level in head.levels
                    if level.suite == suite.name
                )
            )
        experiment.write_run_note(run, ON_A_DISK)
    return experiment


def _level(run: RunKey, suite: str, place: int, base: float, head: ExperimentHead) -> LevelRecord:
    own = [level for level in head.levels if level.suite == suite]
    level = next(level for level in own if level.index == place)
    again = {"(sent again without an answer in time)": 1} if run.configuration == "sync" else {}
    requests = {"WRITE": 7, "COMMIT": 2} | again
    return replace(
        make_record(run, place),
        suite=suite,
        name=level.name,
        step=level.step,
        state=level.state,
        figure=level.figure,
        clients=level.clients,
        threads=1,
        length_s=level.length_s,
        ramp_up_s=0.0,
        ramp_down_s=0.0,
        window_s=base,
        generator_cpu_user_s=base / 4,
        generator_cpu_system_s=base / 8,
        bytes_read=0,
        bytes_written=1000,
        response_time_hdr=TIMES,
        requests=[RequestRow(name, count) for name, count in requests.items()],
        server_cpu_s=0.5,
        syncs_known=True,
        syncs=[SyncRow("fsync", 0 if run.configuration == "async" else 2)],
    )


def page_of(experiment: Experiment) -> Report:
    return report.build(experiment)


def test_the_first_screen_says_who_leads_by_how_much_and_who_did_not_sync(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        page = page_of(experiment)
    assert page.answer.verdict == "async leads in 9 of 9 steps."
    [leads, sure] = page.answer.lines
    assert leads[0] == "async leads in" and "Bonnie's putc 2.0 times as fast as sync (" in leads[1]
    assert "3 repetitions of each step, interleaved" in sure[1] and "27 comparisons" in sure[1]
    claims = [caveat.claim for caveat in page.answer.caveats]
    [told] = [claim for claim in claims if "flush" in claim]
    assert "They did not do the same work" in told
    assert "async: flushes answered without any sync" in told
    assert "sync-tcp: at least as many syncs as flushes" in told
    assert "sync: clients repeated 27 of 243 requests, because they got no answer in time." in claims
    assert not any(claim.startswith("sync-tcp") for claim in claims)
    assert any(claim.startswith("The experiment has scale 0.02: ") for claim in claims)
    text = markdown.text(page)
    assert "| can't tell" not in text and "ls aaa\\*" in text


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
    assert drawn.count("4.01 s (4.00 to 4.01)") == 2 * len(panels)  # as text, and on hovering


def test_the_document_has_the_times_of_each_step_and_who_leads(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        document = json.loads(ReportDocument.of(page_of(experiment)).as_json())
    first = document["steps"][0]
    assert (first["suite"], first["step"], first["leader"]) == ("etesting-2002-bonnie", "putc", "async")
    assert first["configurations"][0]["elapsed_s"]["mean"] == pytest.approx(4.008)
    assert first["configurations"][0]["requests"] == {"WRITE": 7.0, "COMMIT": 2.0}
    assert document["configurations"] == [] and document["comparisons"] == []


def test_equal_times_have_no_leader(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 1.0, "sync": 1.0, "async": 1.0}) as experiment:
        page = page_of(experiment)
    assert page.answer.verdict == "No configuration is proven faster than all others in any of 9 steps."


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
    assert "Not comparable: the year, the hardware" in content and "Dell PowerEdge 4400" in content


def test_an_impossible_record_is_damage(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with made_up(folder, {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        first, *_ = experiment.levels()
        with pytest.raises(ValueError, match="not part of"):
            experiment.write_level(replace(first, level=99))
        [run] = (folder / "runs").glob("001-*")
        (run / "level-01.parquet").unlink()
        experiment.write_level(replace(first, step="another"))
        found, problems = experiment.readable_levels()
    assert len(problems) == 1 and "another" in f"{problems[0]}" and len(found) == 9 * 9 - 1


def test_a_finished_group_is_never_replaced_and_one_in_part_is(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        group = [record for record in experiment.levels() if record.run == 1 and record.level <= 6]
        with pytest.raises(ValueError, match="already finished"):
            experiment.write_level(*group)
        [path] = (tmp_path / "e" / "runs").glob("001-*/level-03.parquet")
        path.unlink()
        experiment.write_level(*(replace(record, window_s=9.0) for record in group))
        again = [record for record in experiment.levels() if record.run == 1 and record.level <= 6]
    assert [record.window_s for record in again] == [9.0] * 6


def test_steps_that_the_client_itself_limits_are_told_but_not_what_bonnie_computes(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        source = source_of(experiment)
    busy = [
        replace(record, generator_cpu_user_s=record.window_s)
        if record.name in ("putc", "rewrite")
        else record
        for record in source.records
    ]
    for records, expected in ((source.records, []), (busy, ["Bonnie's rewrite."])):
        page = build_from(replace(source, records=records))
        told = [each for each in page.answer.caveats if each.claim.startswith("The client's own CPU time")]
        assert [each.more.partition(": ")[2] for each in told] == expected


def test_what_is_missing_of_an_interrupted_experiment_is_told_and_not_that_it_is_whole(
    tmp_path: Path,
) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        source = source_of(experiment)
    last = source.head.order[-1]
    rest = [
        record for record in source.records if (record.run, record.suite) != (last.number, "etesting-2002")
    ]
    page = build_from(
        replace(source, records=rest, run_notes={**source.run_notes, last.number: RunNote(state="begun")})
    )
    assert "3 of 81 steps are missing." in [caveat.claim for caveat in page.answer.caveats]
    assert not any("finished its load levels" in warning for warning in page.warnings), page.warnings


def test_what_a_flush_did_is_judged_level_by_level_and_levels_at_once_together(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        source = source_of(experiment)
    page = build_from(source)
    [table] = [table for table in page.tables if table.key == "durability-of-steps"]
    assert [(row[0].text, row[2].text, row[7].text) for row in table.rows][:3] == [
        ("sync-tcp", "18", "18"),
        ("sync", "18", "18"),
        ("async", "18", "0"),
    ]
    assert [finding.topic for finding in page.findings].count("Durability") == 1
    # Surplus syncs of one level do not replace missing ones of another, unless the two were counted together.
    first, *rest = [record for record in source.records if record.run == 1]
    others = [record for record in source.records if record.run != 1]
    spare = [replace(first, syncs=[SyncRow("fsync", 18)])]
    without = [replace(record, syncs=[]) for record in rest]
    for records, extent in (
        ([*spare, *without], SyncExtent.FEWER),
        ([*(replace(each, syncs_known=False) for each in without), *spare], SyncExtent.EACH),
    ):
        made = promises_of_steps(replace(source, records=[*records, *others]))
        assert made[0].outcome.extent is extent


def compared_in(folder: Path, home: Home, *more: str | Path) -> Any:
    done = home.here("compare", folder, *more, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_configurations_and_experiments_of_steps_alone_are_compared_step_by_step(
    home: Home, tmp_path: Path
) -> None:
    both = {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}
    for name, slower in (("first", 1.0), ("second", 1.5)):
        with made_up(tmp_path / name, {server: each * slower for server, each in both.items()}):
            pass
    told = compared_in(tmp_path / "first", home)
    assert (told["verdict"], told["slowdown"], told["comparisons"]) == ("faster", "nothing is slower", [])
    first = told["steps"][0]
    assert (first["base"], first["other"], first["step"]) == ("sync-tcp", "sync", "putc")
    assert first["percent"] == pytest.approx(100) and first["verdict"] == "faster"
    assert len(told["steps"]) == 9 * 3
    shown = home.here("compare", tmp_path / "first", "--markdown").stdout
    assert "async against sync-tcp, faster in 9 steps: Bonnie's putc (4.0 times as fast)" in shown, shown
    # The shift between two times is unknown.
    told = compared_in(tmp_path / "first", home, tmp_path / "second")
    assert {each["verdict"] for each in told["steps"]} == {f"{Verdict.NOT_SEPARATED}"}
    assert told["steps"][0]["base_s"] * 1.5 == pytest.approx(told["steps"][0]["other_s"])
    # A step that only one of the two has is not compared.
    for path in (tmp_path / "second").glob("runs/*/level-02.parquet"):
        path.unlink()
    told = compared_in(tmp_path / "first", home, tmp_path / "second")
    assert len(told["steps"]) == 8 * 3


def test_repetitions_of_steps_go_on_until_the_time_of_each_suite_is_known_well_enough(tmp_path: Path) -> None:
    with made_up(tmp_path / "e", {"sync-tcp": 4.0, "sync": 2.0, "async": 1.0}) as experiment:
        source = source_of(experiment)
    half = half_width_percent(source)
    assert half is not None and 0 < half < 0.5
    # The result is the widest interval: one configuration of the suite scatters by a tenth.
    noisy = [
        replace(record, window_s=record.window_s * (1 + record.repetition / 10))
        if (record.configuration, record.suite) == ("async", "etesting-2002")
        else record
        for record in source.records
    ]
    wide = half_width_percent(replace(source, records=noisy))
    assert wide is not None and wide > 5
    alone = [record for record in source.records if record.repetition == 1]
    assert half_width_percent(replace(source, records=alone)) is None
