"""Dips, drops and collapses: found where the published reports name them, and not in noise or smooth curves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from serverdyno.analysis.dips import FALSE_POSITIVE_RATE, Dips, FallKind, ThroughputFall, dips
from support.netware_2001 import CLIENTS, CURVES

Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]
PLACES = np.arange(16)
LOADS = np.array(CLIENTS)
FLAT = np.zeros(16)
CLIMB = np.minimum(LOADS, 12) / 12
HUMP = np.log(CLIMB * (1.6 - 0.6 * CLIMB)) - 0.02 * np.maximum(0, PLACES - 3)
RISE = np.log(LOADS / (1 + 0.02 * (LOADS - 1)))


def seen(throughput: ArrayLike, loads: ArrayLike = CLIENTS) -> Dips:
    rows = np.atleast_2d(np.asarray(throughput, dtype=np.float64))
    return dips(list(np.asarray(loads, dtype=np.float64)), rows)


def repeated(curve: ArrayLike) -> NDArray[np.float64]:
    """Return three runs of a published curve with 1 % of noise, because the reports published single runs."""
    rates = np.asarray(curve, dtype=np.float64)
    return np.asarray(rates * np.exp(np.random.default_rng(7).normal(0, 0.01, (3, rates.size))))


def found(throughput: ArrayLike, loads: ArrayLike = CLIENTS) -> tuple[ThroughputFall, ...]:
    judged = seen(throughput, loads).findings
    assert judged is not None
    return judged


def places(findings: tuple[ThroughputFall, ...], kind: FallKind) -> list[int]:
    return [CLIENTS[each.deepest] for each in findings if each.kind is kind]


@pytest.mark.parametrize(("processors", "clients", "lost"), [(3, 16, 0.437), (5, 16, 0.237), (2, 20, 0.142)])
def test_the_three_dips_that_the_report_of_2001_names_are_found(
    processors: int, clients: int, lost: float
) -> None:
    findings = found(repeated(CURVES["NetWare 5.1", processors, "off"]))
    assert places(findings, FallKind.DIP) == [clients]
    dip = next(each for each in findings if each.kind is FallKind.DIP)
    assert (dip.first, dip.last) == (dip.deepest, dip.deepest)
    assert dip.lost == pytest.approx(lost, abs=0.02)


def test_no_other_of_its_26_curves_has_a_dip() -> None:
    dipping = {name for name, curve in CURVES.items() if places(found(repeated(curve)), FallKind.DIP)}
    assert dipping == {("NetWare 5.1", processors, "off") for processors in (2, 3, 5)}


@pytest.mark.parametrize("curve", [name for name in CURVES if name[0] == "NetWare 6"])
def test_the_smooth_curves_of_netware_6_show_nothing(curve: tuple[str, int, str]) -> None:
    assert found(repeated(CURVES[curve])) == ()


def test_a_decline_beyond_52_clients_as_sambas_of_2003_is_a_drop_and_no_dip() -> None:
    # The report shows only a graph: steady, then "at loads of 52 clients and above" lower until the end.
    rates = np.array([40, 150, 280, 390, 440, 460, 462, 459, 461, 457, 458, 455, 456, 390, 385, 381.0])
    (drop,) = found(repeated(rates))
    assert (drop.kind, CLIENTS[drop.first], CLIENTS[drop.last]) == (FallKind.DROP, 52, 60)
    assert drop.lost == pytest.approx(1 - 390 / 456, abs=0.02)


def test_a_collapse_at_32_threads_with_a_recovery_at_192_as_apaches_of_1999_is_told_in_full() -> None:
    # The report names loads but no rates: collapsed from 32 threads on, briefly back at 192, collapsed again.
    threads = np.array([2, *range(16, 289, 16)])
    rates = np.where(threads >= 32, 120.0, 1500.0) * (1 + 0.01 * np.sin(threads))
    rates[0] = 400
    rates[threads == 192] = 1300
    dip, collapse = found(repeated(rates), threads)
    assert (dip.kind, threads[dip.first], threads[dip.last]) == (FallKind.DIP, 32, 176)
    assert (collapse.kind, threads[collapse.first], threads[collapse.last]) == (FallKind.COLLAPSE, 208, 288)
    assert collapse.lost > 0.9


@pytest.mark.parametrize("repetitions", [3, 5])
@pytest.mark.parametrize("shape", [FLAT, HUMP, RISE], ids=["flat", "hump", "rise"])
@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_normal_noise_alone_yields_findings_in_fewer_curves_than_stated(
    repetitions: int, shape: NDArray[np.float64], noise: float
) -> None:
    random = np.random.default_rng(47)
    curves = 300
    false = sum(
        bool(found(1000 * np.exp(shape + random.normal(0, noise, (repetitions, 16))))) for _ in range(curves)
    )
    # The bound, plus two standard deviations of a binomial distribution with that probability.
    bound = FALSE_POSITIVE_RATE
    assert false / curves <= bound + 2 * (bound * (1 - bound) / curves) ** 0.5


def test_the_bound_is_of_use_without_the_hurdles_of_size_it_is_nearly_met() -> None:
    random = np.random.default_rng(53)
    false = sum(bool(found(1000 * np.exp(random.normal(0, 0.3, (3, 16))))) for _ in range(600))
    assert 0.02 <= false / 600 <= 0.07


def test_a_dip_of_25_percent_is_mostly_found_through_3_percent_of_noise() -> None:
    random = np.random.default_rng(59)
    shape = HUMP.copy()
    shape[9] += np.log(0.75)
    hits = 0
    for _ in range(200):
        runs = 1000 * np.exp(shape + random.normal(0, 0.03, (3, 16)))
        hits += any(each.kind is FallKind.DIP and each.first <= 9 <= each.last for each in found(runs))
    assert hits >= 195


def test_what_differs_between_runs_as_wholes_is_no_noise_of_their_levels() -> None:
    shape = np.exp(HUMP)
    shape[9] *= 0.8
    wavering = np.exp(np.random.default_rng(3).normal(0, 0.002, (3, 16)))
    runs = np.array([[1000.0], [1300], [800]]) * shape * wavering
    assert places(found(runs), FallKind.DIP) == [CLIENTS[9]]


def test_a_dip_below_five_percent_and_a_fall_below_ten_do_not_matter() -> None:
    rates = np.full((3, 8), 100.0) * np.exp(np.random.default_rng(5).normal(0, 1e-4, (3, 8)))
    rates[:, 3] *= 0.96
    rates[:, 6:] *= 0.92
    assert found(rates, np.arange(1, 9)) == ()


def test_a_smooth_decline_is_no_drop_however_far_it_goes() -> None:
    rates = 1000 * np.exp(-0.15 * PLACES)
    assert found(repeated(rates)) == ()


def test_what_can_not_be_judged_is_unknown_and_not_nothing() -> None:
    assert seen(np.tile([1.0, 5, 2, 5, 4, 3, 2], (2, 1)), range(1, 8)).findings is None  # two repetitions
    assert seen([[1, 5, 2]] * 3, [1, 2, 3]).findings is None
    assert seen(np.zeros((3, 16))).findings is None
    assert seen(np.full((3, 16), np.nan)).findings is None


def test_indices_are_those_of_all_levels_where_some_were_not_finished() -> None:
    rates = repeated(CURVES["NetWare 5.1", 3, "off"])
    rates[:, 1] = np.nan
    assert places(found(rates), FallKind.DIP) == [16]


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(0.01, 100), st.integers(3, 5))
def test_another_unit_changes_nothing_and_findings_are_places_of_the_curve(
    seed: int, factor: float, repetitions: int
) -> None:
    random = np.random.default_rng(seed)
    runs = 1000 * np.exp(HUMP + random.normal(0, 0.2, (repetitions, 16)))
    here, there = found(runs), found(runs * factor)
    assert [(each.kind, each.first, each.last) for each in here] == [
        (each.kind, each.first, each.last) for each in there
    ]
    for each in here:
        assert 0 <= each.first <= each.deepest <= each.last <= 15
        assert 0 < each.lost < 1
        assert each.times_critical > 1
        assert each.kind is not FallKind.DIP or 0 < each.first <= each.last < 15
