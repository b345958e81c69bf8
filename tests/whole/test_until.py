"""Repetition until an experiment is precise enough, and before and after in one experiment, on tiny real loads."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from serverdyno.analysis import precision
from serverdyno.analysis.improvement import Verdict
from serverdyno.errors import PlanError, UserError
from serverdyno.plan import suites
from serverdyno.plan.against import against
from serverdyno.plan.load import LoadedPlan, parse_plan, until_precise
from serverdyno.probes import noise_floor
from serverdyno.report.build import build
from serverdyno.servers.local import find_program
from serverdyno.servers.registry import settings_types
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.simulations import coverage

HEAD = 'name = "p"\ntitle = "P"\nsuite = "quick-static"\nscale = 0.5\n'
RUN = HEAD.replace("scale = 0.5", "scale = 1")
ONE = '[[servers]]\nserver = "reference"\n'


SUITE = """
name = "tiny"
title = "Short levels"
source = "a test"
workload = "webbench-static"
clients = [4]
length_s = 0.4
ramp_up_s = 0.1
"""


@pytest.fixture
def suite(tmp_path: Path, short_windows: None) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SUITE)
    return path


def test_an_interval_that_was_waited_for_holds_the_truth_about_as_often_as_it_says() -> None:
    share, repetitions = coverage(2.0, 2000)
    assert 0.925 < share < 0.96
    assert 8 < repetitions < 20


@pytest.mark.parametrize("percent", ["0%", "-1", "101%", "much", "nan%", ""])
def test_a_precision_that_is_none_is_refused(percent: str) -> None:
    plan = parse_plan(HEAD + ONE, "p.toml", settings_types())
    with pytest.raises(UserError, match="--until"):
        until_precise(plan, percent, [suites.load(plan.suite_names[0])])
    assert until_precise(plan, "2.5 %", [suites.load(plan.suite_names[0])]).until_percent == 2.5


def test_nothing_can_be_added_to_a_sequential_order() -> None:
    sequential = 'order = "sequential"\n'
    with pytest.raises(UserError, match="sequential"):
        plan = parse_plan(HEAD + sequential + ONE, "p.toml", settings_types())
        until_precise(plan, "2%", [suites.load(plan.suite_names[0])])
    with pytest.raises(PlanError, match=r"until_percent: .*needs the order"):
        parse_plan(HEAD + sequential + "until_percent = 2\n" + ONE, "p.toml", settings_types())


@pytest.mark.parametrize(
    ("half", "done", "expected"), [(None, 6, False), (2.1, 6, False), (2.0, 6, True), (9.0, 29, True)]
)
def test_enough_is_precise_or_as_many_as_allowed(half: float | None, done: int, expected: bool) -> None:
    assert precision.is_enough(half, 2.0, done, 30) is expected


def test_a_pair_without_an_interval_leaves_the_precision_of_times_unknown() -> None:
    known = {"a": {1: 10.0, 2: 10.1, 3: 9.9}, "b": {1: 20.5, 2: 20.0, 3: 19.6}}
    assert precision.of_totals([known], paired=True) is not None
    assert precision.of_totals([known | {"c": {1: 5.0}}], paired=True) is None


def test_repetitions_are_added_in_pairs_until_the_cap_and_carry_the_noise_floor(
    home: Home, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    known = {"load": "x", "percent": 3.0, "scatter_percent": 1.0, "operations_s": 1000.0}
    noise_floor.keep(noise_floor.Selftest.model_validate({"made": noise_floor.now(), **known}))
    plan = tmp_path / "plan.toml"
    plan.write_text(RUN + "most_repetitions = 8\nuntil_percent = 0.0001\n" + ONE)
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = home.here("run", plan, "--suite", suite, "--into", tmp_path / "e", **state)
    assert done.returncode == 0, done.stderr
    with Experiment.open(tmp_path / "e") as kept:
        assert len(kept.head.order) == kept.head.plan.repetitions == 8
        assert len(kept.levels()) == 8
        assert build(kept).source.noise_floor.percent == 3.0
    assert "after 6 repetitions, the widest interval" in done.stderr
    assert "after 8 repetitions, the widest interval" in done.stderr


def test_two_builds_of_a_server_meet_in_one_experiment_interleaved(
    home: Home, suite: Path, tmp_path: Path
) -> None:
    installed = find_program("nginx")
    assert installed is not None
    builds = [tmp_path / which / "nginx" for which in ("old", "new")]
    for build_of in builds:
        build_of.parent.mkdir()
        shutil.copy(installed, build_of)
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    for plan, program in ((old, builds[0]), (new, builds[1])):
        settings = f'settings = {{ program = "{program}", workers = 1 }}\n'
        plan.write_text(f'{RUN}repetitions = 2\n[[servers]]\nserver = "nginx"\n{settings}')
    done = home.here("run", new, "--against", old, "--suite", suite, "--into", tmp_path / "e")
    assert done.returncode == 0, done.stderr
    with Experiment.open(tmp_path / "e") as kept:
        assert [key.configuration for key in kept.head.order] == [
            *("before-nginx", "after-nginx"),
            *("after-nginx", "before-nginx"),
        ]
        commands = [
            kept.disclosure()["servers"][f"{which}-nginx"]["command"] for which in ("before", "after")
        ]
        assert [command[0] for command in commands] == [str(program) for program in builds]
        notes = " ".join(kept.disclosure()["servers"]["after-nginx"]["notes"])
        assert f"Program: {builds[1]}, SHA-256 " in notes
        [comparison] = build(kept).comparisons
    assert (comparison.base, comparison.other) == ("before-nginx", "after-nginx")
    assert all(found.paired for found in comparison.improvements)
    compared = home.here("compare", tmp_path / "e", "--fail-if-slower")
    assert compared.returncode in (0, 1, 3)
    assert "verdict: " in compared.stdout


def test_program_paths_are_levels_of_a_factor_and_each_has_to_be_there(tmp_path: Path) -> None:
    factors = f'factors = {{ program = ["{shutil.which("true")}", "/none/nginx", "nginx"] }}\n'
    with pytest.raises(PlanError) as refused:
        parse_plan(f'{HEAD}[[servers]]\nserver = "nginx"\n{factors}', "p.toml", settings_types())
    told = str(refused.value)
    assert "/none/nginx is not an executable program on this machine" in told
    assert "'nginx' is not the absolute path" in told
    assert str(shutil.which("true")) not in told


def test_plans_that_differ_in_more_than_their_servers_are_not_run_as_one() -> None:
    quick = suites.load("quick-static")
    plan = LoadedPlan(parse_plan(HEAD + ONE, "a.toml", settings_types()), (quick,), HEAD + ONE)
    text = HEAD.replace("0.5", "0.6") + "seed = 7\n" + ONE
    other = LoadedPlan(parse_plan(text, "b.toml", settings_types()), (quick,), text)
    with pytest.raises(UserError, match=r"(?s)scale: 0.5, against 0.6.*seed: 1, against 7"):
        against(plan, other, settings_types())
    longer = replace(plan, suites=(quick.model_copy(update={"length_s": 7.0}),))
    with pytest.raises(UserError, match=r"quick-static's length_s: 5.*, against 7"):
        against(plan, longer, settings_types())
    both = against(plan, plan, settings_types())
    assert [server.name for server in both.plan.servers] == ["before-reference", "after-reference"]


def test_a_selftest_says_whether_the_machine_is_fit_and_keeps_its_noise_floor_if_so(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_windows: None
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = home.here("selftest", "--scale", "0.1", "--repetitions", "2", "--into", tmp_path / "s", **state)
    # The test does not depend on the machine's fitness.
    assert done.returncode in (0, 1), done.stderr
    if (
        "too few complete runs" in done.stderr
    ):  # a level is void if the generator had no CPU for half a second
        assert noise_floor.load() is None
        return
    assert "noise floor: " in done.stdout
    assert ("this machine is fit" in done.stdout) == (done.returncode == 0)
    kept = noise_floor.load()
    assert (kept is None) == (done.returncode == 1)
    assert ("the result was not stored" in done.stdout) == (kept is None)
    with Experiment.open(tmp_path / "s") as opened:
        [comparison] = build(opened).comparisons
    assert comparison.improvements[0].verdict in set(Verdict)
