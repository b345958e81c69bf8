"""One configuration's curve: means, spread, peak, and the share kept at the highest load."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import ArrayLike

from serverdyno.analysis.curve import Throughput, near_peak_from, spread, summarise

RATES = st.floats(1, 1e6, allow_nan=False)
MATRICES = arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 8)), elements=RATES)


def test_a_worked_example_of_two_repetitions_over_four_levels() -> None:
    found = summarise(np.array([[100.0, 300, 500, 400], [110, 320, 480, 420]]))
    assert found is not None
    assert [point.mean for point in found.points if point] == [105, 310, 490, 410]
    assert (found.peak_level, found.peak.n, found.peak.minimum, found.peak.maximum) == (2, 2, 480, 500)
    assert found.peak.deviation == pytest.approx(200**0.5)
    assert found.overall_average.mean == pytest.approx(328.75)
    assert (found.overall_average.minimum, found.overall_average.maximum) == (325, 332.5)
    assert found.share_of_peak_kept == pytest.approx(410 / 490)
    assert not found.still_rising


def test_the_peak_is_of_the_mean_curve_and_not_of_the_luckiest_run() -> None:
    found = summarise(np.array([[900.0, 500], [100, 520]]))
    assert found is not None
    assert (found.peak_level, found.peak.mean) == (1, 510)


def test_a_curve_that_rises_to_its_last_level_says_so() -> None:
    found = summarise(np.array([[1.0, 2, 3]]))
    assert found is not None
    assert found.still_rising
    assert found.peak.deviation is None


@pytest.mark.parametrize(
    ("throughput", "rising"),
    [
        ([[100.0, 104.9]], False),
        ([[100.0, 105.0]], True),
        ([[100.0, 101.9], [100.0, 101.9]], False),
        ([[100.0, 102.0], [100.0, 102.0]], True),
        ([[90.0, 100.0], [110.0, 120.0]], False),
        ([[98.0, 108.0], [102.0, 112.0]], True),
        ([[98.0, 112.0], [np.nan, 113.0]], True),
        ([[80.0, 109.0], [120.0, 111.0]], False),
        ([[99.0, 90.0], [101.0, 130.0]], False),
        ([[100.0, 120.0, 110.0]], False),
    ],
)
def test_a_rise_to_the_last_level_counts_only_beyond_the_noise(throughput: ArrayLike, rising: bool) -> None:
    found = summarise(np.asarray(throughput, dtype=np.float64))
    assert found is not None
    assert found.still_rising is rising


def test_of_200_noisy_plateaus_of_five_levels_few_count_as_still_rising() -> None:
    random = np.random.default_rng(23)
    found = [summarise(1000 * (1 + random.normal(0, 0.05, (3, 5)))) for _ in range(200)]
    highest_last = sum(each.peak_level == 4 for each in found if each)
    assert highest_last >= 30
    assert sum(each.still_rising for each in found if each) <= 10


def test_one_level_is_no_curve() -> None:
    found = summarise(np.array([[5.0], [7.0]]))
    assert found is not None
    assert not found.still_rising
    assert found.share_of_peak_kept is None


def test_missing_levels_are_left_out_and_never_zero() -> None:
    found = summarise(np.array([[10.0, np.nan, np.nan], [20, 40, np.nan]]))
    assert found is not None
    assert found.points[2] is None
    assert found.points[1] is not None
    assert found.points[1].n == 1
    assert found.overall_average.mean == 27.5
    assert found.overall_average.n == 1
    assert found.share_of_peak_kept is None
    assert found.still_rising


def test_nothing_finished_is_no_summary() -> None:
    assert summarise(np.full((2, 3), np.nan)) is None
    assert spread([]) is None


def test_a_server_that_answers_nothing_keeps_no_share_of_nothing() -> None:
    found = summarise(np.zeros((2, 3)))
    assert found is not None
    assert found.peak.mean == 0
    assert found.share_of_peak_kept is None


@given(MATRICES)
def test_the_spread_holds_the_mean_and_the_peak_holds_every_mean(matrix: Throughput) -> None:
    found = summarise(matrix)
    assert found is not None
    for point in found.points:
        assert point is not None
        assert point.minimum <= point.mean * (1 + 1e-9)
        assert point.mean <= point.maximum * (1 + 1e-9)
        assert point.mean <= found.peak.mean
    assert found.overall_average.mean <= found.peak.mean * (1 + 1e-9)


@given(MATRICES, st.randoms())
def test_the_order_of_repetitions_changes_nothing(matrix: Throughput, random: Random) -> None:
    rows = list(range(len(matrix)))
    random.shuffle(rows)
    first, second = summarise(matrix), summarise(matrix[rows])
    assert first is not None
    assert second is not None
    assert first.peak.mean == pytest.approx(second.peak.mean)
    assert first.overall_average.mean == pytest.approx(second.overall_average.mean)


def test_95_percent_of_the_peak_is_reached_at_the_first_level_that_has_them() -> None:
    assert near_peak_from([10, 94, 96, np.nan, 100, 95]) == 2
    assert near_peak_from([100, 20]) == 0
    assert near_peak_from([0, 0]) is None
    assert near_peak_from([np.nan]) is None
