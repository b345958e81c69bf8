"""Thresholds for remarks in a report, each tested just below and just above."""

from __future__ import annotations

import pytest

from serverdyno.analysis import oddities


@pytest.mark.parametrize(
    ("served", "answered", "failed", "agree"),
    [
        (1000, 1000, 0, True),
        (999, 1000, 0, True),
        (998, 1000, 0, False),
        (1010, 1000, 10, True),
        (1012, 1000, 10, False),
    ],
)
def test_a_servers_count_may_miss_a_thousandth_and_hold_what_failed(
    served: int, answered: int, failed: int, agree: bool
) -> None:
    assert oddities.counts_agree(served, answered, failed) is agree


def test_repetitions_further_apart_than_a_fifth_of_their_mean_are_told() -> None:
    assert oddities.wide_range(90, 110, 100) is None
    assert oddities.wide_range(89, 111, 100) == pytest.approx(0.22)
    assert oddities.wide_range(0, 0, 0) is None


def test_a_tail_of_a_hundred_medians_is_told() -> None:
    assert oddities.long_tail(1.0, 99.0) is None
    assert oddities.long_tail(1.0, 100.0) == 100
    assert oddities.long_tail(None, 100.0) is None
    assert oddities.long_tail(1.0, None) is None


def test_only_a_server_that_is_known_to_be_idle_is_called_so() -> None:
    assert oddities.both_idle(0.4, 0.4)
    assert not oddities.both_idle(0.4, 0.6)
    assert not oddities.both_idle(0.6, 0.4)
    assert not oddities.both_idle(None, 0.4)


def test_a_level_that_decides_the_average_is_found_among_three_or_more() -> None:
    assert oddities.decisive([1, 1, 8]) == 2
    assert oddities.decisive([3, 3, 4]) is None
    assert oddities.decisive([1, 9]) is None
    assert oddities.decisive([0, 0, 0]) is None


def test_response_times_that_are_mostly_our_own_are_called_so() -> None:
    assert oddities.mostly_own_queue(5.0, 10.0)
    assert not oddities.mostly_own_queue(4.0, 10.0)
    assert not oddities.mostly_own_queue(None, 10.0)


def test_shares_of_resumed_sessions_may_differ_by_five_percent() -> None:
    assert not oddities.resumption_differs([0.50, 0.54])
    assert oddities.resumption_differs([0.50, 0.56])
    assert not oddities.resumption_differs([])
