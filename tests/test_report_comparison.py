"""`dyno compare`: within one experiment, and across two."""

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from serverdyno.analysis.improvement import Verdict
from serverdyno.errors import UserError
from serverdyno.report import compare
from serverdyno.report.build import build_from
from serverdyno.report.model import Report
from serverdyno.report.views import text
from serverdyno.store.experiment import Experiment
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
        compare([report(repetitions=1), report(1000, repetitions=1)]).verdict is Verdict.TOO_FEW_REPETITIONS
    )


def test_the_same_experiment_twice_shows_no_difference() -> None:
    assert compare([report(), report()]).verdict is Verdict.NO_DIFFERENCE_SHOWN


def test_different_scales_are_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"scale: first 0.02, second 0.04"):
        compare([report(), report(scale=0.04)])


def test_different_suites_are_refused_in_a_sentence() -> None:
    other = experiment({"apache": Shape(100)})
    suite = other.head.suite.model_copy(update={"name": "quick-static"})
    changed = build_from(replace(other, head=other.head.model_copy(update={"suite": suite})))
    with pytest.raises(UserError, match=r"suite: first webbench-4.1-static, second quick-static"):
        compare([report(), changed])


def test_a_changed_parameter_under_the_same_name_is_refused() -> None:
    other = experiment({"apache": Shape(100)})
    suite = other.head.suite.model_copy(update={"timeout_s": 5.0})
    changed = build_from(replace(other, head=other.head.model_copy(update={"suite": suite})))
    with pytest.raises(UserError, match=r"timeout_s: first 30, second 5\.0"):
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


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Experiments in folders, by name: one, and one in which everything is slower."""
    folders = {}
    for name, rate in (("before", 2000.0), ("slower", 1000.0)):
        folders[name] = tmp_path_factory.mktemp(name) / "experiment"
        source = report(rate).source
        with Experiment.create(folders[name], "name = 'x'\n", source.head) as kept:
            for record in source.records:
                kept.write_mix(record)
    return folders


@pytest.mark.parametrize(
    ("names", "options", "status", "said"),
    [
        (["before", "slower"], ["--fail-if-slower"], 1, "verdict: slower"),
        (["before", "slower"], [], 0, "slower"),
        (["before", "before"], ["--fail-if-slower"], 3, "verdict: no difference shown; can't tell"),
        (["slower", "before"], ["--fail-if-slower"], 0, "verdict: faster; nothing is slower"),
    ],
)
def test_a_build_can_fail_because_a_server_became_slower(
    stored: dict[str, Path], names: list[str], options: list[str], status: int, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "serverdyno", "compare", *(stored[name] for name in names), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
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
    assert "slower" in shown
    evidence = (
        "3 repetitions; over 5 mixes; verdicts corrected for 4 comparisons together, averages and peaks"
    )
    assert evidence in " ".join(shown.split())
