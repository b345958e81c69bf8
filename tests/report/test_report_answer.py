"""The answer at the top of a report: it names a winner only if one is proven, and what limits the figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from serverdyno import wording
from serverdyno.analysis.comparability import Conditions
from serverdyno.analysis.factorial import effects
from serverdyno.analysis.improvement import Runs
from serverdyno.analysis.levels import at_levels
from serverdyno.analysis.pairs import Pair, Side
from serverdyno.plan.model import Bounds, Configuration
from serverdyno.report.build import build_from
from serverdyno.report.model import Report
from serverdyno.store.records import LevelRecord
from support.synthetic_experiment import Shape, experiment, with_error


def percent(value: float) -> str:
    return wording.change(value).removeprefix("+")


def verdict(shapes: dict[str, Shape], repetitions: int = 3) -> str:
    return build_from(experiment(shapes, repetitions=repetitions)).answer.verdict


def test_three_successive_load_levels_are_a_span() -> None:
    loads = [1, 8, 16, 24, 1_032]
    assert wording.numbers([1, 16, 24, 1_032], loads) == "1 and 16 to 1,032"
    assert wording.numbers([8, 16], loads) == "8 and 16"
    assert wording.numbers([1, 16, 24], [1, 0, 16, 24, 0]) == "1, 16 and 24"  # 0: not finished
    assert wording.numbers([3, 4, 9]) == "3 to 4 and 9"


def test_one_winner_is_named_with_the_ratio_to_the_next_and_to_the_last() -> None:
    shapes = {"apache": Shape(2000), "nginx": Shape(5000), "lighttpd": Shape(3000)}
    answer = build_from(experiment(shapes)).answer
    assert answer.verdict.startswith("nginx served 6")
    assert "% more requests than lighttpd, and 2.5 times as many requests as apache" in answer.verdict
    assert answer.verdict.endswith(" (more is better).")
    assert answer.margin.startswith("1.67 times the throughput of lighttpd (95 % interval 1.6")
    assert "; 2.50 times the throughput of apache (95 % interval 2." in answer.margin
    assert answer.times.startswith("nginx ") and "requests/s with 16 clients, p50 " in answer.times


def test_two_leaders_that_are_not_proven_different_are_not_ranked() -> None:
    shapes = {
        "apache": Shape(2000, noise=0.03),
        "nginx": Shape(5000, noise=0.03),
        "lighttpd": Shape(5010, noise=0.03),
    }
    answer = build_from(experiment(shapes)).answer
    assert answer.verdict.startswith("nginx and lighttpd each served 2.5 times as many")
    assert "This experiment can't rank nginx and lighttpd." in answer.margin


def test_the_smallest_and_the_largest_of_several_leads_are_told() -> None:
    rates = {"apache": 2000, "caddy": 2500, "nginx": 5000, "lighttpd": 5010}
    answer = build_from(experiment({name: Shape(rate, noise=0.03) for name, rate in rates.items()})).answer
    assert answer.verdict.startswith("nginx and lighttpd served 2.0 to 2.5 times as many requests as ")


def test_equal_servers_have_no_winner() -> None:
    answer = build_from(
        experiment({"apache": Shape(2000, noise=0.05), "nginx": Shape(2010, noise=0.05)})
    ).answer
    assert answer.verdict == "No winner: the largest difference is within the variation from run to run."
    assert answer.margin.startswith("Not proven. Measured: ")
    assert "would probably miss differences below " in answer.sure


def test_an_experiment_that_would_miss_a_factor_of_two_is_too_noisy() -> None:
    said = verdict({"apache": Shape(2000, noise=0.6), "nginx": Shape(2010, noise=0.6)})
    assert said == "No winner: this experiment is too noisy to compare."


def test_a_configuration_that_lacks_tests_is_named_in_the_headline() -> None:
    source = experiment({"apache": Shape(2000), "nginx": Shape(5000)})
    records = [each for each in source.records if each.configuration != "apache" or each.repetition < 3]
    said = build_from(replace(source, records=records)).answer.verdict
    assert said.endswith("(more is better). apache is unfinished (10 of 15 load levels completed).")


def test_one_repetition_names_no_winner() -> None:
    said = verdict({"apache": Shape(2000), "nginx": Shape(5000)}, repetitions=1)
    assert said == "No winner: one repetition can't show whether a difference repeats."


def test_a_gap_is_at_least_so_large_where_the_generator_held_the_faster_one_back() -> None:
    report = build_from(experiment({"apache": Shape(2100), "nginx": Shape(3900, knee=24, waiting=0.3)}))
    [comparison] = report.comparisons
    average = comparison.average
    assert average.low_percent is not None and average.percent is not None
    # Only the lower end of the interval is proven.
    assert report.answer.verdict.startswith(
        f"nginx served at least {percent(average.low_percent)} more requests"
    )
    low, ratio = 1 + average.low_percent / 100, 1 + average.percent / 100
    assert report.answer.margin.startswith(
        f"at least {wording.significant(low)} times the throughput of apache"
    )
    assert f"(measured {wording.significant(ratio)}, 95 % interval" in report.answer.margin
    assert "The true difference may be larger: nginx was generator-limited." in " ".join(
        finding.claim for finding in report.findings
    )


def test_several_leaders_are_ahead_by_at_least_the_lowest_proven_bound() -> None:
    shapes = {
        "apache": Shape(2100, noise=0.03),
        "nginx": Shape(3900, noise=0.03, knee=24, waiting=0.3),
        "lighttpd": Shape(3910, noise=0.03, knee=24, waiting=0.3),
    }
    report = build_from(experiment(shapes))
    lows = [each.average.low_percent for each in report.comparisons if each.base == "apache"]
    said = f"nginx and lighttpd each served at least {percent(min(filter(None, lows)))} more requests than apache"
    assert report.answer.verdict.startswith(said)


def test_servers_on_unequal_numbers_of_cpus_are_not_compared_in_the_answer() -> None:
    rates = {"apache-1": 2000, "apache-2": 3000, "nginx-1": 4000, "nginx-2": 7000}
    source = experiment({name: Shape(rate) for name, rate in rates.items()})
    head = source.head
    configurations = [
        replace(each, server=each.name[:-2], settings={}, cpus=tuple(range(int(each.name[-1]))))
        for each in head.configurations
    ]
    answer = build_from(
        replace(source, head=head.model_copy(update={"configurations": configurations}))
    ).answer
    said = f"{answer.verdict} {answer.margin} {answer.gaps}"
    # Twice as fast on the same CPUs, or by a second CPU; not 3.5 times, by both.
    assert "nginx-2 served 7" in said
    assert "% more requests than nginx-1, and 2.3 times as many requests as apache-2" in said
    assert not re.search(r"nginx-2 over apache-1|throughput of apache-1", said)


@pytest.mark.parametrize(("noises", "told"), [((0.03, 0.03, 0.03), ""), ((0.01, 0.08, 0.08), " to ")])
def test_the_smallest_detectable_difference_depends_on_the_pair(noises: Sequence[float], told: str) -> None:
    shapes = {f"server-{noise}-{place}": Shape(2000, noise=noise) for place, noise in enumerate(noises)}
    report = build_from(experiment(shapes))
    found = sorted(each.average.found_percent or 0.0 for each in report.comparisons)
    assert f"{percent(found[-1])}" in report.answer.sure
    assert f"below {percent(found[0])}" in report.answer.sure


def test_a_gap_is_at_least_so_large_where_the_plans_rate_held_the_faster_one_back() -> None:
    source = experiment({"apache": Shape(2000), "nginx": Shape(3900, knee=24)})
    bounds = Bounds(max_clients=32, max_rate_per_s=4000, max_length_s=300)
    configurations = [
        replace(each, bounds=bounds) if each.name == "nginx" else each for each in source.head.configurations
    ]
    head = source.head.model_copy(update={"configurations": configurations})
    answer = build_from(replace(source, head=head)).answer
    assert answer.verdict.startswith("nginx served at least ")
    assert "at least +" in answer.gaps


def test_one_server_alone_has_its_peak_and_its_times() -> None:
    answer = build_from(experiment({"apache": Shape(2000)})).answer
    assert answer.verdict.startswith("apache peaks at ")
    assert answer.times.startswith("p50 ") and " ms, p99 " in answer.times


def test_nothing_measured_is_no_result() -> None:
    source = experiment({"apache": Shape(2000), "nginx": Shape(3000)})
    assert (
        build_from(replace(source, records=[])).answer.verdict
        == "There is no result: no load level finished."
    )


def test_two_configurations_are_told_level_by_level() -> None:
    gaps = build_from(experiment({"apache": Shape(2000), "nginx": Shape(3000)})).answer.gaps
    assert gaps.startswith("nginx over apache: +")
    assert "with 1 client, " in gaps


def test_the_bars_of_the_answer_are_sorted_and_in_the_colours_of_all_charts() -> None:
    report = build_from(experiment({"apache": Shape(2000), "nginx": Shape(5000), "lighttpd": Shape(3000)}))
    [bars] = report.answer.figures
    assert [line.name for line in bars.panels[0].series] == ["nginx", "lighttpd", "apache"]
    styles = {
        (line.name, line.style)
        for figure in report.figures
        if figure.kind != "effects"
        for panel in figure.panels
        for line in panel.series
    }
    assert styles == {("apache", 0), ("nginx", 1), ("lighttpd", 2)}


def crossed(
    rates: dict[tuple[bool, int], float],
    *,
    change: Callable[[LevelRecord], LevelRecord] = lambda record: record,
) -> Report:
    """Return a report on nginx with two factors, given the rate of each combination; `change` alters each record."""
    names = {(on, workers): f"nginx-{'on' if on else 'off'}-{workers}" for on, workers in rates}
    source = experiment({names[key]: Shape(rate, noise=0.01) for key, rate in rates.items()})
    source = replace(source, records=[change(record) for record in source.records])
    configurations = [
        Configuration(names[key], "nginx", {"sendfile": key[0], "workers": key[1]}, (1,), None, None)
        for key in rates
    ]
    return build_from(replace(source, head=source.head.model_copy(update={"configurations": configurations})))


def test_a_two_by_two_plan_answers_with_main_effects() -> None:
    said = crossed({(True, 1): 2000, (True, 2): 2800, (False, 1): 2000, (False, 2): 2800}).answer.verdict
    assert "sendfile off instead of on: no proven difference" in said
    assert "workers 2 instead of 1: +4" in said or "workers 2 instead of 1: +3" in said


def test_main_effects_that_depend_on_each_other_say_so() -> None:
    said = crossed({(True, 1): 2000, (True, 2): 4000, (False, 1): 2000, (False, 2): 2000}).answer.margin
    assert "depend on each other" in said


TWICE_WITHOUT_SENDFILE = {(True, 1): 2000.0, (True, 2): 2000.0, (False, 1): 4000.0, (False, 2): 4000.0}


def hidden_of_the_slower(record: LevelRecord) -> LevelRecord:
    """Let the generator hide up to 150 % of the speed with sendfile and one worker, and none in the other cases."""
    if record.configuration != "nginx-on-1" or record.outstanding_s is None:
        return record
    return replace(record, ready_work_s=0.6 * record.outstanding_s, server_cpu_s=0.0)


def throws_clients_out(record: LevelRecord) -> LevelRecord:
    if record.configuration != "nginx-off-2" or record.clients == 1:
        return record
    return with_error(record, "server", record.clients // 2, left=record.clients // 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (hidden_of_the_slower, "nginx-on-1 may be up to"),
        (throws_clients_out, "of the clients of nginx-off-2 left before the end of a load level"),
    ],
)
def test_a_main_effect_is_not_claimed_where_its_cells_are_not_comparable(
    change: Callable[[LevelRecord], LevelRecord], said: str
) -> None:
    assert "sendfile off instead of on: +99" in crossed(TWICE_WITHOUT_SENDFILE).answer.verdict
    report = crossed(TWICE_WITHOUT_SENDFILE, change=change)
    assert "sendfile off instead of on: not comparable" in report.answer.verdict
    assert said in report.answer.margin
    [claim] = [found.claim for found in report.findings if found.claim.startswith("sendfile")]
    assert "not comparable" in claim and "measured" in claim
    [table] = [table for table in report.tables if table.key == "effects"]
    assert table.rows[0][-1].text == "not comparable"


def of_runs(values: list[list[float]]) -> Runs:
    return Runs(tuple(range(1, len(values) + 1)), np.array(values))


def undisturbed(runs: Runs, name: str = "a") -> Side:
    """Return a side that differs from others only in its runs."""
    return Side(name, runs, (), frozenset(), None, lambda _: Conditions("", 0.0, 0.0, None, {}))


def pair(base: Runs, other: Runs) -> Pair:
    return undisturbed(base), undisturbed(other, "b")


def test_a_gap_at_one_level_is_proven_there_alone() -> None:
    base = of_runs([[100, 100, 100], [101, 99, 101], [99, 101, 100]])
    other = of_runs([[150, 100, 99], [152, 101, 101], [149, 99, 100]])
    [found] = at_levels([pair(base, other)], paired=True)
    assert [level.proven for level in found] == [True, False, False]
    assert found[0].percent == pytest.approx(50.3, abs=0.5)


def test_all_levels_of_a_pair_estimate_the_noise_of_each() -> None:
    """Five levels with the same noise, with two degrees of freedom in each of the two configurations: 20 in total."""
    runs = np.array([[99.0] * 5, [100.0] * 5, [101.0] * 5])
    [found] = at_levels([pair(of_runs(runs.tolist()), of_runs((1.1 * runs).tolist()))], paired=False)
    error = np.sqrt(2 / 3 * np.log(runs[:, 0]).var(ddof=1))
    for level in found:
        assert level.low_percent is not None and level.high_percent is not None
        half = np.log((100 + level.high_percent) / (100 + level.low_percent)) / 2
        assert half == pytest.approx(stats.t.ppf(0.975, 20) * error, rel=1e-6)


def test_of_equal_configurations_few_experiments_claim_a_gap_at_any_level() -> None:
    # Of 20 pairs with 5 levels, at most 5 % should claim a gap. 9 of 100 is more than chance allows at 5 %.
    random = np.random.default_rng(7)
    wrong = 0
    for _ in range(100):
        drift = random.normal(0, 0.03, (3, 1))
        base, other = (
            of_runs((100 * np.exp(drift + random.normal(0, 0.02, (3, 5)))).tolist()) for _ in range(2)
        )
        [found] = at_levels([pair(base, other)], paired=True)
        wrong += any(level.proven for level in found)
    assert wrong <= 10


def test_effects_are_not_judged_from_one_repetition() -> None:
    cells: dict[tuple[str, ...], Side] = {
        (a, b): undisturbed(of_runs([[100.0, 200.0]])) for a in "xy" for b in "pq"
    }
    assert effects(["one", "two"], cells, paired=True) == ()
