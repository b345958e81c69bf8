"""Open load from the command line to the report: every request is accounted for, and every statement is true."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from serverdyno import units
from serverdyno.analysis import open_load as rules
from serverdyno.analysis.trust import Mark
from serverdyno.errors import PlanError, UserError
from serverdyno.fleet import local
from serverdyno.plan import expand
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.document import check_model
from serverdyno.plan.load import parse_plan, until_precise
from serverdyno.plan.model import Bounds, Plan, ServerPlan, Suite
from serverdyno.plan.open_load import OpenLoad
from serverdyno.plan.quick import quick_plan
from serverdyno.plan.quick_objects import objects_plan
from serverdyno.report.build import build_from, source_of
from serverdyno.report.comparison import compare
from serverdyno.report.figures import histograms
from serverdyno.report.figures.open_load import unaccounted
from serverdyno.report.source import Source
from serverdyno.report.subjects import nodes
from serverdyno.report.subjects.open_load import at_equal_rate
from serverdyno.run import peaks
from serverdyno.run.create import create_experiment
from serverdyno.servers.registry import settings_types
from serverdyno.store.experiment import Experiment
from serverdyno.store.records import ErrorRow, LevelRecord
from support.dyno_process import Home
from support.experiments import Listener
from support.records import NODE
from support.reference_servers import start_http
from support.synthetic_experiment import Shape, experiment, histogram, open_record

RATES = (1000, 2000)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def test_dyno_load_with_a_rate_asks_for_what_comes_and_says_what_it_kept_up_with(
    home: Home, tmp_path: Path, short_windows: None
) -> None:
    server = start_http(body_bytes=1024)
    try:
        url = f"http://127.0.0.1:{server.port}/"
        options = (
            "--rate",
            "200,400",
            "--arrivals",
            "uniform",
            "-c",
            "8",
            "-d",
            "0.5s",
            "--into",
            tmp_path / "e",
        )
        done = home.here("load", url, *options)
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    assert "Response time by offered rate" in done.stdout
    assert "peak" not in done.stdout.lower()
    with Experiment.open(tmp_path / "e") as kept:
        records = kept.levels()
    assert [(level.rate_per_s, level.arrivals, level.clients) for level in records] == [
        (200, 100, 8),
        (400, 200, 8),
    ]
    assert [unaccounted(level) for level in records] == [0, 0]
    assert all(
        level.operations > 0 and level.dropped == 0 and level.scheduling_error_hdr for level in records
    )


def test_a_rate_above_what_the_server_can_do_is_called_so(
    home: Home, tmp_path: Path, short_windows: None
) -> None:
    server = start_http(body_bytes=10, fault="delay=20ms")
    try:
        url = f"http://127.0.0.1:{server.port}/"
        options = ("--rate", "1000", "-c", "2", "-d", "0.6s", "--into", tmp_path / "e")
        done = home.here("load", url, *options)
    finally:
        server.stop()
    output = " ".join(done.stdout.split())
    crowded = "target at 1,000 requests/s: 2 connections can't carry more than" in output
    # On a busy machine, the generator may be the limit.
    assert crowded or "target kept up with none of the offered rates" in output, output + done.stderr
    assert ("If requests then take longer, the server is the limit." in output) == crowded
    with Experiment.open(tmp_path / "e") as kept:
        [level] = kept.levels()
    assert unaccounted(level) == 0
    # Two connections of 20 ms each answer at most 100 requests/s.
    assert level.operations_total <= 65 and (level.overdue_at_end or 0) > 350


def open_source(
    change: Callable[[LevelRecord], LevelRecord] = lambda level: level, **p99_ms: float
) -> Source:
    """Return configurations with these p99 response times at `RATES`, in six repetitions."""
    closed = experiment(dict.fromkeys(p99_ms, Shape(1000.0)), clients=(64,), repetitions=6)
    suite = closed.head.suite.model_copy(
        update={"open": OpenLoad(rate_per_s=list(RATES)), "axis": "rate", "clients": [64]}
    )
    levels = expand.levels(suite, closed.head.scale)
    head = closed.head.model_copy(update={"suites": [suite], "levels": levels})
    records = []
    for key in head.order:
        for level in levels:
            random = np.random.default_rng([key.number, level.index])
            slow_ms = p99_ms[key.configuration] * float(np.exp(random.normal(0, 0.01)))
            records.append(change(open_record(key, level, int(slow_ms * 1e6), 20_000)))
    return replace(closed, head=head, records=records)


def test_who_answers_sooner_at_equal_rate_is_proven_by_the_99th_percentile() -> None:
    report = build_from(open_source(apache=20.0, nginx=10.0))
    assert report.answer.verdict.startswith("nginx answers faster than apache: p99 −50")  # noqa: RUF001
    [equal] = [table for table in report.tables if table.key == "equal"]
    assert [row[5].text for row in equal.rows] == ["faster", "faster"]
    assert [row[2].text for row in equal.rows] == ["10.0", "10.0"]
    keys = {table.key for table in report.tables}
    assert {"open", "response"} <= keys and not {"peaks", "shape", "improvements"} & keys
    text = " ".join([report.answer.verdict, *report.summary.text, *(each.claim for each in report.findings)])
    assert "peak" not in text.lower()


def test_equal_servers_are_not_told_apart() -> None:
    report = build_from(open_source(apache=10.0, nginx=10.0))
    assert report.answer.verdict == "No winner: no difference in p99 at the same rate is proven."


def test_a_server_that_does_not_keep_up_is_named_and_its_times_are_not_compared() -> None:
    def overloaded(level: LevelRecord) -> LevelRecord:
        if level.configuration == "apache" and level.rate_per_s == RATES[1]:
            more = level.operations * 2
            return replace(
                level, arrivals=(level.arrivals or 0) + more, arrivals_in_window=more, overdue_at_end=more
            )
        return level

    report = build_from(open_source(overloaded, apache=20.0, nginx=10.0))
    assert "apache did not keep up with 2,000 requests/s." in report.answer.verdict
    [equal] = [table for table in report.tables if table.key == "equal"]
    assert [row[1].text for row in equal.rows] == ["1,000"]
    apache = report.results.configurations[0]
    assert [Mark.BEHIND in level.marks for level in apache.finished] == [False, True]
    assert not report.results.contradictions


def crowded(level: LevelRecord, light_ms: float = 1.0) -> LevelRecord:
    """Return the record as if 64 connections were always busy at the higher rate, with 64 ms per request."""
    if level.rate_per_s == RATES[0]:
        return replace(level, outstanding_s=level.operations * light_ms / 1000, ready_work_s=0.0)
    ended = round(level.window_s * 1000)
    return replace(
        level,
        operations=ended,
        arrivals_in_window=2 * ended,
        waited=ended,
        outstanding_s=64 * level.window_s,
        ready_work_s=0.0,
        server_cpu_s=None,
    )


def test_too_few_connections_are_not_blamed_on_the_server() -> None:
    report = build_from(open_source(partial(crowded, light_ms=60.0), nginx=20.0))
    assert (
        "nginx at 2,000 requests/s: 64 connections can't carry more than 1,000 requests/s, because requests took "
        "64.0 ms each and all were busy. Use --clients 162 for 2,000 requests/s."
    ) in report.answer.verdict
    assert "is the limit" not in report.answer.verdict and "did not keep up" not in report.answer.verdict
    assert "the number of connections with 2,000" in report.answer.limit
    assert any("The connections were too few for the rate at" in each for each in report.warnings)
    assert not any("The server did not keep up" in each for each in report.warnings)


def test_a_server_that_takes_longer_the_more_it_gets_is_the_limit() -> None:
    report = build_from(open_source(crowded, nginx=20.0))
    assert "nginx did not keep up with 2,000 requests/s." in report.answer.verdict
    assert "can't carry" not in report.answer.verdict
    busy = partial(crowded, light_ms=60.0)

    def on_busy_cpus(level: LevelRecord) -> LevelRecord:
        return replace(busy(level), server_cpu_s=1000 * level.window_s)

    assert "nginx did not keep up" in build_from(open_source(on_busy_cpus, nginx=20.0)).answer.verdict


def test_no_winner_where_nobody_kept_up_is_not_for_want_of_repetitions() -> None:
    def overloaded(level: LevelRecord) -> LevelRecord:
        return replace(level, arrivals_in_window=2 * level.operations)

    report = build_from(open_source(overloaded, apache=20.0, nginx=10.0))
    assert report.answer.verdict.startswith("No winner: there is no rate at which two configurations kept up")


def test_no_winner_for_want_of_answers_for_a_p99_is_told_so() -> None:
    def few(level: LevelRecord) -> LevelRecord:
        return replace(
            level,
            operations=900,
            arrivals_in_window=900,
            response_time_hdr=histogram([1_000_000] * 900),
        )

    report = build_from(open_source(few, apache=20.0, nginx=10.0))
    assert report.answer.verdict == (
        "No winner: too few requests ended for a p99, which needs 1,000 in each load level. Use load levels of more "
        "than 1 s at 2,000 requests/s, or a higher rate."
    )
    assert not any("kept up in every repetition" in each.claim for each in report.findings)


def test_a_bound_of_the_rate_that_holds_requests_back_is_named_and_not_the_server() -> None:
    def held(level: LevelRecord) -> LevelRecord:
        return replace(level, arrivals_in_window=2 * level.operations)

    source = open_source(held, nginx=20.0)
    bounds = {rate: Bounds(max_clients=64, max_length_s=600, max_rate_per_s=rate) for rate in (1, 1_000_000)}
    for rate, named in ((1, True), (1_000_000, False)):
        bounded = [
            replace(configuration, bounds=bounds[rate]) for configuration in source.head.configurations
        ]
        head = source.head.model_copy(update={"configurations": bounded})
        report = build_from(replace(source, head=head))
        said = " ".join([report.answer.verdict, *report.warnings])
        assert ("the rate limit (--max-rate, or max_rate_per_s in bounds) delayed" in said) is named, said
        assert ("did not keep up" in said) is not named
        assert ("kept up with none" in said) is not named


def test_an_arrival_that_is_in_no_count_is_a_contradiction() -> None:
    report = build_from(
        open_source(lambda level: replace(level, arrivals=(level.arrivals or 0) + 1), apache=1.0)
    )
    assert "no count contains 1 of the" in report.results.contradictions[0]


def test_requests_without_an_answer_count_alike_in_both_tables() -> None:
    # With 1 % of requests above every answer, the 99th percentile is nearly one of them.

    def without_answers(level: LevelRecord) -> LevelRecord:
        count = level.operations // 50 if level.configuration == "apache" else 0
        row = ErrorRow("server", "response_timeout", count, count, "")
        arrived = (level.arrivals or 0) + count
        return replace(
            level,
            errors=[row] if count else [],
            arrivals=arrived,
            arrivals_in_window=level.operations + count,
        )

    source = open_source(without_answers, apache=10.0, nginx=10.0)
    results = build_from(source).results
    [pair] = at_equal_rate(results)
    for place, level in enumerate(pair.found):
        for result, speed in zip(results.configurations, (level.base, level.other), strict=True):
            times = result.finished[place].response
            assert times is not None
            assert 1 / speed == pytest.approx(times.percentiles_ms[times_place(0.99)], rel=0.02)


def times_place(share: float) -> int:
    return histograms.QUANTILES.index(share)


def test_the_table_of_nodes_is_of_the_highest_rate_alone() -> None:
    source = open_source(apache=10.0)
    records = [
        replace(level, nodes=[replace(NODE, operations=level.rate_per_s or 0)]) for level in source.records
    ]
    source = replace(source, records=records, disclosure={**source.disclosure, "fleet": {}})
    [section] = nodes.build(build_from(source).results).sections
    [row] = section.tables[0].rows
    window_s = records[0].window_s
    assert row[3].text == units.format_count(RATES[-1] / window_s)


def test_the_worst_clock_error_of_a_node_is_named() -> None:
    source = open_source(apache=10.0)
    errors_s = (0.5, *[0.2] * (len(source.records) - 1))
    records = [
        replace(level, nodes=[replace(NODE, clock_error_s=error_s)])
        for level, error_s in zip(source.records, errors_s, strict=True)
    ]
    [said] = nodes.vague_clocks(replace(source, records=records))
    assert ": node a (500 ms). " in said


def test_dropped_requests_are_slower_than_every_answer() -> None:
    def dropping(level: LevelRecord) -> LevelRecord:
        dropped = level.operations // 20
        return replace(
            level, dropped=dropped, dropped_in_window=dropped, arrivals=(level.arrivals or 0) + dropped
        )

    def p95_ms(source: Source) -> float | None:
        [result] = build_from(source).results.configurations
        times = result.finished[0].response
        return times.percentiles_ms[1] if times else None

    assert p95_ms(open_source(apache=20.0)) == pytest.approx(1.0, rel=0.01)
    found = p95_ms(open_source(dropping, apache=20.0))
    assert found is not None and found > 15


def test_errors_are_ends_of_arrivals_too() -> None:
    def failing(level: LevelRecord) -> LevelRecord:
        row = ErrorRow("server", "error_status", 5, 5, "status 500")
        return replace(level, errors=[row], arrivals=(level.arrivals or 0) + 5)

    assert not build_from(open_source(failing, apache=1.0)).results.contradictions


def test_a_server_keeps_up_where_what_came_ended_up_to_what_was_under_way() -> None:
    for planned in (10_000, None):
        kept_up = partial(rules.kept_up, planned=planned)
        assert kept_up(10_000, 9_900, 0, 64)
        assert kept_up(10_000, 9_840, 0, 64)
        assert not kept_up(10_000, 9_700, 0, 64)
        assert not kept_up(10_000, 10_000, 1, 64)


def test_random_arrivals_may_leave_a_server_behind_by_chance_and_even_ones_may_not() -> None:
    kept_up = partial(rules.kept_up, dropped=0, connections=1)
    # 42 requests are due in a window of 2 s at 21 requests/s. A few arrived just before its end.
    assert kept_up(42, 34, planned=42)
    assert not kept_up(42, 34, planned=None)
    # 13 more arrived than planned, two standard deviations.
    assert kept_up(55, 42, planned=42)
    assert not kept_up(55, 42, planned=None)
    assert not kept_up(42, 28, planned=42)
    assert not kept_up(84, 42, planned=42)


def ended(arrivals: NDArray[np.float64], service_s: float, window_s: float) -> tuple[int, int]:
    """Return how many requests arrived, and how many ended on one connection, in a window after an equal ramp."""
    free_s, ends = 0.0, []
    for arrival_s in arrivals:
        free_s = max(free_s, arrival_s) + service_s
        ends.append(free_s)
    inside = [
        int(np.sum((times >= window_s) & (times < 2 * window_s))) for times in (arrivals, np.array(ends))
    ]
    return inside[0], inside[1]


@pytest.mark.parametrize("rate_per_s", [5, 21, 300])
def test_a_server_that_is_just_fast_enough_is_seldom_said_to_fall_behind_and_a_slow_one_mostly(
    rate_per_s: int,
) -> None:
    random, window_s, runs = np.random.default_rng(7), 2.0, 500
    due = rate_per_s * window_s

    def behind(utilisation: float) -> float:
        said = 0
        for _ in range(runs):
            gaps = random.exponential(1 / rate_per_s, int(due * 4) + 50)
            arrived, done = ended(np.cumsum(gaps), utilisation / rate_per_s, window_s)
            said += not rules.kept_up(arrived, done, 0, 1, planned=due)
        return said / runs

    assert behind(0.7) <= 0.01
    assert behind(0.9) <= 0.02
    assert behind(1.0) <= 0.05
    assert behind(3.0) >= (0.3 if rate_per_s == 5 else 0.9)


@pytest.mark.parametrize(("law", "behind"), [("poisson", False), ("uniform", True)])
def test_a_short_level_at_a_low_rate_that_chance_explains_is_not_called_behind(
    law: str, behind: bool
) -> None:
    def burst(level: LevelRecord) -> LevelRecord:
        due = round(level.window_s * (level.rate_per_s or 0))
        late = round(1.2 * due**0.5)
        return replace(
            level,
            clients=1,
            operations=due - late,
            operations_total=(level.arrivals or 0) - late,
            arrivals_in_window=due,
            overdue_at_end=late,
        )

    source = open_source(burst, nginx=10.0)
    assert source.head.suite.open is not None
    opened = source.head.suite.open.model_copy(update={"law": law})
    head = source.head.model_copy(
        update={"suites": [source.head.suite.model_copy(update={"open": opened, "clients": [1]})]}
    )
    report = build_from(replace(source, head=head))
    [nginx] = report.results.configurations
    assert [Mark.BEHIND in level.marks for level in nginx.finished] == [behind] * 2
    assert ("kept up with none of the offered rates" in report.answer.verdict) is behind


def test_the_generators_part_is_the_larger_of_its_share_of_the_mean_and_of_the_tail() -> None:
    assert rules.own_share(0.1, 0.0, 10.0, 0.5, 10.0) == pytest.approx(0.05)
    assert rules.own_share(2.0, 0.0, 10.0, 0.5, 10.0) == pytest.approx(0.2)
    assert rules.own_share(2.0, 0.1, 10.0, 0.5, 10.0) == pytest.approx(0.3)
    assert rules.own_share(0.1, 0.0, 10.0, 50.0, 10.0) == 1.0
    assert rules.own_share(None, 0.0, 10.0, 0.5, 10.0) is None


def suite(**changed: Any) -> tuple[Suite | None, list[str]]:
    document = {
        "name": "s",
        "source": "ours",
        "workload": "url",
        "clients": [8],
        "length_s": 5,
        "open": {"rate_per_s": [10, 20]},
        **changed,
    }
    made, problems = check_model(Suite, document)
    found = [] if made is None else suite_problems(made)
    return made, [f"{'.'.join(map(str, problem.path))}: {problem.message}" for problem in (*problems, *found)]


def test_a_suite_with_open_load_has_its_rates_as_levels() -> None:
    made, problems = suite()
    assert made is not None and not problems
    assert [(level.name, level.clients, level.rate_per_s) for level in expand.levels(made)] == [
        ("10_per_s", 8, 10),
        ("20_per_s", 8, 20),
    ]
    again, none = check_model(Suite, made.model_dump(mode="json", exclude_defaults=True))
    assert again == made and not none


def test_throughput_that_was_given_is_neither_compared_nor_made_precise() -> None:
    with pytest.raises(UserError, match="offers its own rates"):
        compare([build_from(open_source(nginx=5.0, apache=5.0))])
    made, _ = suite()
    assert made is not None
    text = 'name = "p"\nsuite = "s"\nuntil_percent = 2\n[[servers]]\nserver = "reference"\n'
    with pytest.raises(PlanError, match=r"until_percent: .*sets the rates itself"):
        parse_plan(text, "p.toml", settings_types(), known=[made])
    plan = parse_plan(text.replace("until_percent = 2\n", ""), "p.toml", settings_types(), known=[made])
    with pytest.raises(UserError, match=r"--until: .*sets the rates itself"):
        until_precise(plan, "2%", [made])


SHARES = """
name = "shares"
source = "ours"
workload = "url"
clients = [4]
length_s = 0.5
ramp_up_s = 0.1
leave_after_errors = 1000
[open]
percent_of_peak = [5, 10]
"""


def test_rates_that_are_shares_of_a_peak_are_the_same_for_every_configuration(
    home: Home, tmp_path: Path, short_windows: None
) -> None:
    (tmp_path / "shares.toml").write_text(SHARES)
    servers = "".join(
        f'[[servers]]\nserver = "reference"\nname = "{name}"\nsettings = {{ body_bytes = {size} }}\n'
        for name, size in (("small", 100), ("large", 100_000))
    )
    (tmp_path / "p.toml").write_text(f'name = "p"\nsuite = "shares.toml"\nrepetitions = 1\n{servers}')
    done = home.here("run", tmp_path / "p.toml", "--into", tmp_path / "e")
    assert done.returncode == 0, done.stderr
    assert "peaks in requests/s: small" in done.stderr
    with Experiment.open(tmp_path / "e") as kept:
        head, records = kept.head, kept.levels()
        report = build_from(source_of(kept))
    assert head.peaks is not None and head.suite.open is not None
    lowest = min(peak.requests_s for peak in head.peaks.peaks)
    assert [peak.configuration for peak in head.peaks.peaks] == ["small", "large"]
    assert head.suite.open.rate_per_s == expand.rates_of_peak([5, 10], lowest)
    assert not head.suite.open.percent_of_peak
    assert [level.rate_per_s for level in records] == [*head.suite.open.rate_per_s] * 2
    [told] = [fact.text for fact in report.methodology if fact.label == "Rates"]
    assert told.startswith("Rates are 5 and 10 % of the lowest peak")


def test_the_run_delay_at_a_peak_is_the_mean_of_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of four threads waited for a CPU for half of the window."""
    [closed, *_] = experiment({"apache": Shape(2000)}, repetitions=1).records
    measured = replace(closed, generator_threads=4, run_delay_s=2 * closed.window_s)
    server = SimpleNamespace(check=lambda: None)
    monkeypatch.setattr(peaks, "under_test", lambda *_: nullcontext((server, None)))
    monkeypatch.setattr(peaks, "looked", lambda *_: None)
    monkeypatch.setattr(peaks, "preflight", lambda *_: None)
    monkeypatch.setattr(local, "run_level", lambda *_: measured)
    made, problems = suite(open={"percent_of_peak": [50, 100]})
    assert made is not None and not problems
    plan = Plan(name="p", title="P", suite="s", repetitions=1, servers=[ServerPlan(server="reference")])
    with create_experiment(tmp_path / "e", "# made by a test\n", plan, [made]) as created:
        peaks.settle_rates(created, Listener())
        assert created.head.peaks is not None
        assert [peak.run_delay_share for peak in created.head.peaks.peaks] == [0.5]


