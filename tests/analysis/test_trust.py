"""Marks: which figures the generator, the plan or other programs may have limited, and what limited a load level."""

import heapq
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serverdyno.analysis import trust
from serverdyno.analysis.trust import Limit, Mark


@pytest.mark.parametrize(
    ("waiting", "server_share", "hidden"),
    [
        (0.0, 0.5, 0.0),
        (0.2, 0.5, 0.25),  # without waiting for a fifth of each round trip, a quarter more would fit
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


def test_a_level_is_generator_limited_from_a_hidden_speed_of_10_percent() -> None:
    marked = [trust.generator_marks(hidden) for hidden in (None, 0.0, 0.1, 0.101)]
    assert marked == [frozenset(), frozenset(), frozenset(), {Mark.GENERATOR_LIMITED}]


def test_ready_work_and_run_delay_add_up_to_the_generators_share_of_the_clients_time() -> None:
    assert trust.waiting_share(3.0, 12.0, 0.0) == 0.25
    assert trust.waiting_share(3.0, 12.0, 0.5) == 0.75
    assert trust.waiting_share(13.0, 12.0, 0.0) == 1.0


def test_where_a_part_of_the_generators_share_is_not_known_nothing_is() -> None:
    assert trust.waiting_share(None, 12.0, 0.0) is trust.waiting_share(1.0, None, 0.0) is None
    assert trust.waiting_share(1.0, 12.0, None) is trust.waiting_share(0.0, 0.0, 0.0) is None


def test_a_hidden_speed_that_run_delay_raises_by_more_than_10_percent_is_loose() -> None:
    assert [trust.is_loose(hidden, 0.02) for hidden in (0.02, 0.12, 0.13)] == [False, False, True]
    assert not trust.is_loose(None, None)


WINDOW_MS = 10_000.0
"""Window of the simulated closed loops."""


def answered(clients: int, server_ms: float, held: Sequence[tuple[float, float]]) -> int:
    due = [server_ms] * clients
    count = 0
    while (now := heapq.heappop(due)) < WINDOW_MS:
        for begin, end in held:
            if begin <= now < end:
                now = end
        if now < WINDOW_MS:
            count += 1
        heapq.heappush(due, now + server_ms)
    return count


@given(
    clients=st.integers(1, 16),
    server_ms=st.sampled_from([1.0, 5.0, 20.0, 100.0]),
    spans=st.lists(st.tuples(st.floats(1, 400), st.floats(0.1, 60)), max_size=40),
)
def test_a_server_is_never_faster_than_run_delay_bounds_it(
    clients: int, server_ms: float, spans: list[tuple[float, float]]
) -> None:
    held, now = [], 0.0
    for pause, length in spans:
        if now + pause + length < WINDOW_MS:
            held.append((now + pause, now + pause + length))
            now += pause + length
    shown, true = answered(clients, server_ms, held), answered(clients, server_ms, [])
    run_delay = sum(end - begin for begin, end in held) / WINDOW_MS
    hidden = trust.hidden_speed(trust.waiting_share(0.0, clients * WINDOW_MS, run_delay), None)
    assert hidden is not None
    # An operation of each client may end just after the window.
    assert true <= (shown + clients) * (1 + hidden)
    if not trust.is_loose(hidden, 0.0):
        assert shown * (1 + hidden) <= 1.10 * (true + clients)


@pytest.mark.parametrize(
    "case",
    [
        ({Mark.RATE_BOUND}, 0.01, 0.3, 0.9, False, (Limit.RATE,)),
        ({Mark.LINK_BOUND}, 0.3, 0.9, 0.0, False, (Limit.LINK, Limit.SERVER)),
        ({Mark.GENERATOR_LIMITED}, 0.3, 0.5, 0.0, False, (Limit.GENERATOR,)),
        ({Mark.NOISY}, 0.01, 0.85, 0.0, False, (Limit.SERVER,)),
        (set(), 0.01, 0.3, 0.11, True, (Limit.DISK,)),
        (set(), 0.01, 0.3, 0.10, True, (Limit.ROUND_TRIP,)),
        (set(), 0.01, 0.3, None, False, (Limit.UNSEEN,)),
        (set(), 0.01, 0.3, None, None, (Limit.UNSEEN,)),
        (set(), 0.05, 0.3, 0.5, True, ()),  # the generator contributes
        (set(), 0.01, None, 0.5, True, (Limit.ROUND_TRIP,)),
        (set(), 0.01, None, 0.5, False, ()),  # the server's CPUs may be full
        (set(), 0.01, None, 0.5, None, ()),
        (set(), None, 0.3, 0.5, True, ()),
    ],
)
def test_what_limited_a_level_is_said_as_far_as_it_can_be_seen(
    case: tuple[set[Mark], float | None, float | None, float | None, bool | None, tuple[Limit, ...]],
) -> None:
    marks, waiting, server_share, io_wait_share, rises, limits = case
    marked = trust.marked_limits(frozenset(marks), 0.5, 0.0)
    assert trust.seen_limits(marked, waiting, server_share, io_wait_share, rises=rises) == limits


@pytest.mark.parametrize(
    ("cpu_share", "run_delay", "server_share", "limits"),
    [
        (0.05, 0.0, 0.3, (Limit.GENERATOR,)),
        (0.05, 0.3, 0.3, (Limit.GENERATOR,)),
        (0.049, 0.3, 0.3, (Limit.CPU_WAIT,)),
        (0.049, 0.3, 0.9, (Limit.SERVER, Limit.CPU_WAIT)),
        (0.049, 0.0, 0.3, ()),  # the generator was stopped, or its timers were late
        (0.049, None, 0.9, (Limit.SERVER,)),
    ],
)
def test_a_generator_that_hardly_works_is_not_the_limit(
    cpu_share: float, run_delay: float | None, server_share: float, limits: tuple[Limit, ...]
) -> None:
    marked = trust.marked_limits(frozenset({Mark.GENERATOR_LIMITED}), cpu_share, run_delay)
    assert trust.seen_limits(marked, 0.3, server_share, None, rises=None) == limits


@pytest.mark.parametrize(
    ("attempts_s", "bound", "marks"),
    [(89.9, 100.0, set()), (90.0, 100.0, {Mark.RATE_BOUND}), (1e6, None, set())],
)
def test_a_level_is_rate_bound_from_90_percent_of_the_rate_that_its_plan_allows(
    attempts_s: float, bound: float | None, marks: set[Mark]
) -> None:
    assert trust.rate_marks(attempts_s, bound) == marks


@pytest.mark.parametrize(("requests", "is_bound"), [(1, False), (2, True)])
def test_a_short_window_may_miss_one_request_of_clients_that_wait_for_their_turn(
    requests: int, is_bound: bool
) -> None:
    # At 1 request/s, a window of 2.4 s has 2 or 3 requests.
    marks = trust.rate_marks(requests / 2.4, 1.0, idle_window_s=2.4)
    assert (Mark.RATE_BOUND in marks) == is_bound
    assert not trust.rate_marks(requests / 2.4, 1.0)


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
def test_a_level_is_noisy_where_2_percent_of_two_cpus_or_of_the_generators_time_were_taken(
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
