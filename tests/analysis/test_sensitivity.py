"""The smallest detectable difference, compared with scipy's distributions, which the tool does not import."""

from __future__ import annotations

import math

import pytest
from scipy import optimize, special

from serverdyno.analysis import sensitivity
from serverdyno.analysis.root import root


@pytest.mark.parametrize("degrees_of_freedom", [1, 1.3, 2, 3, 4.7, 8, 20, 1000, 12000.5])
@pytest.mark.parametrize("level", [0.049, 0.01, 0.001])
def test_the_distance_is_that_of_the_noncentral_t_distribution(
    degrees_of_freedom: float, level: float
) -> None:
    critical = -float(special.stdtrit(degrees_of_freedom, level / 2))

    def shortfall(true: float) -> float:
        return float(1 - special.nctdtr(degrees_of_freedom, true, critical)) - sensitivity.POWER

    expected = float(optimize.brentq(shortfall, 0.0, 4 * critical + 10, xtol=1e-9))
    # Beyond critical values of 100 the quadrature is coarser.
    relative = 1e-5 if critical < 100 else 5e-3
    assert sensitivity.distance(degrees_of_freedom, level) == pytest.approx(expected, rel=relative)


def test_a_design_without_power_finds_nothing_but_an_infinite_difference() -> None:
    assert sensitivity.found_percent(10.0, 1.0, 1e-5, 0.0) == math.inf


@pytest.mark.parametrize(("low", "high"), [(0.0, 1000.0), (0.5, 3.0), (-50.0, 2.0)])
def test_a_root_is_found_where_the_function_is_flat_elsewhere(low: float, high: float) -> None:
    assert root(lambda value: math.tanh(5 * (value - 1.5)), low, high) == pytest.approx(1.5)