def test_shares_of_a_peak_have_three_digits_and_are_at_least_one_request() -> None:
    assert expand.rates_of_peak([50, 70, 90], 12_345.6) == [6170, 8640, 11100]
    assert expand.rates_of_peak([1], 3.0) == [1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"open": {"rate_per_s": [10], "percent_of_peak": [50]}},
            "open: needs either rate_per_s or percent_of_peak",
        ),
        ({"open": {}}, "open: needs either rate_per_s or percent_of_peak"),
        ({"open": {"percent_of_peak": [50, 40]}}, "open.percent_of_peak.1: 40 % after 50 %"),
        (
            {"workload": "diskmix"},
            "open: not possible with diskmix, because the next operation of its clients",
        ),
        ({"clients": [8, 16]}, "clients: with a rate, must be a single number"),
        ({"think_time_s": 1}, "think_time_s: open load has no think time"),
        ({"delay_s": 1, "ramp_up_s": 1}, "delay_s: open load has no delay"),
        ({"open": {"rate_per_s": [20, 10]}}, "open.rate_per_s.1: 10/s after 20/s"),
        ({"axis": "clients"}, "axis: clients"),
        ({"axis": "rate", "open": None}, "axis: rate"),
        ({"open": {"rate_per_s": [0]}}, "open.rate_per_s.0"),
    ],
)
def test_what_contradicts_open_load_is_told(changed: dict[str, Any], said: str) -> None:
    _, problems = suite(**changed)
    assert any(problem.startswith(said) for problem in problems), problems


