"""Two configurations: the percent improvement, its interval, and the verdict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from serverdyno.analysis.curve import Throughput
from serverdyno.analysis.improvement import Metric, Runs, Verdict, improvement, percent_improvement

SHAPE = np.array([0.3, 0.6, 1.0, 0.95, 0.9])
RATES = arrays.arrays(np.float64, (4, 5), elements=st.floats(100, 10_000))


def runs(throughput: ArrayLike) -> Runs:
    rows = np.asarray(throughput, dtype=np.float64)
    return Runs(tuple(range(1, len(rows) + 1)), rows)


def noisy(random: np.random.Generator, repetitions: int, rate: float = 1000.0, noise: float = 0.03) -> Runs:
    """Draw runs with noise that all levels of a run share, and a little noise per level."""
    whole = random.normal(0, noise, (repetitions, 1))
    return runs(rate * SHAPE * np.exp(whole + random.normal(0, 0.02, (repetitions, len(SHAPE)))))


@pytest.mark.parametrize(
    ("base", "other", "printed"),
    [(14741, 16783, 14), (4467, 16783, 276), (6260, 16783, 168), (8496, 33991, 300), (13007, 33991, 161)],
)
def test_the_percentages_of_veritest_2003_figure_14_come_out(base: float, other: float, printed: int) -> None:
    assert round(percent_improvement(base, other)) == printed


def least_squares(sides: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return residuals and degrees of freedom of a mean per configuration and a shift per two rounds."""
    configurations, repetitions = sides.shape
    blocks = np.arange(repetitions) // 2
    columns = [np.repeat(np.eye(configurations)[each], repetitions) for each in range(configurations)]
    columns += [np.tile(blocks == block, configurations).astype(float) for block in range(1, blocks[-1] + 1)]
    design = np.array(columns).T
    fitted, *_ = np.linalg.lstsq(design, sides.ravel(), rcond=None)
    rest = (sides.ravel() - design @ fitted).reshape(sides.shape)
    return rest, sides.size - len(columns)


@pytest.mark.parametrize("repetitions", [2, 3, 5, 6])
def test_with_one_level_the_interval_is_that_of_least_squares_with_a_shift_for_every_two_rounds(
    repetitions: int,
) -> None:
    base = np.array([1000.0, 1012, 990, 1005, 997, 1009])[:repetitions]
    other = np.array([1101.0, 1099, 1110, 1093, 1108, 1097])[:repetitions]
    logs = np.log([base, other])
    rest, freedom = least_squares(logs)
    squares = (rest**2).sum(axis=1)
    satterthwaite = freedom * squares.sum() ** 2 / (2 * (squares**2).sum())
    reach = stats.t.ppf(0.975, satterthwaite) * np.sqrt(squares.sum() / freedom * 2 / repetitions)
    estimate = logs[1].mean() - logs[0].mean()
    for figure in Metric:
        found = improvement(runs(base[:, None]), runs(other[:, None]), figure, paired=True)
        assert found.low_percent == pytest.approx(np.expm1(estimate - reach) * 100)
        assert found.high_percent == pytest.approx(np.expm1(estimate + reach) * 100)


def test_without_pairs_the_interval_is_welchs() -> None:
    random = np.random.default_rng(5)
    base, other = 1000 * np.exp(random.normal(0, 0.02, 6)), 1100 * np.exp(random.normal(0, 0.02, 6))
    found = improvement(runs(base[:, None]), runs(other[:, None]), Metric.OVERALL_AVERAGE, paired=False)
    welch = stats.ttest_ind(np.log(other), np.log(base), equal_var=False).confidence_interval(0.95)
    assert found.low_percent == pytest.approx(np.expm1(welch.low) * 100)
    assert found.high_percent == pytest.approx(np.expm1(welch.high) * 100)


@pytest.mark.parametrize("figure", list(Metric))
@pytest.mark.parametrize("paired", [True, False])
def test_of_200_experiments_with_three_repetitions_at_least_nine_in_ten_intervals_hold_the_truth(
    figure: Metric, paired: bool
) -> None:
    random = np.random.default_rng(11)
    held = 0
    for _ in range(200):
        found = improvement(noisy(random, 3), noisy(random, 3, rate=1100), figure, paired=paired)
        assert found.low_percent is not None
        assert found.high_percent is not None
        held += found.low_percent <= 10 <= found.high_percent
    assert held >= 180


def flat(random: np.random.Generator, repetitions: int, noise: float, rate: float = 1000.0) -> Runs:
    """Draw runs on a plateau of 16 levels, with independent noise in each."""
    return runs(rate * (1 + random.normal(0, noise, (repetitions, 16))))


