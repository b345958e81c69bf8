"""Marks: which figures the generator, the plan or others may have set, and what limited a mix."""

import pytest

from serverdyno.analysis import trust
from serverdyno.analysis.trust import Limit, Mark


@pytest.mark.parametrize(
    ("waiting", "server_share", "hidden"),
    [
        (0.0, 0.5, 0.0),
        (0.2, 0.5, 0.25),  # without its wait of a fifth a round trip is a quarter more frequent
        (0.2, None, 0.25),
        (0.5, 0.8, 0.25),  # and the server's CPUs allow no more
        (0.9, 1.02, 0.0),  # a busy server hides nothing, whatever waits in the generator
        (1.0, 0.0, 99.0),
        (None, 0.5, None),
    ],
)
def test_the_hidden_speed_is_bound_by_the_generators_wait_and_by_the_servers_cpus(
    waiting: float | None, server_share: float | None, hidden: float | None
) -> None:
    found = trust.hidden_speed(waiting, server_share)
    assert found == (None if hidden is None else pytest.approx(hidden))


def test_a_mix_is_generator_limited_from_a_hidden_speed_of_10_percent() -> None:
    marked = [trust.generator_marks(hidden) for hidden in (None, 0.0, 0.1, 0.101)]
    assert marked == [frozenset(), frozenset(), frozenset(), {Mark.GENERATOR_LIMITED}]


def test_the_share_of_round_trips_is_of_all_that_were_under_way() -> None:
    assert trust.waiting_share(3.0, 12.0) == 0.25
    assert trust.waiting_share(13.0, 12.0) == 1.0
    assert trust.waiting_share(None, 12.0) is trust.waiting_share(1.0, None) is None
    assert trust.waiting_share(0.0, 0.0) is None


@pytest.mark.parametrize(
    "case",
    [
        ({Mark.RATE_BOUND}, 0.01, 0.3, 0.9, False, (Limit.RATE,)),
        ({Mark.GENERATOR_LIMITED}, 0.3, 0.5, 0.0, False, (Limit.GENERATOR,)),
        ({Mark.NOISY}, 0.01, 0.85, 0.0, False, (Limit.SERVER,)),
        (set(), 0.01, 0.3, 0.11, True, (Limit.DISK,)),
        (set(), 0.01, 0.3, 0.10, True, (Limit.ROUND_TRIP,)),
        (set(), 0.01, 0.3, None, False, (Limit.UNSEEN,)),
        (set(), 0.01, 0.3, None, None, (Limit.UNSEEN,)),
        (set(), 0.05, 0.3, 0.5, True, ()),  # the generator has a part in it
        (set(), 0.01, None, 0.5, True, ()),
        (set(), None, 0.3, 0.5, True, ()),
    ],
)
def test_what_limited_a_mix_is_said_as_far_as_it_can_be_seen(
    case: tuple[set[Mark], float | None, float | None, float | None, bool | None, tuple[Limit, ...]],
) -> None:
    marks, waiting, server_share, io_wait_share, rises, limits = case
    found = trust.seen_limits(frozenset(marks), waiting, server_share, io_wait_share, rises=rises)
    assert found == limits


@pytest.mark.parametrize(
    ("attempts_s", "bound", "marks"),
    [(89.9, 100.0, set()), (90.0, 100.0, {Mark.RATE_BOUND}), (1e6, None, set())],
)
def test_a_mix_is_rate_bound_from_90_percent_of_the_rate_that_its_plan_allows(
    attempts_s: float, bound: float | None, marks: set[Mark]
) -> None:
    assert trust.rate_marks(attempts_s, bound) == marks


@pytest.mark.parametrize(
    ("taken_cpus", "run_delay", "marks"),
    [
        (0.04, 0.02, set()),
        (0.041, None, {Mark.NOISY}),
        (None, 0.021, {Mark.NOISY}),
        (0.0, 0.0, set()),
        (None, None, set()),
    ],
)
def test_a_mix_is_noisy_where_2_percent_of_two_cpus_or_of_the_generators_time_were_taken(
    taken_cpus: float | None, run_delay: float | None, marks: set[Mark]
) -> None:
    assert trust.machine_marks(trust.taken_share(taken_cpus, 2), run_delay) == marks


@pytest.mark.parametrize(
    ("samples", "quantile", "known"), [(9_999, 0.999, False), (10_000, 0.999, True), (20, 0.5, True)]
)
def test_a_percentile_needs_ten_samples_beyond_it(samples: int, quantile: float, known: bool) -> None:
    assert trust.percentile_is_known(samples, quantile) is known


def test_every_mark_has_a_letter_of_its_own() -> None:
    assert len(set(trust.LETTERS.values())) == len(trust.LETTERS) == len(Mark)
