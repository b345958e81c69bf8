"""Verdicts about a stated minimum effect: faster by more than it, equivalent within it, or neither shown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from serverdyno.analysis.improvement import Improvement, Margins, Metric, Runs, Verdict, improvement

SWAPPED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
BASE = np.array([1000.0, 1002, 999, 1001, 999, 1001])
NOISE = np.array([1.001, 0.998, 1.004, 1.0, 0.997, 1.001])


def compared(
    factor: float, minimum_percent: float, noise: float = 1.0, *, swapped: bool = False
) -> Improvement:
    other = BASE * factor * NOISE**noise
    base, tested = (Runs(tuple(range(1, 7)), rates[:, None]) for rates in (BASE, other))
    margins = Margins(minimum_percent, minimum_percent)
    if swapped:
        base, tested = tested, base
    return improvement(base, tested, Metric.PEAK, paired=True, margins=margins)


@pytest.mark.parametrize(
    ("factor", "minimum_percent", "verdict"),
    [
        (1.05, 0, Verdict.FASTER),
        (1.05, 3, Verdict.FASTER),
        (1.05, 5, Verdict.NO_DIFFERENCE_SHOWN),
        (1.05, 8, Verdict.EQUIVALENT),
        (0.95, 3, Verdict.SLOWER),
        (0.95, 5, Verdict.NO_DIFFERENCE_SHOWN),
        (0.95, 8, Verdict.EQUIVALENT),
        (1.0, 0, Verdict.NO_DIFFERENCE_SHOWN),
        (1.0, 1, Verdict.EQUIVALENT),
        (1.0, 0.1, Verdict.NO_DIFFERENCE_SHOWN),
    ],
)
def test_the_verdict_is_about_the_minimum_effect(
    factor: float, minimum_percent: float, verdict: Verdict
) -> None:
    assert compared(factor, minimum_percent).verdict is verdict


def test_bounds_are_alike_on_the_scale_of_ratios() -> None:
    assert compared(0.81, 25).verdict is Verdict.EQUIVALENT
    assert compared(0.79, 25).verdict is Verdict.SLOWER


def test_p_values_are_those_of_scipys_t_tests() -> None:
    base, other = (Runs(tuple(range(1, 7)), rates[:, None]) for rates in (BASE, BASE * 1.02 * NOISE))

    def found(margins: Margins) -> Improvement:
        """Compare the sides without rounds, so that the test is Welch's."""
        return improvement(base, other, Metric.OVERALL_AVERAGE, paired=False, margins=margins)

    logs = np.log(base.throughput[:, 0]), np.log(other.throughput[:, 0])
    no_difference = stats.ttest_ind(*logs, equal_var=False).pvalue
    assert found(Margins()).p_value == pytest.approx(no_difference)
    # Two one-sided tests; this p-value is for 2.5 % on one side, like the interval.
    within = max(
        stats.ttest_ind(logs[1] - np.log(1.03), logs[0], equal_var=False, alternative="less").pvalue,
        stats.ttest_ind(logs[1] + np.log(1.03), logs[0], equal_var=False, alternative="greater").pvalue,
    )
    assert found(Margins(3, 3)).equivalence_p_value == pytest.approx(2 * within)


@pytest.mark.parametrize("minimum_percent", [-1.0, float("nan")])
def test_a_minimum_effect_below_zero_is_refused(minimum_percent: float) -> None:
    with pytest.raises(ValueError, match="minimum effect"):
        compared(1.0, minimum_percent)


@settings(max_examples=40)
@given(st.floats(0.8, 1.25), st.floats(0, 10), st.floats(0, 5))
def test_verdict_interval_and_p_value_say_the_same_and_swapping_turns_them(
    factor: float, minimum_percent: float, noise: float
) -> None:
    found = compared(factor, minimum_percent, noise)
    assert found.p_value is not None
    assert found.low_percent is not None
    assert found.high_percent is not None
    assert found.equivalence_p_value is not None
    assert (found.p_value < 0.05) == found.verdict.proven
    assert (found.equivalence_p_value < 0.05) == (found.verdict is Verdict.EQUIVALENT)
    if found.verdict is Verdict.FASTER:
        assert found.low_percent > minimum_percent
    if found.verdict is Verdict.EQUIVALENT:
        assert -minimum_percent < found.low_percent <= found.high_percent < minimum_percent
    back = compared(factor, minimum_percent, noise, swapped=True)
    if abs(found.p_value - 0.05) > 0.005:
        assert back.verdict is SWAPPED.get(found.verdict, found.verdict)


def test_of_200_experiments_at_the_very_bound_few_claim_equivalence_or_more_than_it() -> None:
    random = np.random.default_rng(43)
    claims = 0
    for _ in range(200):
        base, other = (
            Runs((1, 2, 3, 4), rate * np.exp(random.normal(0, 0.01, (4, 1)))) for rate in (1000, 1050)
        )
        found = improvement(base, other, Metric.OVERALL_AVERAGE, paired=True, margins=Margins(5, 5))
        claims += found.verdict is not Verdict.NO_DIFFERENCE_SHOWN
    assert claims <= 20
