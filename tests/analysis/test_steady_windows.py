"""Windows whose halves differ are reported, and noise is not."""

from __future__ import annotations

import numpy as np
import pytest

from serverdyno.analysis.steady import drifts
from support import steadiness

Window = list[int]


def windows(
    before: float, after: float, *, seconds: int, noise: float, repetitions: int, seed: int
) -> list[Window]:
    """Draw windows of a server that changes its speed in the middle of each."""
    random = np.random.default_rng(seed)
    speeds = np.repeat([before, after], seconds // 2)
    return [
        random.poisson(speeds * np.exp(random.normal(0, noise, len(speeds)))).tolist()
        for _ in range(repetitions)
    ]


def told(found: list[float | None]) -> int:
    return sum(drift is not None for drift in found)


@pytest.mark.parametrize(("seconds", "repetitions"), [(4, 3), (8, 1), (60, 2)])
def test_a_server_that_gets_slower_in_the_middle_is_told(seconds: int, repetitions: int) -> None:
    found = drifts(windows(2000, 1500, seconds=seconds, noise=0.01, repetitions=repetitions, seed=1))
    assert [drift for drift in found if drift is not None] == pytest.approx([-0.25] * repetitions, abs=0.03)


def test_of_steady_servers_few_are_told_however_noisy() -> None:
    for noise, rate in ((0.0, 20), (0.02, 2000), (0.2, 2000)):
        many = [windows(rate, rate, seconds=8, noise=noise, repetitions=3, seed=seed) for seed in range(200)]
        assert sum(told(drifts(each)) for each in many) <= 0.02 * 600, (noise, rate)


def test_a_change_of_less_than_five_percent_is_not_told() -> None:
    found = drifts(windows(100_000, 96_000, seconds=60, noise=0.001, repetitions=3, seed=1))
    assert told(found) == 0


def test_only_the_repetition_that_changed_is_told() -> None:
    steady = windows(2000, 2000, seconds=10, noise=0.01, repetitions=2, seed=1)
    changed = windows(2000, 3000, seconds=10, noise=0.01, repetitions=1, seed=2)
    assert [drift is None for drift in drifts([*steady, *changed])] == [True, True, False]


@pytest.mark.parametrize("window", [[], [5, 5, 5], [0, 0, 9, 9], [9, 9, 0, 0]])
def test_what_has_no_two_halves_with_noise_is_not_judged(window: Window) -> None:
    assert drifts([window]) == [None]


def test_a_second_in_the_middle_is_in_neither_half() -> None:
    assert drifts([[100, 101, 9_000, 100, 101]]) == [None]
    assert drifts([[1000, 1010, 990, 1200, 1500, 1510, 1490]]) == [pytest.approx(0.5)]


@pytest.mark.parametrize("seconds", [4, 10])
def test_noise_that_resembles_itself_is_told_by_tenths_of_a_second_and_not_by_seconds(seconds: int) -> None:
    # This is why a bin is one second long.
    steady = steadiness.Windows(seconds, noise=0.06, memory_s=0.3)
    assert steadiness.told(steady, 1, 100) > 0.15
    assert steadiness.told(steady, 10, 100) < 0.04
    falling = steadiness.Windows(seconds, noise=0.03, memory_s=0.3, drop=0.15)
    assert steadiness.told(falling, 10, 100) > 0.9
