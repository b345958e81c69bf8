"""Scaling over processors: the table, and the law if it holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize

from serverdyno.analysis.scaling import Interval, Law, Trouble, fit_law, speed_ups

# Figure 7 of eTesting Labs, 2001: overall average in Mbit/s by processors.
NETWARE_6 = dict(enumerate([729.618, 687.047, 715.950, 743.530, 767.140, 778.947, 762.308, 763.901], start=1))
WINDOWS_2000 = dict(
    enumerate([266.655, 278.614, 350.576, 367.597, 392.311, 375.189, 353.926, 358.533], start=1)
)
# Worked examples of the R package `usl` (S. Moeding): a SPARCcenter 2000 under SPEC SDM 91, and a ray tracer.
SDM91 = ([1, 18, 36, 72, 108, 144, 216], [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2])
RAY_TRACER = (
    [1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64],
    [20.0, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310],
)


def law(counts: list[int], throughput: list[float]) -> Law:
    fitted = fit_law(counts, throughput)
    assert isinstance(fitted, Law)
    return fitted


def usl(counts: list[int], lam: float, sigma: float, kappa: float) -> list[float]:
    n = np.array(counts, dtype=np.float64)
    return list(lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)))


def holds(interval: Interval, truth: float) -> bool:
    return (interval.low is None or interval.low <= truth) and (
        interval.high is None or truth <= interval.high
    )


def test_the_published_fit_of_sdm91_comes_out() -> None:
    found = law(*SDM91)
    assert found.lam.value == pytest.approx(89.9952330, rel=1e-6)
    assert found.sigma.value == pytest.approx(0.0277285, abs=1e-7)
    assert found.kappa.value == pytest.approx(0.0001044, abs=1e-7)
    assert found.peak_count is not None
    assert found.peak_count.value == pytest.approx(96.52, abs=0.01)
    assert found.trouble is None
    # The profile intervals contain the middle of the intervals by published standard errors.
    assert found.sigma.low is not None
    assert found.sigma.high is not None
    assert found.sigma.low < 0.0277285 - 0.0091217
    assert found.sigma.high > 0.0277285 + 0.0091217


def test_the_published_fit_of_the_ray_tracer_comes_out_with_no_coherency_and_no_maximum() -> None:
    found = law(*RAY_TRACER)
    assert found.lam.value == pytest.approx(21.848843, rel=1e-6)
    assert found.sigma.value == pytest.approx(0.057771, abs=1e-6)
    assert (found.kappa.value, found.kappa.low) == (0, 0)
    assert found.peak_count is None


def test_the_fit_is_scipys_where_no_bound_is_in_the_way() -> None:
    counts, rates = [1, 2, 4, 6, 8, 12, 16], [99.0, 189, 340, 452, 520, 590, 601]
    model = lambda n, lam, sigma, kappa: lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))  # noqa: E731
    expected, _ = optimize.curve_fit(model, np.array(counts, dtype=np.float64), rates, p0=[100, 0.02, 1e-3])
    found = law(counts, rates)
    assert [found.lam.value, found.sigma.value, found.kappa.value] == pytest.approx(list(expected), rel=1e-5)


def test_the_table_of_2001_marks_where_a_processor_made_the_server_slower() -> None:
    netware, windows = speed_ups(NETWARE_6), speed_ups(WINDOWS_2000)
    assert [step.count for step in netware if step.negative] == [2, 7]
    assert [step.count for step in windows if step.negative] == [6, 7]
    assert windows[4].speed_up == pytest.approx(1.4712, abs=1e-4)  # "improved 47.12%"
    assert windows[4].efficiency == pytest.approx(1.4712 / 5, abs=1e-4)
    assert netware[0].change is None


@pytest.mark.parametrize("figures", [NETWARE_6, WINDOWS_2000], ids=["netware", "windows"])
def test_the_law_does_not_describe_the_servers_of_2001_and_says_so(figures: dict[int, float]) -> None:
    found = law(list(figures), list(figures.values()))
    assert found.trouble is Trouble.POOR
    assert found.r_squared is not None
    assert found.r_squared < 0.9
    assert found.peak_count is None


def test_five_counts_are_too_few_however_often_each_was_measured() -> None:
    assert fit_law([1, 2, 3, 4, 5] * 4, usl([1, 2, 3, 4, 5] * 4, 100, 0.1, 0.01)) is Trouble.TOO_FEW


def test_linear_scaling_is_fitted_on_both_bounds() -> None:
    found = law([1, 2, 3, 4, 6, 8], [100.0, 200, 300, 400, 600, 800])
    assert (found.sigma.value, found.kappa.value, found.peak_count) == (0, 0, None)


def test_equal_throughputs_explain_nothing() -> None:
    found = law([1, 2, 3, 4, 5, 6], [100.0] * 6)
    assert (found.r_squared, found.trouble) == (None, Trouble.POOR)


@pytest.mark.parametrize(
    ("counts", "rates"), [([0, 1], [1, 1]), ([1, 2], [1, 0]), ([1, 2], [1, float("nan")])]
)
def test_counts_below_one_and_no_throughput_are_refused(counts: list[int], rates: list[float]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        fit_law(counts, rates)
    with pytest.raises(ValueError, match="at least 1"):
        speed_ups(dict(zip(counts, rates, strict=True)))


@settings(max_examples=25)
@given(st.floats(1, 1e5), st.floats(0, 0.5), st.floats(0, 0.05))
@example(1.0, 0.03125, 5.960464477539063e-08)
def test_a_law_without_noise_is_found_again(lam: float, sigma: float, kappa: float) -> None:
    counts = [1, 2, 3, 4, 6, 8, 12, 16]
    found = law(counts, usl(counts, lam, sigma, kappa))
    assert found.lam.value == pytest.approx(lam, rel=1e-3)
    assert found.sigma.value == pytest.approx(sigma, abs=1e-3)
    assert found.kappa.value == pytest.approx(kappa, abs=1e-4)


def test_of_11_noisy_experiments_nearly_all_intervals_hold_the_truth() -> None:
    random = np.random.default_rng(67)
    counts = [1, 2, 3, 4, 5, 6, 7, 8] * 2
    truth = (1000.0, 0.08, 0.01)
    held = np.zeros(4)
    for _ in range(11):
        found = law(counts, list(np.array(usl(counts, *truth)) + random.normal(0, 30, 16)))
        held[:3] += [
            holds(interval, value)
            for interval, value in zip((found.lam, found.sigma, found.kappa), truth, strict=True)
        ]
        # If it is unknown whether there is a maximum, the law claims nothing false.
        held[3] += found.peak_count is None or holds(found.peak_count, (0.92 / 0.01) ** 0.5)
    assert (held >= 9).all()
    assert held.min() < 11  # wider intervals would be useless
