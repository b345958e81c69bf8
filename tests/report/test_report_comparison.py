"""`dyno compare`: within one experiment, and across two."""

import io
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from serverdyno.analysis.across import BetweenTimes
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.slowdown import Slowdown
from serverdyno.errors import UserError
from serverdyno.plan.testbed import of_option
from serverdyno.report import compare
from serverdyno.report.build import build_from
from serverdyno.report.model import Report
from serverdyno.report.noise_floor import NoiseFloor
from serverdyno.report.views import comparison, text
from serverdyno.store.experiment import Experiment
from support.dyno_process import Home
from support.synthetic_experiment import Shape, experiment


@cache
def report(rate: float = 2000.0, repetitions: int = 3, scale: float = 0.02) -> Report:
    return build_from(
        experiment({"apache": Shape(rate), "nginx": Shape(rate * 1.5)}, repetitions=repetitions, scale=scale)
    )


def test_within_one_experiment_every_configuration_meets_the_first() -> None:
    found = compare([report()])
    assert [(row.base, row.other) for row in found.comparisons] == [("apache", "nginx")]
    assert found.verdict is Verdict.FASTER
    assert found.table.rows
    assert found.findings


def test_across_two_experiments_equal_names_meet_and_the_day_is_not_separated_from_the_change() -> None:
    found = compare([report(), report(1800)])
    assert [(row.base, row.other) for row in found.comparisons] == [
        ("apache (first)", "apache (second)"),
        ("nginx (first)", "nginx (second)"),
    ]
    assert found.verdict is Verdict.NOT_SEPARATED
    assert found.slowdown is Slowdown.CANT_TELL
    assert (
        "apache (second) against apache (first) in overall average: \N{MINUS SIGN}10"
        in found.findings[0].claim
    )
    assert "dyno run PLAN --against OTHER" in found.findings[0].claim
    assert not found.comparisons[0].improvements[0].paired


def on_a_known_machine(rate: float, **known: float) -> Report:
    source = report(rate).source
    host = {"noise_floor": {"percent": 1.0, **known}}
    return build_from(replace(source, disclosure={"host": host}))


@pytest.mark.parametrize(
    ("percent", "times", "verdict"),
    [(0.5, 3, Verdict.SLOWER), (15.0, 3, Verdict.NO_DIFFERENCE_SHOWN), (2.5, 3, Verdict.NO_DIFFERENCE_SHOWN)],
)
def test_where_it_is_known_how_times_differ_the_interval_is_widened_by_that(
    percent: float, times: int, verdict: Verdict
) -> None:
    # Three times say little: with two degrees of freedom, t is 4.3.
    known = {"between_times_percent": percent, "times": times}
    found = compare([on_a_known_machine(2000, **known), on_a_known_machine(1800, **known)])
    assert found.comparisons[0].average.verdict is verdict
    narrow = compare([report(), report(1800)]).comparisons[0].average
    wide = found.comparisons[0].average
    assert narrow.low_percent is not None and narrow.high_percent is not None
    assert wide.low_percent is not None and wide.high_percent is not None
    between = np.sqrt(2) * np.log1p(percent / 100) * stats.t.ppf(0.975, times - 1)
    assert np.log1p(wide.high_percent / 100) - np.log1p(wide.low_percent / 100) > 2 * between


def test_how_times_differ_has_to_be_known_to_both_experiments() -> None:
    known = {"between_times_percent": 0.5, "times": 3}
    found = compare([on_a_known_machine(2000, **known), on_a_known_machine(1800)])
    assert found.verdict is Verdict.NOT_SEPARATED


def test_too_few_repetitions_give_no_verdict_for_a_program_either() -> None:
    assert (
        compare([report(repetitions=1), report(1000, repetitions=1)]).verdict is Verdict.TOO_FEW_REPETITIONS
    )


def test_a_noise_floor_of_a_stranger_is_no_number_unless_it_is_one() -> None:
    strange: list[object] = [
        None,
        [],
        {"percent": "much"},
        {"percent": True},
        {"percent": -1},
        {"percent": float("inf")},
    ]
    for disclosed in strange:
        assert NoiseFloor.of(disclosed) == NoiseFloor()
    assert NoiseFloor.of({"percent": 0.4}) == NoiseFloor(2.0, measured=True)
    known = {"percent": 5, "between_times_percent": 7, "times": 4}
    assert NoiseFloor.of(known) == NoiseFloor(5.0, measured=True, between=BetweenTimes(7.0, 4))
    assert NoiseFloor.of(known | {"times": 1}) == NoiseFloor(5.0, measured=True)


@pytest.mark.parametrize("percent", [60.0, 5000.0])
def test_no_noise_floor_hides_a_slowdown(percent: float) -> None:
    # A stored floor of 60 % once turned a slowdown of 23 % into a draw with exit status 0.
    source = experiment({"apache": Shape(2000), "nginx": Shape(1540)}, repetitions=6)
    disclosure = {"host": {"noise_floor": {"percent": percent}}}
    found = compare([build_from(replace(source, disclosure=disclosure))])
    assert found.comparisons[0].average.verdict is Verdict.SLOWER
    assert found.slowdown is Slowdown.SLOWER
    assert "can't exclude differences of up to" in found.findings[-1].claim


def test_different_scales_are_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"scale: first 0.02, second 0.04"):
        compare([report(), report(scale=0.04)])


