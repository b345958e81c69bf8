"""`dyno compare`: within one experiment, and across two."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from serverdyno.analysis.improvement import Verdict
from serverdyno.errors import UserError
from serverdyno.report import compare, text
from serverdyno.report.build import build_from
from serverdyno.report.model import Report
from synthetic_experiment import Shape, experiment


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


def test_across_two_experiments_equal_names_meet_and_a_loss_anywhere_is_the_verdict() -> None:
    found = compare([report(), report(1800)])
    assert [(row.base, row.other) for row in found.comparisons] == [
        ("apache (first)", "apache (second)"),
        ("nginx (first)", "nginx (second)"),
    ]
    assert found.verdict is Verdict.SLOWER
    assert "slower" in found.findings[0].claim
    assert not found.comparisons[0].improvements[0].paired


def test_too_few_repetitions_give_no_verdict_for_a_program_either() -> None:
    assert (
        compare([report(repetitions=2), report(1000, repetitions=2)]).verdict is Verdict.TOO_FEW_REPETITIONS
    )


def test_the_same_experiment_twice_shows_no_difference() -> None:
    assert compare([report(), report()]).verdict is Verdict.NO_DIFFERENCE_SHOWN


def test_different_scales_are_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"their scales differ. First: 0.02. Second: 0.04."):
        compare([report(), report(scale=0.04)])


def test_different_suites_are_refused_in_a_sentence() -> None:
    other = experiment({"apache": Shape(100)})
    suite = other.head.suite.model_copy(update={"name": "quick-static"})
    changed = build_from(replace(other, head=other.head.model_copy(update={"suite": suite})))
    with pytest.raises(
        UserError, match=r"their suites differ. First: webbench-4.1-static. Second: quick-static."
    ):
        compare([report(), changed])


def test_a_changed_parameter_under_the_same_name_is_refused() -> None:
    other = experiment({"apache": Shape(100)})
    suite = other.head.suite.model_copy(update={"timeout_s": 5.0})
    changed = build_from(replace(other, head=other.head.model_copy(update={"suite": suite})))
    with pytest.raises(UserError, match="parameters of the suite differ"):
        compare([report(), changed])


def test_one_configuration_alone_or_no_common_name_is_refused() -> None:
    alone = build_from(experiment({"apache": Shape(100)}))
    with pytest.raises(UserError, match="nothing to compare it with"):
        compare([alone])
    with pytest.raises(UserError, match="no configuration of the same name"):
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


def test_a_comparison_prints_its_table_its_verdicts_and_its_evidence() -> None:
    screen = io.StringIO()
    text.render_compared(compare([report(), report(1800)]), Console(width=150, file=screen))
    shown = screen.getvalue()
    assert "apache (second)" in shown
    assert "slower" in shown
    assert "3 repetitions; over 5 mixes; Table 1." in shown
