"""Marks: which figures the generator may have set."""

import pytest

from serverdyno.analysis import trust
from serverdyno.analysis.trust import Mark


@pytest.mark.parametrize(
    ("share", "cpu_share", "marks"),
    [
        (0.799, 0.949, set()),
        (0.8, 0.5, {Mark.GENERATOR_LIMITED}),
        (0.1, 0.95, {Mark.GENERATOR_SATURATED}),
        (None, 0.5, {Mark.CEILING_UNKNOWN}),
        (1.02, 1.0, {Mark.GENERATOR_LIMITED, Mark.GENERATOR_SATURATED}),
    ],
)
def test_a_mix_is_marked_from_80_percent_of_the_ceiling_and_95_percent_of_the_cpu(
    share: float | None, cpu_share: float, marks: set[Mark]
) -> None:
    assert trust.generator_marks(share, cpu_share) == marks


@pytest.mark.parametrize(
    ("attempts_s", "bound", "marks"),
    [(89.9, 100.0, set()), (90.0, 100.0, {Mark.RATE_BOUND}), (1e6, None, set())],
)
def test_a_mix_is_rate_bound_from_90_percent_of_the_rate_that_its_plan_allows(
    attempts_s: float, bound: float | None, marks: set[Mark]
) -> None:
    assert trust.rate_marks(attempts_s, bound) == marks


@pytest.mark.parametrize(
    ("others_cpus", "steal_cpus", "marks"),
    [
        (0.10, 0.10, set()),
        (0.11, None, {Mark.NOISY}),
        (None, 0.11, {Mark.NOISY}),
        (-0.02, 0.0, set()),
        (None, None, set()),
    ],
)
def test_a_mix_is_noisy_where_others_or_the_hypervisor_took_more_than_10_percent_of_a_cpu(
    others_cpus: float | None, steal_cpus: float | None, marks: set[Mark]
) -> None:
    assert trust.machine_marks(others_cpus, steal_cpus) == marks


def test_an_unknown_ceiling_gives_no_share() -> None:
    assert trust.share_of_ceiling(100, None) is None
    assert trust.share_of_ceiling(100, 0) is None
    assert trust.share_of_ceiling(100, 400) == 0.25


def test_the_generators_cpu_share_is_of_all_its_threads() -> None:
    assert trust.generator_cpu_share(cpu_s=6, window_s=4, threads=2) == 0.75


@pytest.mark.parametrize(
    ("samples", "quantile", "known"), [(9_999, 0.999, False), (10_000, 0.999, True), (20, 0.5, True)]
)
def test_a_percentile_needs_ten_samples_beyond_it(samples: int, quantile: float, known: bool) -> None:
    assert trust.percentile_is_known(samples, quantile) is known


def test_every_mark_has_a_letter_of_its_own() -> None:
    assert len(set(trust.LETTERS.values())) == len(trust.LETTERS) == len(Mark)
