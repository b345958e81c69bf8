"""A verdict carries its caveats: an influence on every run of one side is not a difference between servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from serverdyno.analysis.comparability import ObstacleKind, explained_share, other_work
from serverdyno.analysis.improvement import Improvement, Metric, Verdict
from serverdyno.analysis.slowdown import Slowdown, slowdown
from serverdyno.published.audit import ClaimVerdict, audit_claims
from serverdyno.report.build import build_from
from serverdyno.report.model import Report
from serverdyno.store.records import LevelRecord
from support import synthetic_files as files
from support.report_claims import claims, tables
from support.synthetic_experiment import Shape, experiment, scaled, with_error

EQUAL = {"a": Shape(2000, fall=0.5), "b": Shape(2000, fall=0.5)}
Change = Callable[[LevelRecord], LevelRecord]


def of_b(change: Change, shapes: dict[str, Shape] | None = None) -> Report:
    """Return a report on two servers, with each record of the second passed through `change`."""
    source = experiment(shapes or EQUAL)
    records = [change(record) if record.configuration == "b" else record for record in source.records]
    return build_from(replace(source, records=records))


def verdicts(report: Report) -> dict[Metric, Verdict]:
    [comparison] = report.comparisons
    return {found.figure: found.verdict for found in comparison.improvements}


def improvements(report: Report) -> list[Improvement]:
    return [found for comparison in report.comparisons for found in comparison.improvements]


def kinds(report: Report, figure: Metric) -> list[ObstacleKind]:
    [comparison] = report.comparisons
    return [obstacle.kind for obstacle in comparison.obstacles.get(figure, ())]


def comparison_words(report: Report) -> str:
    [found] = [finding.claim for finding in report.findings if finding.topic == "Comparison"]
    return found


def throws_clients_out(record: LevelRecord) -> LevelRecord:
    """Let most clients leave beyond the peak, so that the others are served quickly."""
    if record.clients <= 16:
        return record
    return with_error(scaled(record, 1.6), "server", record.clients // 2, left=record.clients // 2)


def test_a_server_that_throws_out_its_clients_is_not_called_faster_for_it() -> None:
    report = of_b(throws_clients_out)
    assert verdicts(report)[Metric.OVERALL_AVERAGE] is Verdict.NOT_COMPARABLE
    assert ObstacleKind.CLIENTS_LEFT in kinds(report, Metric.OVERALL_AVERAGE)
    said = comparison_words(report)
    assert "b and a are not comparable in" in said
    assert "of the clients of b left before the end of a load level" in said
    assert "is faster" not in said


def taken_by_a_neighbour(record: LevelRecord) -> LevelRecord:
    return replace(scaled(record, 0.71), others_cpu_s=1.0 * record.window_s)


def test_a_neighbour_on_one_side_is_not_called_a_slower_server() -> None:
    report = of_b(taken_by_a_neighbour)
    assert set(verdicts(report).values()) == {Verdict.NOT_COMPARABLE}
    assert kinds(report, Metric.PEAK) == [ObstacleKind.NOISE]
    assert "other programs took all CPUs that b needed" in comparison_words(report)
    assert "29" in comparison_words(report)  # what was measured is still reported


def test_a_server_that_is_faster_in_spite_of_a_neighbour_is_faster() -> None:
    report = of_b(
        lambda record: replace(record, others_cpu_s=record.window_s), {"a": Shape(2000), "b": Shape(3000)}
    )
    assert set(verdicts(report).values()) == {Verdict.FASTER}


def test_a_neighbour_explains_no_more_than_he_took() -> None:
    report = of_b(
        lambda record: replace(record, others_cpu_s=0.2 * record.window_s),
        {"a": Shape(3000), "b": Shape(2000)},
    )
    assert set(verdicts(report).values()) == {Verdict.SLOWER}
    assert explained_share(0.2, 1) == pytest.approx(0.25)


def test_a_neighbour_of_both_is_marked_and_weighs_on_neither() -> None:
    source = experiment({"a": Shape(2000), "b": Shape(3000)})
    records = [replace(record, others_cpu_s=record.window_s) for record in source.records]
    report = build_from(replace(source, records=records))
    assert set(verdicts(report).values()) == {Verdict.FASTER}


@pytest.mark.parametrize(("failed", "verdict"), [(2, Verdict.FASTER), (2000, Verdict.NOT_COMPARABLE)])
def test_few_errors_are_tolerated_and_many_are_not(failed: int, verdict: Verdict) -> None:
    report = of_b(lambda record: with_error(record, "server", failed), {"a": Shape(2000), "b": Shape(3000)})
    assert set(verdicts(report).values()) == {verdict}


def test_servers_that_did_different_things_with_a_flush_are_not_compared_in_speed() -> None:
    shapes = {"strict": files.FileShape(100), "lax": files.FileShape(300, syncs_a_flush=0.0)}
    report = build_from(files.experiment(shapes))
    assert set(verdicts(report).values()) == {Verdict.NOT_COMPARABLE}
    assert kinds(report, Metric.PEAK) == [ObstacleKind.DURABILITY]
    assert "the two differ in durability. Measured: in overall average +" in comparison_words(report)


@pytest.mark.parametrize(
    ("speed", "said"), [(101, "No winner: the two treat a flush differently"), (130, "lax moved 3")]
)
def test_the_unsafe_one_is_named_faster_only_where_its_verdict_would_say_so(speed: float, said: str) -> None:
    shapes = {"strict": files.FileShape(100), "lax": files.FileShape(speed, syncs_a_flush=0.0)}
    report = build_from(files.experiment(shapes))
    assert report.answer.verdict.startswith(said)


def test_servers_that_were_asked_for_other_operations_are_not_comparable() -> None:
    def small_ones(record: LevelRecord) -> LevelRecord:
        first, *rest = record.by_operation
        moved = replace(first, count=first.count + sum(row.count for row in rest))
        return replace(record, by_operation=[moved, *(replace(row, count=0) for row in rest)])

    report = of_b(small_ones)
    assert kinds(report, Metric.PEAK) == [ObstacleKind.OTHER_WORK]


def test_two_draws_of_one_mixture_are_the_same_work() -> None:
    assert other_work({"a": 480, "b": 520}, {"a": 520, "b": 480}) == 0
    assert other_work({"a": 48_000, "b": 52_000}, {"a": 52_000, "b": 48_000}) == pytest.approx(0.04)
    assert other_work({"a": 480, "b": 520}, {"a": 52_000, "b": 48_000}) == 0  # the smaller draw decides
    assert other_work({}, {"a": 10}) == 0


@pytest.mark.parametrize(
    ("shapes", "minimum", "repetitions", "expected"),
    [
        ({"a": Shape(2000), "b": Shape(1500)}, 0.0, 3, Slowdown.SLOWER),
        ({"a": Shape(2000), "b": Shape(3000)}, 0.0, 3, Slowdown.NONE),
        ({"a": Shape(2000, noise=0.001), "b": Shape(2000, noise=0.001)}, 0.0, 5, Slowdown.NONE),
        ({"a": Shape(2000, noise=0.05), "b": Shape(2000, noise=0.05)}, 0.0, 3, Slowdown.CANT_TELL),
        ({"a": Shape(2000, noise=0.05), "b": Shape(2000, noise=0.05)}, 40.0, 3, Slowdown.NONE),
        ({"a": Shape(2000), "b": Shape(3000)}, 0.0, 1, Slowdown.CANT_TELL),
    ],
)
def test_nothing_is_slower_only_where_a_slowdown_is_ruled_out(
    shapes: dict[str, Shape], minimum: float, repetitions: int, expected: Slowdown
) -> None:
    source = experiment(shapes, repetitions=repetitions)
    plan = source.head.plan.model_copy(update={"minimum_effect_percent": minimum})
    report = build_from(replace(source, head=source.head.model_copy(update={"plan": plan})))
    assert slowdown(improvements(report)) is expected


def test_what_is_not_comparable_is_not_told_to_be_no_slower() -> None:
    assert slowdown(improvements(of_b(taken_by_a_neighbour))) is Slowdown.CANT_TELL
    assert slowdown(()) is Slowdown.CANT_TELL


def with_one_leaver(record: LevelRecord) -> LevelRecord:
    """Let one client of 16 leave one level in one of three runs: 2 % of the clients of that level."""
    lost = record.clients == 16 and record.repetition == 2
    return with_error(record, "server", 1, left=1) if lost else record


@pytest.mark.parametrize(
    ("rate", "verdict"), [(3000, Verdict.FASTER), (2050, Verdict.NOT_COMPARABLE), (1500, Verdict.SLOWER)]
)
def test_a_single_leaver_voids_only_what_it_can_explain(rate: float, verdict: Verdict) -> None:
    shapes = {"a": Shape(2000, noise=0.001), "b": Shape(rate, noise=0.001)}
    report = of_b(lambda record: with_one_leaver(record) if rate != 2050 else half_leave(record), shapes)
    assert verdicts(report)[Metric.OVERALL_AVERAGE] is verdict


def half_leave(record: LevelRecord) -> LevelRecord:
    """Let one client of 16 leave in each run of one level: 6 % of them, which is more than the difference."""
    return with_error(record, "server", 1, left=1) if record.clients == 16 else record


def test_a_small_difference_is_claimed_and_said_to_be_within_what_equal_servers_may_differ_by() -> None:
    report = of_b(lambda record: record, {"a": Shape(2000, noise=0.001), "b": Shape(2030, noise=0.001)})
    assert verdicts(report)[Metric.OVERALL_AVERAGE] is Verdict.FASTER
    assert "Identical servers can differ consistently by up to 2" in report.answer.sure
    larger = of_b(lambda record: record, {"a": Shape(2000, noise=0.001), "b": Shape(2100, noise=0.001)})
    assert "Identical servers" not in larger.answer.sure


def busy_neighbour(record: LevelRecord) -> LevelRecord:
    """Let others use 0.06 CPUs below the peak and 0.02 at the peak, while the server needs almost no CPU."""
    taken = 0.02 if record.clients == 16 else 0.06
    return replace(scaled(record, 0.97), others_cpu_s=taken * record.window_s)


@pytest.mark.parametrize(("cpu_us", "verdict"), [(5.0, Verdict.SLOWER), (480.0, Verdict.NOT_COMPARABLE)])
def test_a_neighbour_voids_average_and_peak_by_what_he_can_have_done_to_either(
    cpu_us: float, verdict: Verdict
) -> None:
    # With 0.06 CPUs of others, a waiting server once had no verdict on its average, but "slower" on its peak.
    shape = Shape(2000, noise=0.001, server_cpu_us=cpu_us)
    report = of_b(busy_neighbour, {"a": shape, "b": shape})
    assert verdicts(report)[Metric.OVERALL_AVERAGE] is verdict
    assert verdicts(report)[Metric.PEAK] is Verdict.SLOWER


def at_load(change: Change, of: str, clients: int) -> Change:
    """Apply `change` only to the records of one configuration at one load level."""
    return lambda record: (
        change(record) if (record.configuration, record.clients) == (of, clients) else record
    )


def waits_for_the_generator(record: LevelRecord) -> LevelRecord:
    """Give the generator 37.5 % of each round trip, so the server may be up to 60 % faster than shown."""
    assert record.outstanding_s is not None
    return replace(record, ready_work_s=0.375 * record.outstanding_s)


def half_of_them_leave(record: LevelRecord) -> LevelRecord:
    return with_error(record, "server", record.clients // 2, left=record.clients // 2)


def with_changes(*changes: Change, rate: float = 2600) -> Report:
    """Return a report on b, 30 % faster than a unless `rate` differs, with records passed through `changes`."""
    source = experiment({"a": Shape(2000, fall=0.5), "b": Shape(rate, fall=0.5)})
    records = source.records
    for change in changes:
        records = [change(record) for record in records]
    return build_from(replace(source, records=records))


def test_at_equal_load_nobody_is_ranked_by_what_the_generator_hides_or_by_clients_that_left() -> None:
    said = with_changes().answer.gaps
    assert "not comparable" not in said and "with 16 clients" in said and "with 32 clients" in said
    said = with_changes(
        at_load(waits_for_the_generator, "a", 16), at_load(half_of_them_leave, "b", 32)
    ).answer.gaps
    proven, _, barred = said.partition("; not comparable with ")
    assert proven.startswith("b over a: +") and "with 1 client" in proven
    assert "16 clients" not in proven and "32 clients" not in proven
    assert barred == "16 clients (limited by the generator) and 32 clients (clients left)."


def test_at_equal_load_a_gap_beyond_what_is_hidden_is_proven() -> None:
    said = with_changes(at_load(waits_for_the_generator, "a", 16), rate=4000).answer.gaps
    assert "% with 16 clients" in said and "not comparable" not in said


@pytest.mark.parametrize(("rate", "words"), [(2600, "at least +"), (1400, "at most -")])
def test_at_equal_load_a_gap_is_a_bound_where_the_faster_alone_was_held_back(rate: float, words: str) -> None:
    faster = "b" if rate > 2000 else "a"
    said = with_changes(at_load(waits_for_the_generator, faster, 16), rate=rate).answer.gaps
    [at_16] = [part for part in said.removesuffix(".").split(", ") if part.endswith("with 16 clients")]
    assert at_16.replace("\N{MINUS SIGN}", "-").startswith(words)
    assert said.count(words[:7]) == 1


def test_at_equal_load_servers_that_treat_a_flush_differently_have_no_gap() -> None:
    shapes = {"strict": files.FileShape(100), "lax": files.FileShape(300, syncs_a_flush=0.0)}
    said = build_from(files.experiment(shapes)).answer.gaps
    assert said == "lax against strict: not comparable with 1 to 16 clients (durability)."


def odd_in(repetition: int, others_cpus: float) -> Report:
    """Return a report on b, which is 10 % faster, except for one repetition at 70 % of its speed."""

    def change(record: LevelRecord) -> LevelRecord:
        if record.repetition != repetition:
            return record
        return replace(scaled(record, 0.7), others_cpu_s=others_cpus * record.window_s)

    source = experiment({"a": Shape(2000), "b": Shape(2200)}, repetitions=6)
    records = [change(record) if record.configuration == "b" else record for record in source.records]
    return build_from(replace(source, records=records))


@pytest.mark.parametrize(
    ("others_cpus", "reason"),
    [
        (
            0.4,
            "Other programs and the hypervisor used 0.41 CPUs during this run; in the other repetitions 0.01 (median).",
        ),
        (0.01, "No measurement on the host explains this."),
    ],
)
def test_an_odd_repetition_is_left_out_of_verdicts_and_said_with_what_happened_on_the_host(
    others_cpus: float, reason: str
) -> None:
    report = odd_in(4, others_cpus)
    assert set(verdicts(report).values()) == {Verdict.FASTER}
    [found] = [finding.claim for finding in report.findings if finding.topic == "Outlying repetition"]
    assert found.startswith("Repetition 4 of b is an outlier (overall average \N{MINUS SIGN}3")
    assert "so comparisons exclude it." in found and found.endswith(reason)
    assert "Left out as an outlier: repetition 4 of b." in report.answer.sure


def test_the_claims_of_a_report_with_an_odd_repetition_follow_from_its_records() -> None:
    # An improvement without that repetition is not a ratio of the means, so the audit does not check it as one.
    report = odd_in(4, 0.01)
    audited = audit_claims(claims(report), tables(report.source.records), "own")
    assert audited and {row.verdict for row in audited} == {ClaimVerdict.FOLLOWS}
