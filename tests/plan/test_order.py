"""The order of runs: everything once, and no configuration favoured by its position."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serverdyno.plan.model import Configuration, Order
from serverdyno.plan.order import order

COUNTS = st.integers(min_value=1, max_value=12)
POLICIES: st.SearchStrategy[Order] = st.sampled_from(get_args(Order))
SEEDS = st.integers(min_value=0, max_value=2**63 - 1)


def named(*names: str) -> list[Configuration]:
    return [Configuration(name, "reference", {}, (), None, None) for name in names]


def numbered(count: int) -> list[Configuration]:
    return named(*(f"c{number}" for number in range(count)))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("interleaved", "a1 b1 c1 c2 b2 a2 a3 b3 c3"), ("sequential", "a1 a2 a3 b1 b2 b3 c1 c2 c3")],
)
def test_the_order_reads_as_documented(policy: Order, expected: str) -> None:
    keys = order(named("a", "b", "c"), 3, policy, seed=1)
    assert " ".join(f"{key.configuration}{key.repetition}" for key in keys) == expected


@given(COUNTS, COUNTS, POLICIES, SEEDS)
def test_every_configuration_runs_exactly_once_in_every_repetition(
    count: int, repetitions: int, policy: Order, seed: int
) -> None:
    keys = order(numbered(count), repetitions, policy, seed)
    times = Counter((key.configuration, key.repetition) for key in keys)
    assert set(times.values()) == {1}
    assert len(times) == count * repetitions
    assert [key.number for key in keys] == list(range(1, len(keys) + 1))


@given(COUNTS, COUNTS)
def test_interleaved_gives_every_configuration_the_same_mean_place_over_even_repetitions(
    count: int, half: int
) -> None:
    keys = order(numbered(count), 2 * half, "interleaved", seed=0)
    places = Counter[str]()
    for key in keys:
        places[key.configuration] += key.number
    assert len(set(places.values())) == 1


@given(COUNTS, COUNTS, SEEDS)
def test_random_shuffles_only_within_a_repetition_and_alike_for_the_same_seed(
    count: int, repetitions: int, seed: int
) -> None:
    keys = order(numbered(count), repetitions, "random", seed)
    assert [key.repetition for key in keys] == sorted(key.repetition for key in keys)
    assert keys == order(numbered(count), repetitions, "random", seed)


def test_random_depends_on_the_seed_and_differs_between_repetitions() -> None:
    first = [key.configuration for key in order(numbered(12), 2, "random", seed=1)]
    second = [key.configuration for key in order(numbered(12), 2, "random", seed=2)]
    assert first != second
    assert first[:12] != first[12:]
