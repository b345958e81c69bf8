"""How much of a server's speed the generator, the plan and single clients hide, in figures and verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from serverdyno.analysis.comparability import Conditions, ObstacleKind, obstacles
from serverdyno.analysis.improvement import Improvement, Metric, Verdict
from serverdyno.analysis.trust import Limit, Mark
from serverdyno.plan.protocols.files import mbit_moved_per_s
from serverdyno.plan.protocols.http import HTTP
from serverdyno.report.build import build_from
from serverdyno.report.figures import histograms
from serverdyno.report.figures.fates import passes_a_client
from serverdyno.report.figures.generator import noise_marks
from serverdyno.report.figures.invariants import contradictions
from serverdyno.report.figures.results import compute
from serverdyno.report.model import Report
from serverdyno.store.records import LevelRecord
from support import synthetic_files as files
from support.records import NODE
from support.synthetic_experiment import Shape, experiment, histogram, with_error

WAITS_FOR_DISK: dict[str, Any] = {
    "ready_work_s": 0.0,
    "run_delay_s": 0.0,
    "server_cpu_s": 0.1,
    "io_wait_s": 4.0,
}


@pytest.mark.parametrize(
    ("changes", "memory_bytes", "named"),
    [
        ({}, 2**40, True),
        ({"bytes_written": 0, "syncs": []}, 2**40, False),
        ({"bytes_written": 0}, 2**40, True),  # there are syncs
        ({"bytes_written": 0, "syncs": []}, 2**20, True),  # there is more to read than memory
        ({"bytes_written": 0, "syncs": []}, None, False),
    ],
)
def test_the_disk_is_named_only_where_the_server_may_need_it(
    changes: dict[str, Any], memory_bytes: int | None, named: bool
) -> None:
    # Any process of the machine may wait for a disk, but servers that read files from memory do not.
    source = files.experiment({"samba": files.FileShape(400)})
    host = {**source.disclosure.get("host", {}), "memory": {"total_bytes": memory_bytes}}
    records = [
        replace(
            record,
            outstanding_s=record.clients * record.threads * record.window_s,
            **WAITS_FOR_DISK,
            **changes,
        )
        for record in source.records
    ]
    [result] = compute(
        replace(source, records=records, disclosure={**source.disclosure, "host": host})
    ).configurations
    assert {Limit.DISK in result.limits_of(level) for level in result.finished} == {named}


def found(verdict: Verdict, low: float, high: float, minimum: float = 0.0) -> Improvement:
    """Return a comparison with this interval, in percent."""
    return Improvement(
        figure=Metric.OVERALL_AVERAGE,
        base=1.0,
        other=1.0,
        percent=1.0,
        low_percent=low,
        high_percent=high,
        observed_low_percent=low,
        observed_high_percent=high,
        repetitions=3,
        paired=True,
        levels=(0,),
        verdict=verdict,
        minimum_percent=minimum,
        equivalence_percent=minimum,
    )


def side(name: str, hidden: float | None, *, rate_bound: bool = False) -> Conditions:
    return Conditions(name, 0.0, 0.0, 0.0, {"GET": 1000}, hidden, rate_bound)


def why(base: Conditions, other: Conditions, improvement: Improvement) -> list[tuple[ObstacleKind, str]]:
    reasons = obstacles(base, other, improvement, differs_in_durability=False)
    return [(reason.kind, reason.name) for reason in reasons]


@pytest.mark.parametrize(
    ("hidden_base", "hidden_other", "improvement", "held"),
    [
        (0.25, 0.0, found(Verdict.FASTER, 26, 40), []),
        (0.25, 9.0, found(Verdict.FASTER, 26, 40), []),  # what the faster one hides makes it faster still
        (0.25, 0.0, found(Verdict.FASTER, 24, 40), ["a"]),
        (0.0, 0.25, found(Verdict.SLOWER, -40, -21), []),
        (0.0, 0.25, found(Verdict.SLOWER, -40, -19), ["b"]),
        (
            None,
            None,
            found(Verdict.SLOWER, -40, -19),
            [],
        ),  # not measured, so nothing is claimed about the generator
        (0.0, 0.0, found(Verdict.EQUIVALENT, -1, 1, 2.0), []),
        (0.05, 0.0, found(Verdict.EQUIVALENT, -1, 1, 2.0), ["a"]),
        (0.0, 0.05, found(Verdict.EQUIVALENT, -1, 1, 2.0), ["b"]),
        (9.0, 9.0, found(Verdict.NO_DIFFERENCE_SHOWN, -1, 1), []),
        # The gap must exceed hidden speed and the stated minimum effect of 10 %: 1.25 x 1.1 = 1.375.
        (0.25, 0.0, found(Verdict.FASTER, 38, 60, 10.0), []),
        (0.25, 0.0, found(Verdict.FASTER, 37, 60, 10.0), ["a"]),
        (0.0, 0.25, found(Verdict.SLOWER, -60, -28, 10.0), []),
        (0.0, 0.25, found(Verdict.SLOWER, -60, -27, 10.0), ["b"]),
    ],
)
def test_a_gap_that_the_generator_may_hide_is_no_ranking(
    hidden_base: float | None, hidden_other: float | None, improvement: Improvement, held: list[str]
) -> None:
    reasons = why(side("a", hidden_base), side("b", hidden_other), improvement)
    assert reasons == [(ObstacleKind.HIDDEN, name) for name in held]


def test_what_losses_and_neighbours_explain_is_added_to_a_stated_minimum_effect() -> None:
    claim = found(Verdict.FASTER, 12, 20, 10.0)
    left = replace(side("a", 0.0), left_share=0.05)
    disturbed = replace(side("a", 0.0), slowed=0.053)
    assert why(left, side("b", 0.0), claim) == [(ObstacleKind.CLIENTS_LEFT, "a")]
    assert why(disturbed, side("b", 0.0), claim) == [(ObstacleKind.NOISE, "a")]
    larger = found(Verdict.FASTER, 17, 20, 10.0)
    assert why(left, side("b", 0.0), larger) == why(disturbed, side("b", 0.0), larger) == []


def test_a_side_that_the_plans_rate_held_is_never_called_slower() -> None:
    bound, free = side("a", 0.0, rate_bound=True), side("b", 0.0)
    held = [(ObstacleKind.RATE_BOUND, "a")]
    assert why(bound, free, found(Verdict.FASTER, 100, 200)) == held
    assert why(free, bound, found(Verdict.SLOWER, -90, -80)) == held
    assert why(bound, free, found(Verdict.SLOWER, -90, -80)) == []


def verdict(report: Report) -> Verdict:
    [comparison] = report.comparisons
    return comparison.improvements[0].verdict


def test_servers_that_the_generator_held_back_are_ranked_only_beyond_what_it_hides() -> None:
    # If 0.3 of each round trip is the generator's, it may hide 43 % of the server's speed.
    held = {"a": Shape(2000, waiting=0.3), "b": Shape(2500, waiting=0.3)}
    report = build_from(experiment(held))
    assert verdict(report) is Verdict.NOT_COMPARABLE
    assert any("may be up to 43" in found.claim for found in report.findings)
    assert report.summary.text[1].startswith("The peaks can't be ranked")
    assert all(Mark.GENERATOR_LIMITED in level.marks for level in report.results.levels)
    apart = build_from(experiment(held | {"b": Shape(4000, waiting=0.3)}))
    assert verdict(apart) is Verdict.FASTER
    old = build_from(experiment({"a": Shape(2000, waiting=None), "b": Shape(2500, waiting=None)}))
    assert verdict(old) is Verdict.FASTER  # older experiments did not measure the generator's share
    assert {level.hidden_speed for level in old.results.levels} == {None}


def test_a_busy_server_hides_nothing_behind_a_slow_generator() -> None:
    report = build_from(experiment({"a": Shape(2000, waiting=0.6, server_cpu_us=600)}))
    at_peak = max(report.results.levels, key=lambda level: level.throughput.mean)
    assert at_peak.hidden_speed is not None and at_peak.hidden_speed <= 0.0
    assert Mark.GENERATOR_LIMITED not in at_peak.marks


def test_timeouts_count_above_every_success() -> None:
    quick = histogram([1_000_000] * 900)
    alone = histograms.times([quick])
    assert alone is not None and alone.percentiles_ms[:2] == pytest.approx((1.0, 1.0), rel=0.01)
    some = histograms.times([quick], timeouts=100, timeout_ms=30_000)
    assert some is not None
    assert some.percentiles_ms[:3] == pytest.approx((1.0, 30_000, 30_000), rel=0.01)
    assert some.count == 900  # the mean is still that of the answers


def test_an_experiment_with_timeouts_says_so_in_its_percentiles() -> None:
    source = experiment({"a": Shape(2000)}, clients=(8,), repetitions=1)
    half = [with_error(record, "server", record.operations) for record in source.records]
    [level] = compute(replace(source, records=half)).levels
    assert level.response is not None
    assert level.response.percentiles_ms[1] == source.head.suite.timeout_s * 1000


def record_of(source_waiting: float = 0.02) -> LevelRecord:
    return experiment({"a": Shape(2000, waiting=source_waiting)}, repetitions=1).records[2]


def test_a_record_that_breaks_no_invariant_is_not_warned_of() -> None:
    assert contradictions(record_of(), 1, closed=True) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"operations": 1}, "the response-time histogram add up to"),
        ({"operations_total": 9}, "the seconds add up to"),
        ({"generator_cpu_user_s": 9.0}, "the generator's threads used"),
        ({"server_cpu_s": 9.0}, "the server used 9.00 CPU seconds, but only 4.80 were available"),
        ({"outstanding_s": 1.0}, "Little's law"),
        ({"outstanding_s": 900.0}, "s in all, but the window has only"),
    ],
)
def test_a_broken_invariant_is_a_warning(change: dict[str, float], said: str) -> None:
    source = experiment({"a": Shape(2000)}, repetitions=1)
    place = len(source.records) // 2
    records = list(source.records)
    records[place] = replace(records[place], **change)  # type: ignore[arg-type]  # one of several types
    report = build_from(replace(source, records=records))
    warnings = [warning for warning in report.warnings if warning.startswith("The records are inconsistent")]
    assert any(said in warning for warning in warnings), warnings


def test_a_client_that_fails_after_the_window_closed_keeps_its_share_of_it() -> None:
    source = files.experiment({"samba": files.FileShape(120)}, repetitions=1)
    record = source.records[2]
    closes_s = record.window_closes_s
    before, after = (
        replace(
            record,
            by_client=[replace(record.by_client[0], left_at_s=at_s, errors=1), *record.by_client[1:]],
            clients_participating=record.clients - 1,
        )
        for at_s in (closes_s - 0.001, closes_s)
    )
    assert mbit_moved_per_s(after) == mbit_moved_per_s(record) > mbit_moved_per_s(before)
    marks = [
        {level.index: level.marks for level in compute(replace(source, records=[each])).levels}[record.level]
        for each in (before, after)
    ]
    assert [Mark.CLIENTS_LEFT in each for each in marks] == [True, False]


def test_passes_are_counted_by_operations_and_not_by_whole_passes() -> None:
    record = files.experiment({"samba": files.FileShape(120)}, repetitions=1).records[2]
    mean = record.operations / record.clients
    longer = replace(record, passes=0, pass_operations=int(mean / 1.5))
    assert passes_a_client([longer]) == pytest.approx(1.5, rel=0.01)
    assert passes_a_client([replace(record, passes=0, pass_operations=int(2 * mean))]) == pytest.approx(
        0.5, rel=0.01
    )


def test_passes_are_those_of_the_clients_that_stayed() -> None:
    record = files.experiment({"samba": files.FileShape(120)}, repetitions=1).records[2]
    left, *others = record.by_client
    mean = sum(row.operations for row in others) / len(others)
    changed = replace(
        record, by_client=[replace(left, left_at_s=0.1), *others], pass_operations=int(mean / 2)
    )
    assert passes_a_client([changed]) == pytest.approx(2, rel=0.01)


def test_think_time_is_a_limit_of_its_own_and_hides_no_speed_of_the_server() -> None:
    # Half of each round trip is the generator's, but a round trip takes only 2 % of a client's time.
    source = experiment({"apache": Shape(2000)})
    records = [
        replace(
            record,
            outstanding_s=0.02 * record.clients * record.window_s,
            ready_work_s=0.01 * record.clients * record.window_s,
        )
        for record in source.records
    ]
    report = build_from(replace(source, records=records))
    [result] = report.results.configurations
    for level in result.finished:
        assert level.hidden_speed == pytest.approx(1 / 0.99 - 1)
        assert result.limits_of(level) == (Limit.THINKING,)
    assert report.answer.limit == "the clients' think time or pace."


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_think_times_that_account_for_the_rate_are_the_limit_on_a_busy_machine(share: float) -> None:
    source = experiment({"apache": Shape(2000)})

    records = [
        replace(
            record,
            operations=round(0.9 * share * record.clients * record.window_s / 1.5),
            outstanding_s=0.05 * record.clients * record.window_s,
            ready_work_s=0.0,
            run_delay_s=0.3 * record.window_s * record.generator_threads,
        )
        for record in source.records
    ]
    [suite] = source.head.suites
    head = source.head.model_copy(update={"suites": [suite.model_copy(update={"think_time_s": 1.5})]})
    [result] = build_from(replace(source, head=head, records=records)).results.configurations
    for level in result.finished:
        assert result.limits_of(level)[0] is (Limit.THINKING if share == 1.0 else Limit.CPU_WAIT)


def test_a_generator_that_uses_hardly_any_cpu_is_no_limit_at_a_low_rate() -> None:
    # One client with 21 requests/s. The thread works for 0.4 % of the time, and waits for a CPU for a ninth of it.
    source = experiment({"apache": Shape(21.0, knee=1, fall=0.0)}, clients=(1,), repetitions=2)
    records = [
        replace(
            record, run_delay_s=0.11 * record.window_s, ready_work_s=0.0, server_cpu_s=0.9 * record.window_s
        )
        for record in source.records
    ]
    report = build_from(replace(source, records=records))
    [level] = report.results.levels
    assert Mark.NOISY in level.marks
    assert report.answer.limit == "the server's CPU."
    [claim] = [finding.claim for finding in report.findings if finding.topic == "Generator"]
    assert not claim.startswith("The generator limited"), claim
    idle = [replace(record, server_cpu_s=0.1 * record.window_s) for record in records]
    limited = build_from(replace(source, records=idle)).answer.limit
    assert limited == "this machine, which left the load generator waiting for a CPU."


@pytest.mark.parametrize(("steal_share", "noisy"), [(0.02, False), (0.021, True)])
def test_what_the_hypervisor_takes_from_a_node_is_noise(steal_share: float, noisy: bool) -> None:
    [record, *_] = experiment({"apache": Shape(2000)}, repetitions=1).records
    node = replace(NODE, others_cpu_s=0.0, steal_cpu_s=4 * steal_share * record.window_s, cpus=4)
    assert (Mark.NOISY in noise_marks(replace(record, nodes=[node]), fewest_cpus=4)) is noisy


def test_a_bound_that_run_delay_loosens_is_not_stated() -> None:
    source = experiment({"apache": Shape(2000)})
    records = [replace(record, run_delay_s=0.4 * record.window_s) for record in source.records]
    report = build_from(replace(source, records=records))
    [claim] = [finding.claim for finding in report.findings if finding.topic == "Generator"]
    assert claim.startswith("In 5 of 5 load levels, marked G, the generator waited for a CPU for up to 40")
    assert "faster than shown" not in claim
    assert report.answer.limit == "this machine, which left the load generator waiting for a CPU."
    [result] = report.results.configurations
    assert {level.stated_hidden_speed for level in result.finished} == {None}
    assert all(Mark.GENERATOR_LIMITED in level.marks for level in result.finished)


def test_a_server_that_closes_after_each_answer_of_a_pipeline_is_told() -> None:
    source = experiment({"nginx": Shape(1000.0)}, clients=(8,), repetitions=1)
    for pipeline, kept, is_told in ((4, 1, True), (4, 100, False), (None, 1, False)):
        suite = source.head.suite
        settings = suite.settings(HTTP).model_copy(update={"pipeline": pipeline})
        head = source.head.model_copy(update={"suites": [suite.with_settings(HTTP, settings)]})
        records = [replace(each, connections=each.operations_total // kept) for each in source.records]
        warnings = build_from(replace(source, head=head, records=records)).warnings
        assert any("Leave out --pipeline" in each for each in warnings) is is_told, warnings
