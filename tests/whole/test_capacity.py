"""Capacity at an objective: the search on servers of known capacity, and how its result is reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serverdyno.analysis import capacity as rules
from serverdyno.analysis.capacity import End, Estimate
from serverdyno.errors import PlanError
from serverdyno.plan import expand
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.document import check_model
from serverdyno.plan.model import Suite
from serverdyno.plan.objective import parse_objective
from serverdyno.plan.open_load import OpenLoad
from serverdyno.plan.quick import quick_plan
from serverdyno.report.build import build_from
from serverdyno.report.figures import trials
from serverdyno.report.source import Source
from serverdyno.report.subjects.capacity import next_rate
from serverdyno.store.experiment import Experiment
from serverdyno.store.records import ErrorRow, LevelRecord
from support.dyno_process import Home
from support.reference_servers import start_http
from support.searches import WITHIN, Server, disturbed, power, queue, searched, searches
from support.synthetic_experiment import Shape, experiment, histogram, open_record, record

holds = partial(trials.holds, law="poisson")


@pytest.mark.parametrize(
    ("server", "within_share"), [(queue, 0.03), (power(3, 0.4), 0.12), (disturbed, 0.05)]
)
def test_the_capacity_that_is_found_is_the_true_one_and_its_interval_covers_it(
    server: Server, within_share: float
) -> None:
    found = searches(server, 60)
    # All but three of sixty; the interval promises 57 of them.
    assert found.off[-4] <= within_share
    assert found.covered >= 54
    assert max(found.trials) <= WITHIN.most_trials
    assert found.highest <= 2.6


def test_a_search_without_noise_ends_by_itself_with_the_precision_that_was_asked_for() -> None:
    found, trials = searched(WITHIN, lambda rate: rate <= 12_345)
    assert found.end is End.FOUND and len(trials) < WITHIN.most_trials
    assert found.rate_per_s == pytest.approx(12_345, rel=0.02)
    assert found.low_per_s is not None and found.high_per_s is not None
    assert found.high_per_s / found.low_per_s <= 1.1**2 + 1e-9
    assert found.held_per_s is not None and found.held_per_s <= 12_345


def test_a_lowest_rate_that_fails_and_a_highest_that_holds_end_a_search_after_a_second_look() -> None:
    found, trials = searched(WITHIN, lambda _rate: False)
    assert found.end is End.LOWEST_FAILS
    assert 2 <= len(trials) <= 4 and {trial.rate_per_s for trial in trials} == {100}
    assert found.held_per_s is None
    found, trials = searched(WITHIN, lambda _rate: True)
    assert found.end is End.HIGHEST_HOLDS
    assert [trial.rate_per_s for trial in trials][-2:] == [200_000, 200_000]
    assert len(trials) <= 15


def test_one_failure_by_chance_at_the_lowest_rate_ends_nothing() -> None:
    answers = iter([False, *[True] * 100])
    found, _ = searched(WITHIN, lambda rate: next(answers) and rate <= 5_000)
    assert found.end in (End.FOUND, End.BUDGET)
    assert found.rate_per_s == pytest.approx(5_000, rel=0.1)


def test_the_budget_bounds_every_search() -> None:
    random = np.random.default_rng(2)
    found, trials = searched(replace(WITHIN, most_trials=12), power(3, 0.4)(3_000, random))
    assert found.end is End.BUDGET and len(trials) == 12


def test_several_runs_come_to_one_figure_with_the_interval_over_the_runs() -> None:
    found = [Estimate(rate, 0.9 * rate, 1.1 * rate, 100, End.FOUND) for rate in (1000.0, 1100.0, 1210.0)]
    rate, low, high = rules.together(found) or (0.0, None, None)
    assert rate == pytest.approx(1100)
    # Student's t with two degrees of freedom: 4.303 x ln(1.1) / sqrt(3).
    reach = math.exp(4.30265 * math.log(1.1) / math.sqrt(3))
    assert low == pytest.approx(1100 / reach) and high == pytest.approx(1100 * reach)
    assert rules.together(found[:1]) == pytest.approx((1000.0, 900.0, 1100.0))
    assert rules.together([replace(found[0], end=End.HIGHEST_HOLDS), *found]) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p99<50ms", "p99 ≤ 50 ms"),
        ("p99.9 <= 1.5s, failed<0.1%", "p99.9 ≤ 1500 ms and failed ≤ 0.1 %"),
        ("p50<200us,p99<5ms", "p50 ≤ 0.2 ms and p99 ≤ 5 ms"),
    ],
)
def test_an_objective_is_read(text: str, words: str) -> None:
    assert parse_objective(text).words == words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p99<50", "not a bound; expected bounds like"),
        ("mean<50ms", "not a bound"),
        ("failed<1%", "no bound on a response time"),
        ("failed<101%,p99<1s", "not a bound"),
        ("p10<1s", "the percentile must be at least 50"),
        ("p99<0ms", "the time must be above zero"),
        ("p99<1s,p99<2s", "one bound"),
        ("p99<1s,failed<1%,failed<2%", '"failed<2%" is not a bound'),
        ("", "not a bound"),
    ],
)
def test_what_is_no_objective_is_told(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_objective(text)


def suite(**opened: Any) -> Suite:
    made, problems = check_model(
        Suite,
        {
            "name": "s",
            "source": "ours",
            "workload": "url",
            "clients": [8],
            "length_s": 5,
            "open": {"rate_per_s": [100, 5000], "objective": "p99<50ms", **opened},
        },
    )
    assert made is not None, problems
    return made


def test_a_suite_with_an_objective_has_trials_for_levels() -> None:
    made = suite(most_trials=7)
    assert not suite_problems(made)
    assert [level.name for level in expand.levels(made)][-2:] == ["trial_6", "trial_7"]
    [problem] = suite_problems(suite(rate_per_s=[100, 200, 300]))
    assert problem.path == ("open", "rate_per_s") and "the lowest and the highest" in problem.message
    _, problems = check_model(OpenLoad, {"rate_per_s": [1, 2], "objective": "quick"})
    assert "expected bounds like p99<50ms" in problems[0].message


def quick(**given: Any) -> Suite:
    options = {"objective": "p99<50ms"} | given
    given = {name: value for name, value in options.items() if value is not None}
    return quick_plan("http://127.0.0.1/", given)[1]


def test_dyno_load_searches_between_the_rates_that_are_given_or_below_the_bound() -> None:
    assert quick().open is not None
    found = [quick(), quick(rate="10,900", trials="9"), quick(max_rate="1000")]
    assert [each.open and each.open.rate_per_s for each in found] == [[100, 200_000], [10, 900], [100, 500]]
    assert found[1].open is not None and found[1].open.most_trials == 9
    with pytest.raises(PlanError) as caught:
        quick(rate="100", clients="1,2", max_rate="50")
    said = str(caught.value)
    assert "--rate: with an objective, must be two numbers: the lowest and the highest rate" in said
    assert "--clients: with a rate, must be a single number" in said
    with pytest.raises(PlanError, match="--objective: "):
        quick(objective="fast")
    with pytest.raises(PlanError, match="--trials: requires --objective"):
        quick(objective=None, rate="100", trials="9")


def trial_record(change: Callable[[LevelRecord], LevelRecord] = lambda level: level) -> LevelRecord:
    """Return the record of 1,000 requests, of which 15 took 80 ms."""
    closed = experiment({"nginx": Shape(1000.0)}, clients=(64,), repetitions=1)
    return change(
        replace(
            record(closed.head.order[0], closed.head.levels[0], Shape(1000.0), 64),
            rate_per_s=200,
            operations=1000,
            arrivals_in_window=1000,
            dropped_in_window=0,
            response_time_hdr=histogram([1_000_000] * 985 + [80_000_000] * 15),
        )
    )


def test_failed_requests_are_slower_than_every_answer() -> None:
    errors = [ErrorRow("server", "error_status", 6, 6, "status 500")]

    def failing(level: LevelRecord) -> LevelRecord:
        return replace(level, errors=errors, arrivals_in_window=1006)

    assert holds(trial_record(), parse_objective("p98<50ms"))
    assert not holds(trial_record(failing), parse_objective("p98<50ms"))
    assert holds(trial_record(failing), parse_objective("p98<100ms"))
    assert holds(trial_record(failing), parse_objective("p98<100ms,failed<1%"))
    assert not holds(trial_record(failing), parse_objective("p98<100ms,failed<0.5%"))


def test_requests_that_are_never_answered_count_although_the_server_kept_up_with_the_others() -> None:
    def silent(level: LevelRecord) -> LevelRecord:
        return replace(level, arrivals_in_window=1008, under_way_longest_s=5.0)

    assert holds(trial_record(silent), parse_objective("p98<6s"))
    assert not holds(trial_record(silent), parse_objective("p98<50ms"))


def test_a_server_that_does_not_keep_up_holds_nothing() -> None:
    assert not holds(
        trial_record(lambda level: replace(level, arrivals_in_window=2000)), parse_objective("p98<100ms")
    )


def of_trials(
    capacities_s: dict[str, float],
    repetitions: int = 1,
    late_ms: float = 0.02,
    change: Callable[[LevelRecord], LevelRecord] = lambda level: level,
    objective: str = "p99<50ms",
) -> Source:
    """Return searches on servers like `queue` as records; the generator sends each request `late_ms` late."""
    shapes = dict.fromkeys(capacities_s, Shape(1000.0))
    closed = experiment(shapes, clients=(64,), repetitions=repetitions, scale=0.005)
    opened = OpenLoad(rate_per_s=[100, 20_000], objective=objective)
    made = closed.head.suite.model_copy(update={"open": opened, "axis": "rate", "clients": [64]})
    levels = expand.levels(made, closed.head.scale)
    head = closed.head.model_copy(update={"suites": [made], "levels": levels})
    records: list[LevelRecord] = []
    for key in head.order:
        random = np.random.default_rng(key.number)
        most_s = capacities_s[key.configuration] * math.exp(random.normal(0, 0.01)) + math.log(100) / 0.05
        own: list[LevelRecord] = []
        for planned in levels:
            if (rate := next_rate(made, own)) is None:
                break
            level = expand.trial(planned, rate)
            p99_s = min(10.0, math.log(100) / (most_s - rate) if rate < most_s else math.inf)
            own.append(change(open_record(key, level, int(p99_s * 1e9), int(late_ms * 1e6))))
        records += own
    return replace(closed, head=head, records=records)


def test_the_report_names_the_capacity_its_interval_and_every_trial() -> None:
    source = of_trials({"nginx": 1500.0})
    report = build_from(source)
    assert report.answer.verdict.startswith("nginx meets p99 ≤ 50 ms up to 1,")
    assert "(95 % interval 1," in report.answer.verdict
    assert "generator" not in report.answer.verdict
    tables = {table.key: table for table in report.tables}
    [capacity] = tables["capacity"].rows
    assert float(capacity[1].text.replace(",", "")) == pytest.approx(1500, rel=0.05)
    assert capacity[4].text == "requested precision reached"
    assert len(tables["trials"].rows) == len(source.records)
    assert {row[-1].text for row in tables["trials"].rows} == {"yes", "no"}
    assert [figure.title for figure in report.figures if "against throughput" in figure.title]
    assert not report.results.contradictions


def test_who_holds_more_is_proven_over_the_runs() -> None:
    report = build_from(of_trials({"apache": 1500.0, "nginx": 3000.0}, repetitions=4))
    assert report.answer.verdict.startswith("nginx meets p99 ≤ 50 ms at a +")
    assert "higher rate than apache" in report.answer.verdict
    report = build_from(of_trials({"apache": 1500.0, "nginx": 1500.0}, repetitions=4))
    assert report.answer.verdict.startswith("No winner: no difference in capacity is proven.")


def test_a_generator_that_was_the_limit_is_named() -> None:
    report = build_from(of_trials({"nginx": 1500.0}, late_ms=45.0))
    assert "up to at least 1," in report.answer.verdict
    assert "The load generator, not the server, may have been the limit" in report.answer.verdict
    assert "ms late (p99)" in report.answer.verdict
    assert report.answer.limit == "the load generator."


def test_an_idle_generator_is_not_blamed_for_a_server_that_is_too_slow_without_its_lateness() -> None:
    def slow(level: LevelRecord) -> LevelRecord:
        too_fast = (level.rate_per_s or 0) > 1500
        times = histogram(np.full(level.operations, 400_000_000 if too_fast else 1_000_000))
        return replace(level, response_time_hdr=times)

    for change, cpu_share in ((slow, 0.002), (slow, 0.5)):
        busy = partial(_busy, change=change, cpu_share=cpu_share)
        report = build_from(of_trials({"nginx": 1500.0}, late_ms=45.0, change=busy))
        assert ("load generator" in report.answer.verdict) is (cpu_share > 0.05), report.answer.verdict
        assert (report.answer.limit == "the load generator.") is (cpu_share > 0.05)


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("p50<50ms,failed<1%", "50 % failed (status 500), but the objective allows 1 %."),
        (
            "p99<50ms",
            "50 % failed (status 500). They count as slower than every answer, so the bound on p99 can't be met.",
        ),
    ],
)
def test_errors_of_the_server_that_exceed_a_bound_are_named_and_not_the_generator(
    objective: str, said: str
) -> None:
    def failing(level: LevelRecord) -> LevelRecord:
        failed = level.operations
        errors = [ErrorRow("server", "error_status", failed, failed, "status 500")]
        return replace(level, errors=errors, arrivals_in_window=2 * failed)

    busy = partial(_busy, change=failing, cpu_share=0.5)
    report = build_from(of_trials({"nginx": 15_000.0}, late_ms=45.0, change=busy, objective=objective))
    assert f"At 100 requests/s, {said}" in " ".join(report.answer.verdict.split())
    assert "generator" not in report.answer.verdict
    assert report.answer.limit == "errors."


def test_a_lowest_rate_that_fails_is_told_with_the_bound_that_it_exceeds() -> None:
    low = build_from(of_trials({"nginx": 20.0}))
    assert "At 100 requests/s, p99 was" in low.answer.verdict, low.answer.verdict


def _busy(level: LevelRecord, change: Callable[[LevelRecord], LevelRecord], cpu_share: float) -> LevelRecord:
    """Return the changed record of a generator whose thread uses this share of a CPU."""
    used_s = cpu_share * level.window_s
    return replace(change(level), generator_cpu_user_s=used_s, generator_cpu_system_s=0.0)


def test_too_few_connections_for_an_objective_are_named() -> None:
    def crowded(level: LevelRecord) -> LevelRecord:
        rate = level.rate_per_s or 0
        busy_s = min(64.0, rate * 0.064) * level.window_s  # 64 ms each: 1,000/s at most
        ended = min(level.operations, round(1000 * level.window_s))
        waited = ended if rate > 1000 else 0
        return replace(level, operations=ended, outstanding_s=busy_s, ready_work_s=0.0, waited=waited)

    report = build_from(of_trials({"nginx": 15_000.0}, change=crowded))
    assert "nginx meets p99 \u2264 50 ms up to at least 1," in report.answer.verdict
    assert "64 connections can't carry more than 1,000 requests/s" in report.answer.verdict
    assert report.answer.limit == "the number of connections."


def test_the_borders_of_the_range_are_named() -> None:
    low, high = (build_from(of_trials({"nginx": capacity_s})) for capacity_s in (20.0, 90_000.0))
    assert "does not meet p99 ≤ 50 ms at the lowest rate allowed, 100 requests/s" in low.answer.verdict
    assert "still meets p99 ≤ 50 ms at the highest rate allowed, 20,000" in high.answer.verdict


@pytest.fixture
def slow_server() -> Iterator[str]:
    server = start_http(body_bytes=10, fault="delay=20ms")
    yield f"http://127.0.0.1:{server.port}/"
    server.stop()


def test_dyno_load_finds_what_a_server_holds_and_stops_by_itself(
    slow_server: str, tmp_path: Path, short_windows: None
) -> None:
    (tmp_path / "home").mkdir()
    home, folder = Home(tmp_path / "home"), tmp_path / "e"
    # Two connections of 20 ms each answer at most 100 requests/s, so no rate far above that can hold: within 0.6 s,
    # chance may leave out a few arrivals.
    options = ("--rate", "20,640", "-c", "2", "-d", "0.6s", "--trials", "9", "--into", folder)
    done = home.here("load", slow_server, "--objective", "p90<400ms", *options)
    assert done.returncode == 0, done.stderr
    assert "target meets p90 ≤ 400 ms up to " in done.stdout, done.stdout
    assert "Capacity at p90 ≤ 400 ms" in done.stdout
    with Experiment.open(folder) as kept:
        records, notes = kept.levels(), kept.run_notes()
    assert len(records) <= 9 and [record.rate_per_s for record in records[:2]] == [20, 40]
    assert [record.name for record in records[:2]] == ["trial_1", "trial_2"]
    objective = parse_objective("p90<400ms")
    assert {holds(record, objective) for record in records} == {True, False}
    assert not any(holds(record, objective) for record in records if (record.rate_per_s or 0) > 200)
    assert {note.state for note in notes.values()} == {"done"}
    # A complete search is not repeated.
    again = home.here("resume", folder)
    assert again.returncode == 0, again.stderr
    with Experiment.open(folder) as kept:
        assert len(kept.levels()) == len(records)
