"""The knee of a curve: where more load stopped bringing more throughput."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from netware_2001 import CLIENTS, CURVES
from serverdyno.analysis.knee import knee

LOADS = np.array([1.0, *range(4, 61, 4)])


def broken_stick(corner: float, slope_after: float = 0.0) -> NDArray[np.float64]:
    """In proportion to the load up to the corner, and along another slope beyond it."""
    return np.asarray(np.minimum(LOADS, corner + slope_after * (LOADS - corner)))


def test_the_example_of_the_paper_has_its_knee_at_two_ninths() -> None:
    # Satopaa et al. 2011, figure 2: y = -1 / (x + 0.1) + 5 at ten points from 0 to 1; knee at 0.22.
    x = np.linspace(0, 1, 10)
    found = knee(list(x), -1 / (x + 0.1) + 5)
    assert found is not None
    assert x[found] == pytest.approx(0.22, abs=0.005)


@pytest.mark.parametrize("corner", [4, 8, 20, 40])
@pytest.mark.parametrize("slope_after", [0.0, 0.1, -0.2])
def test_the_corner_of_a_broken_stick_is_its_knee(corner: int, slope_after: float) -> None:
    found = knee(list(LOADS), broken_stick(corner, slope_after))
    assert found is not None
    assert LOADS[found] == corner


def test_a_curve_in_proportion_to_its_load_has_no_knee() -> None:
    assert knee(list(LOADS), 30 * LOADS) is None
    assert knee(list(LOADS), 30 * LOADS + np.tile([0.0, 5.0], 8)) is None


def test_a_flat_or_falling_curve_never_rose_to_a_knee() -> None:
    assert knee(list(LOADS), np.full(16, 5.0)) is None
    assert knee(list(LOADS), 100 - LOADS) is None


def test_mixes_that_were_not_finished_are_passed_over_and_three_are_too_few() -> None:
    means = broken_stick(20)
    means[[2, 7]] = np.nan
    found = knee(list(LOADS), means)
    assert found is not None
    assert LOADS[found] == 20
    assert knee([1, 2, 3], [1, 5, 5]) is None


@pytest.mark.parametrize("processors", range(1, 9))
def test_netware_6_stops_rising_where_the_report_has_its_peaks(processors: int) -> None:
    # "throughput levels peaked at a load between 8 to 12 clients"
    found = knee(CLIENTS, CURVES["NetWare 6", processors, "on"])
    assert found is not None
    assert CLIENTS[found] in (8, 12)


@given(
    st.lists(st.floats(1, 1000), min_size=4, max_size=16),
    st.floats(0.01, 100),
    st.floats(0, 1000),
    st.floats(0.01, 100),
)
def test_other_units_move_no_knee(means: list[float], factor: float, offset: float, load: float) -> None:
    loads = np.arange(1.0, len(means) + 1)
    rounded = np.round(means)  # ties stay ties in any unit
    assert knee(list(loads * load), rounded * factor + offset) == knee(list(loads), rounded)
