"""Tunings one by one and together: the effect of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from serverdyno.analysis.ablation import Effect, Role, Tunings, ablation
from serverdyno.analysis.comparability import Conditions
from serverdyno.analysis.improvement import Metric, Runs, Verdict
from serverdyno.analysis.pairs import Side

SHAPE = np.array([0.4, 1.0, 0.9])
NAMES = ["redirector", "registry", "noatime", "writeback", "bdflush", "buffers"]
EFFECTS = [1.01, 1.03, 1.05, 1.25, 1.12, 1.0]


def runs(rate: float, seed: int, repetitions: int = 5, noise: float = 0.01) -> Runs:
    random = np.random.default_rng(seed)
    drift = np.linspace(1, 0.9, repetitions)[:, None]
    rows: NDArray[np.float64] = rate * SHAPE * drift * np.exp(random.normal(0, noise, (repetitions, 3)))
    return Runs(tuple(range(1, repetitions + 1)), rows)


def side(name: str, of: Runs) -> Side:
    undisturbed = Conditions(name, 0.0, 0.0, None, {})
    return Side(name, of, (), frozenset(), None, lambda _: undisturbed)


def tuned(together: float, repetitions: int = 5) -> tuple[Effect, ...]:
    """Compare a server of 500 Mbit/s with single tunings of VeriTest 2003, appendix C, and with all six."""
    single = [
        side(name, runs(500 * effect, 10 + place, repetitions))
        for place, (name, effect) in enumerate(zip(NAMES, EFFECTS, strict=True))
    ]
    all_of_them = side("all", runs(500 * together, 2, repetitions))
    tunings = Tunings(side("baseline", runs(500, 1, repetitions)), single, together=all_of_them)
    return ablation(tunings, paired=True)


def test_a_tuning_that_throws_out_clients_is_not_comparable_and_the_others_are() -> None:
    deserted = Conditions("fast", 0.5, 0.0, None, {})
    fast = replace(side("fast", runs(700, 3)), conditions=lambda _: deserted)
    tunings = Tunings(side("baseline", runs(500, 1)), [fast, side("sound", runs(700, 4))])
    found = {
        effect.name: {each.verdict for each in effect.found} for effect in ablation(tunings, paired=True)
    }
    assert found == {"fast": {Verdict.NOT_COMPARABLE}, "sound": {Verdict.FASTER}}


@pytest.mark.parametrize("place", range(len(Metric)))
def test_each_change_is_a_row_with_its_effect_and_all_together_are_the_last(place: int) -> None:
    effects = tuned(1.73)
    assert [effect.name for effect in effects] == [*NAMES, "all"]
    assert [effect.role for effect in effects] == [Role.ONE_CHANGE] * 6 + [Role.ALL_TOGETHER]
    percent = [effect.found[place].percent for effect in effects]
    assert percent == pytest.approx([1, 3, 5, 25, 12, 0, 73], abs=2)
    verdicts = {effect.name: effect.found[place].verdict for effect in effects}
    assert {verdicts[name] for name in ("writeback", "bdflush", "all")} == {Verdict.FASTER}
    assert verdicts["buffers"] is Verdict.NO_DIFFERENCE_SHOWN


def test_changes_piled_up_are_compared_with_the_baseline_and_with_the_step_before() -> None:
    piled_up = [side("first", runs(550, 3)), side("second", runs(660, 4))]
    effects = ablation(Tunings(side("baseline", runs(500, 1)), [], piled_up), paired=True)
    assert [(effect.name, effect.role) for effect in effects] == [
        ("first", Role.CUMULATIVE),
        ("second", Role.CUMULATIVE),
        ("second", Role.STEP),
    ]
    assert [effect.found[0].percent for effect in effects] == pytest.approx([10, 32, 20], abs=2)


def test_one_repetition_as_in_the_published_tunings_gives_estimates_and_claims_nothing() -> None:
    effects = tuned(1.73, repetitions=1)
    assert effects[-1].found[0].percent == pytest.approx(73, abs=5)
    assert {found.verdict for effect in effects for found in effect.found} == {Verdict.TOO_FEW_REPETITIONS}


def test_a_configuration_that_answered_nothing_is_not_comparable_and_the_others_are() -> None:
    nothing = Runs((1, 2, 3), np.zeros((3, 3)))
    sides = [side(name, runs(500, seed, 3)) for seed, name in enumerate(("baseline", "a", "all"))]
    effects = ablation(Tunings(sides[0], [sides[1], side("b", nothing)], together=sides[2]), paired=True)
    assert effects[1].found[0].verdict is Verdict.NOT_COMPARABLE
    assert effects[0].found[0].low_percent is not None