@pytest.mark.parametrize(("repetitions", "noise", "less"), [(3, 0.15, 0.02), (5, 0.1, 0.01), (10, 0.1, 0.01)])
def test_of_two_equal_plateaus_the_noisier_one_does_not_win(
    repetitions: int, noise: float, less: float
) -> None:
    random = np.random.default_rng(17)
    found = [
        improvement(
            flat(random, repetitions, less), flat(random, repetitions, noise), Metric.PEAK, paired=True
        )
        for _ in range(100)
    ]
    percent = np.array([each.percent for each in found], dtype=np.float64)
    assert abs(percent.mean()) < max(1.0, 3 * percent.std(ddof=1) / 10)
    # The highest means differ by 4.8 % or more, and would claim "faster" in 16 to 49 of 100.
    assert sum(each.verdict is not Verdict.NO_DIFFERENCE_SHOWN for each in found) <= 8


def test_a_difference_of_10_percent_is_mostly_found_through_3_percent_of_noise() -> None:
    random = np.random.default_rng(19)
    found = [
        improvement(flat(random, 5, 0.03), flat(random, 5, 0.03, rate=1100), Metric.PEAK, paired=True)
        for _ in range(60)
    ]
    assert sum(each.verdict is Verdict.FASTER for each in found) > 30
    assert not any(each.verdict is Verdict.SLOWER for each in found)


def test_each_half_of_the_runs_is_read_at_the_level_that_the_other_half_chose() -> None:
    base = np.full((3, 2), 100.0)
    other = np.array([[90.0, 150.0], [120.0, 80.0], [110.0, 100.0]])
    found = improvement(runs(base), runs(other), Metric.PEAK, paired=True)
    assert found.other == pytest.approx((90 + 80 + 110) / 3)
    assert found.percent == pytest.approx(-20 / 3)
    assert found.observed_low_percent == pytest.approx(-20)


def test_a_run_without_operations_where_another_has_its_peak_can_not_be_compared() -> None:
    other = np.array([[9.0, 0.0], [0.0, 9.0], [9.0, 0.0], [0.0, 9.0]])
    found = improvement(runs(np.ones((4, 2))), runs(other), Metric.PEAK, paired=True)
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.low_percent is None


def test_two_repetitions_have_a_wide_interval_that_can_still_tell_a_factor_of_two() -> None:
    base, other = np.array([[1000.0], [1010.0]]), np.array([[2270.0], [2290.0]])
    found = improvement(runs(base), runs(other), Metric.OVERALL_AVERAGE, paired=True)
    welch = stats.ttest_ind(np.log(other), np.log(base), equal_var=False).confidence_interval(0.95)
    assert found.low_percent == pytest.approx(np.expm1(welch.low[0]) * 100)
    assert found.verdict is Verdict.FASTER
    noisy_pair = improvement(runs(base), runs([[1300.0], [1200.0]]), Metric.OVERALL_AVERAGE, paired=True)
    assert noisy_pair.verdict is Verdict.NO_DIFFERENCE_SHOWN
    assert noisy_pair.high_percent is not None and noisy_pair.high_percent > 100


def test_one_repetition_is_too_few_to_tell_but_what_was_seen_is_said() -> None:
    found = improvement(runs([[100.0, 200.0]]), runs([[100.0, 300.0]]), Metric.PEAK, paired=True)
    assert found.verdict is Verdict.TOO_FEW_REPETITIONS
    assert found.low_percent is None
    assert found.percent == found.observed_low_percent == pytest.approx(50)


def test_a_configuration_is_not_different_from_itself() -> None:
    same = noisy(np.random.default_rng(1), 5)
    found = improvement(same, same, Metric.OVERALL_AVERAGE, paired=True)
    assert found.percent == 0
    assert found.verdict is Verdict.NO_DIFFERENCE_SHOWN


def test_noise_larger_than_the_difference_shows_no_difference() -> None:
    random = np.random.default_rng(3)
    found = improvement(
        noisy(random, 4, noise=0.1), noisy(random, 4, rate=1010, noise=0.1), Metric.PEAK, paired=False
    )
    assert found.verdict is Verdict.NO_DIFFERENCE_SHOWN


def test_rounds_take_out_a_shift_that_both_configurations_saw() -> None:
    shift = np.array([1.0, 1.0, 0.6, 0.6])[:, None]
    base, other = 1000 * SHAPE * shift, 1050 * SHAPE * shift * np.array([[1.0], [1.001], [0.999], [1.0]])
    paired = improvement(runs(base), runs(other), Metric.PEAK, paired=True)
    unpaired = improvement(runs(base), runs(other), Metric.PEAK, paired=False)
    assert paired.verdict is Verdict.FASTER
    assert unpaired.verdict is Verdict.NO_DIFFERENCE_SHOWN