def test_a_bound_below_the_requests_of_the_rate_is_refused_beforehand() -> None:
    # 20 MiB in parts of 5 MiB: begin, 4 parts, end. Each second operation is an upload.
    given = {"rate": "10", "size_bytes": f"{20 << 20}", "part_bytes": f"{5 << 20}", "mix": "get=1,put=1"}
    with pytest.raises(
        PlanError, match=r"--max-rate: 34 is below .*, 10 operations/s with 3.5 requests each"
    ):
        objects_plan("s3://127.0.0.1:9000/b", given | {"max_rate": "34"})
    objects_plan("s3://127.0.0.1:9000/b", given | {"max_rate": "35"})
    made, _ = suite()
    assert made is not None
    text = (
        'name = "p"\nsuite = "s"\n[[servers]]\nserver = "external"\nurl = "http://127.0.0.1/"\n'
        "bounds = { max_clients = 8, max_length_s = 10, max_rate_per_s = 19 }\n"
    )
    with pytest.raises(PlanError, match=r"max_rate_per_s: 19 is below the highest rate, 20"):
        parse_plan(text, "p.toml", settings_types(), known=[made])
    parse_plan(text.replace("19", "20"), "p.toml", settings_types(), known=[made])


def test_options_that_contradict_a_rate_are_told() -> None:
    with pytest.raises(PlanError) as caught:
        given = {"clients": "1,4", "length": "10s", "max_rate": "50", "rate": "100", "arrivals": "weekly"}
        quick_plan("http://127.0.0.1/", given)
    said = str(caught.value)
    assert "--max-rate: 50 is below the highest rate, 100" in said
    assert "--clients: with a rate, must be a single number" in said
    assert "--arrivals" in said