def test_different_suites_are_refused_in_a_sentence() -> None:
    other = experiment({"apache": Shape(100)})
    suite = other.head.suite.model_copy(update={"name": "quick-static"})
    changed = build_from(replace(other, head=other.head.model_copy(update={"suites": [suite]})))
    with pytest.raises(UserError, match=r"suite: first webbench-4.1-static, second quick-static"):
        compare([report(), changed])


def test_a_changed_parameter_under_the_same_name_is_refused() -> None:
    other = experiment({"apache": Shape(100)})
    suite = other.head.suite.model_copy(update={"timeout_s": 5.0})
    changed = build_from(replace(other, head=other.head.model_copy(update={"suites": [suite]})))
    with pytest.raises(UserError, match=r"timeout_s: first 30, second 5\.0"):
        compare([report(), changed])


def test_one_configuration_alone_or_no_common_name_is_refused() -> None:
    alone = build_from(experiment({"apache": Shape(100)}))
    with pytest.raises(UserError, match="nothing to compare"):
        compare([alone])
    with pytest.raises(UserError, match="No configuration has the same name"):
        compare([alone, build_from(experiment({"lighttpd": Shape(100)}))])
    with pytest.raises(UserError, match="3 experiments"):
        compare([alone, alone, alone])


def test_another_host_is_said_since_it_may_be_the_cause() -> None:
    other = experiment({"apache": Shape(2000)})
    moved = build_from(replace(other, disclosure={"host": {"cpu": {"model": "another"}}}))
    assert any(
        line.startswith("The host's cpu model differs") for line in compare([report(), moved]).differences
    )
    assert compare([report(), report()]).differences == ()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Store experiments in folders, named by how the second server differs from the first."""
    folders = {}
    for name, factor in (("slower", 0.5), ("the same", 1.0), ("faster", 1.5)):
        folders[name] = tmp_path_factory.mktemp("kept") / "experiment"
        source = experiment({"old": Shape(2000), "new": Shape(2000 * factor)})
        with Experiment.create(folders[name], "name = 'x'\n", source.head) as kept:
            for record in source.records:
                kept.write_level(record)
    return folders


@pytest.mark.parametrize(
    ("names", "options", "status", "said"),
    [
        (["slower"], ["--fail-if-slower"], 1, "verdict: slower"),
        (["slower"], [], 0, "slower"),
        (["the same"], ["--fail-if-slower"], 3, "verdict: no difference shown; can't tell"),
        (["faster"], ["--fail-if-slower"], 0, "verdict: faster; nothing is slower"),
        (["the same", "slower"], ["--fail-if-slower"], 3, "can't tell"),
    ],
)
def test_a_build_can_fail_because_a_server_became_slower(
    home: Home, stored: dict[str, Path], *, names: list[str], options: list[str], status: int, said: str
) -> None:
    done = home.here("compare", *(stored[name] for name in names), *options)
    assert (done.returncode, done.stderr) == (status, "")
    assert said in done.stdout


def test_what_a_report_warns_of_is_said_of_a_comparison_too() -> None:
    first, second = report(), report(1800)
    found = compare([first, second])
    assert found.warnings == tuple(
        f"{which}: {warning}"
        for which, of in (("First", first), ("Second", second))
        for warning in of.warnings
    )


def test_a_comparison_prints_its_table_its_verdicts_and_its_evidence() -> None:
    screen = io.StringIO()
    text.render_compared(compare([report(), report(1800)]), Console(width=150, file=screen))
    shown = screen.getvalue()
    assert "apache (second)" in shown
    assert "measured at different times" in " ".join(shown.split())
    evidence = "3 repetitions; over 5 load levels; verdicts corrected for 4 comparisons of averages and peaks"
    assert evidence in " ".join(shown.split())


def test_what_differs_between_the_servers_of_two_experiments_is_named() -> None:
    first, second = (experiment({"nginx": Shape(1000)}) for _ in range(2))
    [configuration] = second.head.configurations
    changed = replace(configuration, settings={"workers": 7})
    described = {"servers": {"nginx": {"version": "nginx/1.99", "settings": {"workers": 7}}}}
    second = replace(
        second,
        head=second.head.model_copy(update={"configurations": [changed]}),
        disclosure={**second.disclosure, **described},
    )
    told = compare([build_from(first), build_from(second)]).differences
    assert any("nginx: the setting workers was" in each and "is 7 in the second" in each for each in told)
    assert any("nginx: the version was" in each and "is nginx/1.99 in the second" in each for each in told)


def test_another_testbed_is_named_as_a_possible_cause() -> None:
    first, second = (experiment({"nginx": Shape(1000)}) for _ in range(2))
    plan = second.head.plan.model_copy(update={"testbed": of_option("namespaces:2")})
    second = replace(second, head=second.head.model_copy(update={"plan": plan}))
    [told] = compare([build_from(first), build_from(second)]).differences
    assert told.startswith("The testbed differs between the two experiments")


def test_a_comparison_is_told_to_github_and_to_programs() -> None:
    compared = compare([report()])
    told = comparison.as_markdown(compared)
    assert told.startswith("**Verdict: faster**")
    assert "| overall average |" in told and "| 95 % interval |" in told
    document = json.loads(comparison.as_json(compared))
    assert document["verdict"] == "faster" and document["slowdown"] == "nothing is slower"
    assert {each["base"] for each in document["comparisons"]} == {"apache"}


def test_a_threshold_decides_what_must_be_ruled_out() -> None:
    same = build_from(experiment({"apache": Shape(2000), "nginx": Shape(1995)}, repetitions=3))
    assert compare([same], 50).slowdown is Slowdown.NONE
    assert compare([same], 0).slowdown is not Slowdown.NONE
