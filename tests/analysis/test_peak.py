"""The peak with its uncertainty: its height, and its load level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import ArrayLike
from scipy import stats

from serverdyno.analysis.contrast import of_two
from serverdyno.analysis.curve import Throughput
from serverdyno.analysis.overload import retained
from serverdyno.analysis.peak import Peak, candidates, chosen, contrast, critical_value, of_runs, peak

MATRICES = arrays.arrays(
    np.float64, st.tuples(st.integers(2, 4), st.integers(1, 6)), elements=st.floats(100, 10_000)
)


def peak_of(throughput: ArrayLike) -> Peak:
    found = peak(np.asarray(throughput, dtype=np.float64))
    assert found is not None
    return found


def test_where_all_runs_agree_the_peak_is_the_highest_mean_at_one_level() -> None:
    found = peak_of([[100, 300, 200], [101, 306, 202], [99, 303, 198]])
    assert (found.index, found.highest_mean) == (1, 303)
    assert found.value == pytest.approx(303)
    assert found.candidates == (1,)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 303 < found.high


def test_with_one_level_the_interval_is_the_textbook_t_interval_of_the_geometric_kind() -> None:
    runs = np.array([1000.0, 1012, 990, 1005, 997, 1009])
    found = peak_of(runs[:, None])
    expected = stats.ttest_1samp(np.log(runs), 0).confidence_interval(0.95)
    assert found.low == pytest.approx(np.exp(expected.low), rel=1e-3)
    assert found.high == pytest.approx(np.exp(expected.high), rel=1e-3)


def test_two_levels_that_noise_mingles_are_both_candidates() -> None:
    found = peak_of([[100, 510, 500, 300], [100, 490, 505, 300], [100, 505, 495, 301]])
    assert found.candidates == (1, 2)
    assert found.value < found.highest_mean


def test_the_noise_of_levels_that_can_not_be_told_from_the_peak_counts_twice() -> None:
    base = np.array([[100.0, 98, 50], [97, 100, 51], [99, 101, 49], [101, 99, 50]])
    other = base[::-1] * 1.1
    read = np.log(of_runs(base)), np.log(of_runs(other))
    assert list(chosen(base)) == [1, 0, 1, 0]
    rest = np.log(base[:, :2])
    rest = rest - rest.mean(axis=1, keepdims=True) - rest.mean(axis=0) + rest.mean()
    of_a_level = (rest**2).sum() / 3
    alone = of_two(read[0], read[1], (1, 2, 3, 4))
    found = contrast(base, other, (1, 2, 3, 4))
    assert found.variance == pytest.approx(alone.variance + 2 * of_a_level / 4)
    assert found.added == pytest.approx(2 * of_a_level / 4)
    assert found.estimate == pytest.approx(read[1].mean() - read[0].mean())


def test_where_one_level_alone_can_be_the_peak_nothing_was_chosen() -> None:
    base = np.array([[50.0, 100], [55, 101], [45, 99]])
    assert contrast(base, base * 1.1, None).added == 0


def test_one_run_has_a_peak_and_says_nothing_of_its_uncertainty() -> None:
    found = peak_of([[1, 3, 2]])
    assert (found.index, found.highest_mean) == (1, 3)
    assert (found.value, found.low, found.candidates) == (3, None, None)


def test_levels_that_no_run_finished_keep_their_place_and_runs_that_lack_one_are_left_out() -> None:
    found = peak_of([[10, np.nan, 30, 20], [10, np.nan, 31, 20], [99, np.nan, np.nan, 20]])
    assert (found.index, found.repetitions) == (2, 2)
    assert peak(np.full((2, 3), np.nan)) is None


def test_a_level_without_throughput_leaves_the_candidates_unknown() -> None:
    assert peak_of([[0, 10], [0, 11], [0, 12]]).candidates is None


@pytest.mark.parametrize(
    ("others", "degrees", "published"),
    [
        (1, 10, 1.81),
        (2, 10, 2.15),
        (3, 10, 2.34),
        (9, 10, 2.81),
        (2, 20, 2.03),
        (9, 20, 2.60),
        (5, 100_000, 2.23),
    ],
)
def test_the_critical_value_is_that_of_dunnetts_table_1a(others: int, degrees: int, published: float) -> None:
    assert critical_value(others, degrees) == pytest.approx(published, abs=0.0151)


@pytest.mark.parametrize(("others", "degrees"), [(3, 6), (15, 30)])
def test_the_critical_value_is_that_of_scipys_multivariate_t(others: int, degrees: int) -> None:
    shape = np.full((others, others), 0.5) + np.eye(others) / 2
    law = stats.multivariate_t(shape=shape, df=degrees, seed=1)
    inside = law.cdf(np.full(others, critical_value(others, degrees)), maxpts=20_000 * others)
    assert inside == pytest.approx(0.95, abs=0.003)


def test_of_1000_plateaus_each_of_eight_equal_levels_is_a_candidate_in_95_percent() -> None:
    random = np.random.default_rng(31)
    # All are equal, so that each may be called the true peak: the least favourable case, in which the bound is reached.
    included = np.zeros(8)
    for _ in range(1000):
        whole = random.normal(0, 0.1, (3, 1))
        included[candidates(1000 * np.exp(whole + random.normal(0, 0.03, (3, 8))))] += 1
    assert included.mean() / 1000 == pytest.approx(0.95, abs=0.01)


def test_a_level_five_standard_errors_below_the_peak_is_no_candidate() -> None:
    random = np.random.default_rng(37)
    shape = np.array([0.5, 1.0, 0.9])
    found = [candidates(1000 * shape * np.exp(random.normal(0, 0.02, (4, 3)))) for _ in range(100)]
    assert sum(each is not None and list(each) == [1] for each in found) >= 95


@settings(max_examples=25)
@given(MATRICES)
def test_the_estimate_is_never_above_the_highest_mean_and_the_peaks_level_is_a_candidate(
    matrix: Throughput,
) -> None:
    found = peak_of(matrix)
    assert found.value <= found.highest_mean * (1 + 1e-9)
    assert found.candidates is not None
    means = np.exp(np.log(matrix).mean(axis=0))
    assert int(means.argmax()) in found.candidates


@settings(max_examples=15)
@given(MATRICES, st.floats(0.01, 100))
def test_another_unit_changes_figures_and_no_judgement(matrix: Throughput, factor: float) -> None:
    found, scaled = peak_of(matrix), peak_of(matrix * factor)
    assert scaled.highest_mean == pytest.approx(found.highest_mean * factor)
    assert scaled.candidates == found.candidates


def test_the_share_kept_under_overload_has_an_interval_from_two_runs_on() -> None:
    runs = np.array([[100.0, 400, 300], [100, 404, 310], [100, 396, 290]])
    found = retained(runs)
    assert found is not None
    assert found.share == pytest.approx(0.75)
    expected = stats.ttest_1samp(runs[:, 2] / runs[:, 1], 0).confidence_interval(0.95)
    assert found.low == pytest.approx(expected.low, abs=0.003)
    assert found.high == pytest.approx(expected.high, abs=0.003)
    two = retained(runs[:2])
    assert two is not None and two.low is not None and found.low is not None
    assert two.low < found.low and two.repetitions == 2


def test_one_run_keeps_a_share_of_its_own_peak_and_an_unfinished_one_none() -> None:
    one = retained(np.array([[1.0, 4, 3]]))
    assert one is not None
    assert (one.share, one.low) == (0.75, None)
    assert retained(np.array([[1.0, 4, np.nan]])) is None
    assert retained(np.array([[5.0]])) is None
    assert retained(np.zeros((2, 3))) is None