def test_a_run_that_was_not_finished_is_left_out_and_so_is_a_level_that_one_side_lacks() -> None:
    base = Runs((1, 2, 3), np.array([[10.0, 20, 30], [10, 20, 30], [10, np.nan, np.nan]]))
    other = Runs((1, 2, 3), np.array([[10.0, 40, np.nan], [10, 40, np.nan], [10, 40, np.nan]]))
    found = improvement(base, other, Metric.PEAK, paired=True)
    assert found.levels == (0, 1)
    assert found.repetitions == 2
    assert (found.base, found.other) == (20, 40)


def test_pairs_are_made_of_equal_repetitions_only() -> None:
    base = Runs((1, 2, 3), np.array([[np.nan], [20.0], [30.0]]))
    other = Runs((1, 2, 3), np.array([[11.0], [22.0], [np.nan]]))
    found = improvement(base, other, Metric.PEAK, paired=True)
    assert found.repetitions == 1
    assert found.percent == pytest.approx(10)


@pytest.mark.parametrize("other", [np.zeros((3, 2)), np.full((3, 2), np.nan), np.zeros((0, 2))])
def test_a_side_without_operations_can_not_be_compared(other: Throughput) -> None:
    found = improvement(runs(np.ones((3, 2))), runs(other), Metric.PEAK, paired=False)
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.percent is None


@settings(max_examples=25)
@given(RATES, RATES, st.sampled_from(Metric), st.booleans())
def test_the_estimate_lies_between_what_was_seen_and_inside_its_interval(
    base: Throughput, other: Throughput, figure: Metric, paired: bool
) -> None:
    found = improvement(runs(base), runs(other), figure, paired=paired)
    assert found.percent is not None
    assert found.observed_low_percent is not None
    assert found.observed_high_percent is not None
    assert found.low_percent is not None
    assert found.high_percent is not None
    assert found.observed_low_percent <= found.percent + 1e-6
    assert found.percent <= found.observed_high_percent + 1e-6
    assert found.low_percent <= found.percent + 1e-6
    assert found.percent <= found.high_percent + 1e-6


@settings(max_examples=25)
@given(RATES, RATES, st.sampled_from(Metric))
def test_exchanging_the_sides_turns_the_interval_round(
    base: Throughput, other: Throughput, figure: Metric
) -> None:
    there = improvement(runs(base), runs(other), figure, paired=True)
    back = improvement(runs(other), runs(base), figure, paired=True)
    assert there.low_percent is not None
    assert back.high_percent is not None
    assert (1 + there.low_percent / 100) * (1 + back.high_percent / 100) == pytest.approx(1)


def test_one_odd_run_is_left_out_of_a_comparison_and_named() -> None:
    random = np.random.default_rng(3)
    base, other = noisy(random, 6, noise=0.01), noisy(random, 6, rate=1100, noise=0.01)
    base.throughput[4] *= 0.7
    for figure in Metric:
        found = improvement(base, other, figure, paired=True)
        assert found.odd is not None
        assert (found.odd.of_base, found.odd.repetition) == (True, 5)
        assert found.odd.percent == pytest.approx(-30, abs=6)
        assert (found.repetitions, found.verdict) == (5, Verdict.FASTER)
        assert found.percent == pytest.approx(10, abs=5)


def test_two_odd_runs_are_noise_and_none_of_them_is_left_out() -> None:
    random = np.random.default_rng(3)
    base, other = noisy(random, 6), noisy(random, 6, rate=1100)
    base.throughput[[1, 4]] *= 0.7
    found = improvement(base, other, Metric.OVERALL_AVERAGE, paired=True)
    assert (found.odd, found.verdict, found.repetitions) == (None, Verdict.NO_DIFFERENCE_SHOWN, 6)


def test_a_run_that_is_odd_by_less_than_2_percent_counts() -> None:
    base, other = np.full((6, 1), 1000.0), np.full((6, 1), 1000.0)
    other[2] = 1015
    assert improvement(runs(base), runs(other), Metric.OVERALL_AVERAGE, paired=True).odd is None
    other[2] = 1030
    assert improvement(runs(base), runs(other), Metric.OVERALL_AVERAGE, paired=True).odd is not None


def test_without_an_odd_run_one_is_found_in_less_than_one_experiment_in_two_hundred() -> None:
    random = np.random.default_rng(29)
    pairs = [(noisy(random, 4), noisy(random, 4)) for _ in range(600)]
    found = sum(improvement(*pair, Metric.OVERALL_AVERAGE, paired=True).odd is not None for pair in pairs)
    assert found <= 3
