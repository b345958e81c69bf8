"""All comparisons of an experiment: how often they claim what is not, and what they find.

Shares are of simulated experiments with fixed seeds (`simulations`); the table of docs/methods.md has more of them.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.improvement import Metric, Runs, Verdict, improvement
from serverdyno.analysis.sensitivity import found_percent
from serverdyno.analysis.threshold import LEVEL
from support.simulations import MIX_NOISE, RUN_NOISE, Design, Noise, claims, curve, experiments

EXPERIMENTS = 300
# Of 300 experiments of which 5 % claim something, fewer than 8 % do so in 99 of 100 draws of the seed.
MOST = 0.08


def sides_of(design: Design, seed: int = 3) -> list[Runs]:
    [experiment] = experiments(design, 1, seed)
    return [Runs(tuple(range(1, design.repetitions + 1)), rows) for rows in experiment]


@pytest.mark.parametrize("repetitions", [2, 3, 5, 10])
@pytest.mark.parametrize("noise", [Noise.NORMAL, Noise.HEAVY_TAILS, Noise.AUTOCORRELATED])
def test_two_equal_servers_differ_in_average_or_peak_in_5_percent_of_experiments_at_most(
    noise: Noise, repetitions: int
) -> None:
    assert claims(Design(repetitions, noise=noise), EXPERIMENTS).false <= MOST


@pytest.mark.parametrize("repetitions", [2, 4, 6])
def test_a_drift_in_time_makes_no_difference_of_equal_servers(repetitions: int) -> None:
    assert claims(Design(repetitions, noise=Noise.DRIFT), EXPERIMENTS).false <= MOST


@pytest.mark.parametrize(
    ("repetitions", "noise"), [(2, Noise.NORMAL), (3, Noise.NORMAL), (5, Noise.HEAVY_TAILS)]
)
def test_of_four_equal_servers_any_differ_in_5_percent_of_experiments_at_most(
    repetitions: int, noise: Noise
) -> None:
    assert claims(Design(repetitions, (1.0,) * 4, noise), EXPERIMENTS).false <= MOST


def test_a_server_three_times_as_noisy_as_three_others_claims_little_more() -> None:
    assert claims(Design(5, (1.0,) * 4, spreads=(3.0, 1.0, 1.0, 1.0)), EXPERIMENTS).false <= 0.09


def test_of_four_servers_one_that_is_10_percent_slower_is_found_with_three_repetitions() -> None:
    # Judged pair by pair, without the pooled noise, it is found in 28 to 30 %.
    assert claims(Design(3, (1.0, 1.0, 1.0, 0.9)), 200).average >= 0.85


def test_of_three_configurations_the_variance_is_that_of_configuration_by_repetition() -> None:
    sides = sides_of(Design(4, (1.0, 1.0, 1.0)))
    logs = np.log([side.throughput.mean(axis=1) for side in sides])
    residuals = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    variance = (residuals**2).sum() / 6 * 2 / 4
    pairs = list(combinations(range(3), 2))
    for (a, b), row in zip(pairs, compare(sides, pairs, paired=True), strict=True):
        own = (logs[b] - logs[a]).var(ddof=1) / 4
        assert row[0].low_percent is not None and row[0].high_percent is not None
        width = np.log1p(row[0].high_percent / 100) - np.log1p(row[0].low_percent / 100)
        assert width == pytest.approx(2 * 2.446912 * np.sqrt(max(own, variance)), rel=1e-5)  # t, 6 degrees


def test_the_noise_of_configurations_that_are_not_compared_counts_too() -> None:
    sides = sides_of(Design(3, (1.0,) * 4))
    every = compare(sides, list(combinations(range(4), 2)), paired=True)
    with_first = compare(sides, [(0, 1), (0, 2), (0, 3)], paired=True)
    assert [row[0].low_percent for row in with_first] == [row[0].low_percent for row in every[:3]]


def test_where_a_configuration_lacks_a_run_pairs_stand_alone() -> None:
    sides = sides_of(Design(4, (1.0, 1.0, 0.5)))
    sides[2].throughput[3, 5] = np.nan
    [row] = compare(sides, [(0, 2)], paired=True)
    alone = improvement(sides[0], sides[2], Metric.OVERALL_AVERAGE, paired=True)
    assert (row[0].low_percent, row[0].repetitions) == (alone.low_percent, 3)


def test_a_verdict_says_of_how_many_claims_it_is_one_and_none_where_there_is_no_interval() -> None:
    three = sides_of(Design(3, (1.0, 1.0, 1.0)))
    assert {each.among for row in compare(three, [(0, 1), (0, 2), (1, 2)], paired=True) for each in row} == {
        6
    }
    once = sides_of(Design(1))
    [row] = compare(once, [(0, 1)], paired=True)
    assert {(each.among, each.verdict) for each in row} == {(None, Verdict.TOO_FEW_REPETITIONS)}
    assert compare([], [], paired=True) == []


def test_the_least_effect_is_found_in_four_of_five_experiments() -> None:
    shares = curve() / curve().sum()
    error = np.sqrt(2 / 5 * (RUN_NOISE**2 + MIX_NOISE**2 * (shares**2).sum()))
    least = found_percent(float(error), 4, LEVEL, 0.0)
    assert claims(Design(5, (1.0, 1 + least / 100)), EXPERIMENTS).average == pytest.approx(0.8, abs=0.06)


def test_the_repetitions_that_5_percent_take_find_it_in_four_of_five_experiments() -> None:
    needed = [
        compare(sides_of(Design(10), seed), [(0, 1)], paired=True)[0][0].repetitions_needed
        for seed in range(40)
    ]
    typical = round(float(np.median([each for each in needed if each is not None])))
    found = claims(Design(typical, (1.0, 1.05)), EXPERIMENTS).average
    assert 0.7 < found < 0.95


def test_a_minimum_effect_of_5_percent_or_more_leaves_the_repetitions_unknown() -> None:
    [row] = compare(sides_of(Design(5)), [(0, 1)], paired=True, minimum_percent=6)
    assert row[0].repetitions_needed is None
    assert row[0].found_percent is not None and row[0].found_percent > 6
