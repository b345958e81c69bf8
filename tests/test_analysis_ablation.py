"""Tunings one by one and together: what each brought, and whether they add up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from serverdyno.analysis.ablation import Ablation, Interplay, Role, Tunings, ablation
from serverdyno.analysis.improvement import Figure, Runs, Verdict

SHAPE = np.array([0.4, 1.0, 0.9])
NAMES = ["redirector", "registry", "noatime", "writeback", "bdflush", "buffers"]
EFFECTS = [1.01, 1.03, 1.05, 1.25, 1.12, 1.0]


def runs(rate: float, seed: int, repetitions: int = 5, noise: float = 0.01) -> Runs:
    random = np.random.default_rng(seed)
    drift = np.linspace(1, 0.9, repetitions)[:, None]
    rows: NDArray[np.float64] = rate * SHAPE * drift * np.exp(random.normal(0, noise, (repetitions, 3)))
    return Runs(tuple(range(1, repetitions + 1)), rows)


def tuned(together: float, repetitions: int = 5) -> Ablation:
    """A server of 500 Mbit/s, six tunings as in appendix C of VeriTest's report of 2003, and all of them."""
    single = {
        name: runs(500 * effect, 10 + place, repetitions)
        for place, (name, effect) in enumerate(zip(NAMES, EFFECTS, strict=True))
    }
    tunings = Tunings(runs(500, 1, repetitions), single, together=runs(500 * together, 2, repetitions))
    return ablation(tunings, Figure.PEAK, paired=True)


def test_each_change_is_a_row_with_its_effect_and_all_together_are_the_last() -> None:
    found = tuned(1.73)
    assert [effect.name for effect in found.effects] == [*NAMES, "all"]
    assert [effect.role for effect in found.effects] == [Role.ONE_CHANGE] * 6 + [Role.ALL_TOGETHER]
    percent = [effect.found.percent for effect in found.effects]
    assert percent == pytest.approx([1, 3, 5, 25, 12, 0, 73], abs=2)
    verdicts = {effect.name: effect.verdict for effect in found.effects}
    assert {verdicts[name] for name in ("writeback", "bdflush", "all")} == {Verdict.FASTER}
    assert verdicts["buffers"] is Verdict.NO_DIFFERENCE_SHOWN


def test_what_brings_the_product_of_the_single_effects_shows_no_interaction() -> None:
    found = tuned(float(np.prod(EFFECTS))).interaction
    assert found is not None
    assert found.interplay is Interplay.NONE_SHOWN
    assert found.low_percent is not None
    assert found.high_percent is not None
    assert found.low_percent < 0 < found.high_percent
    assert found.promised_percent == pytest.approx((np.prod(EFFECTS) - 1) * 100, abs=8)


@pytest.mark.parametrize(
    ("factor", "interplay"), [(1.3, Interplay.MORE_THAN_SINGLY), (0.7, Interplay.LESS_THAN_SINGLY)]
)
def test_changes_that_help_each_other_or_compete_are_said_to(factor: float, interplay: Interplay) -> None:
    found = tuned(float(np.prod(EFFECTS)) * factor).interaction
    assert found is not None
    assert found.interplay is interplay
    assert found.percent == pytest.approx((factor - 1) * 100, abs=8)


def test_a_worked_example_of_two_changes_without_noise() -> None:
    base, one, two, both = (Runs((1, 2, 3), np.full((3, 1), rate)) for rate in (100.0, 110.0, 120.0, 125.0))
    tunings = Tunings(base, {"one": one, "two": two}, together=both)
    found = ablation(tunings, Figure.OVERALL_AVERAGE, paired=True).interaction
    assert found is not None
    assert found.promised_percent == pytest.approx(32)
    assert found.together_percent == pytest.approx(25)
    assert found.percent == pytest.approx((1.25 / 1.32 - 1) * 100)
    assert found.interplay is Interplay.LESS_THAN_SINGLY


def test_changes_piled_up_are_compared_with_the_baseline_and_with_the_step_before() -> None:
    piled_up = [("first", runs(550, 3)), ("second", runs(660, 4))]
    found = ablation(Tunings(runs(500, 1), {}, piled_up), Figure.PEAK, paired=True)
    assert [(effect.name, effect.role) for effect in found.effects] == [
        ("first", Role.CUMULATIVE),
        ("second", Role.CUMULATIVE),
        ("second", Role.STEP),
    ]
    percent = [effect.found.percent for effect in found.effects]
    assert percent == pytest.approx([10, 32, 20], abs=2)
    assert found.interaction is None


def test_verdicts_are_corrected_for_the_number_of_changes() -> None:
    base = np.array([1000.0, 1010, 990, 1004, 996])
    barely = np.array([1013.0, 1036, 996, 1034, 1003])
    sides = [Runs((1, 2, 3, 4, 5), rates[:, None]) for rates in (base, barely)]
    alone = ablation(Tunings(sides[0], {"a": sides[1]}), Figure.PEAK, paired=True)
    among = ablation(
        Tunings(sides[0], {"a": sides[1]} | {f"nothing {n}": sides[0] for n in range(6)}),
        Figure.PEAK,
        paired=True,
    )
    assert alone.effects[0].verdict is Verdict.FASTER
    assert among.effects[0].found.verdict is Verdict.FASTER
    assert among.effects[0].verdict is Verdict.NO_DIFFERENCE_SHOWN


def test_two_repetitions_give_estimates_and_claim_nothing() -> None:
    found = tuned(1.73, repetitions=2)
    assert {effect.verdict for effect in found.effects} == {Verdict.TOO_FEW_REPETITIONS}
    assert found.interaction is not None
    assert found.interaction.interplay is Interplay.TOO_FEW_REPETITIONS
    assert found.interaction.low_percent is None


def test_one_repetition_as_in_the_published_tunings_still_has_its_sums() -> None:
    found = tuned(1.73, repetitions=1).interaction
    assert found is not None
    assert found.together_percent == pytest.approx(73, abs=5)


def test_a_configuration_that_answered_nothing_leaves_the_interaction_unknown() -> None:
    nothing = Runs((1, 2, 3), np.zeros((3, 3)))
    sides = [runs(500, seed, 3) for seed in range(3)]
    found = ablation(
        Tunings(sides[0], {"a": sides[1], "b": nothing}, together=sides[2]), Figure.PEAK, paired=True
    )
    assert found.interaction is None
    assert found.effects[1].verdict is Verdict.NOT_COMPARABLE


def test_the_interaction_is_over_the_runs_and_mixes_that_all_finished() -> None:
    sides = [runs(rate, seed, 4, noise=0.0) for seed, rate in enumerate((100.0, 110, 120, 132))]
    sides[1].throughput[3] = np.nan
    sides[2].throughput[:, 2] = np.nan
    found = ablation(
        Tunings(sides[0], {"a": sides[1], "b": sides[2]}, together=sides[3]),
        Figure.OVERALL_AVERAGE,
        paired=True,
    )
    assert found.interaction is not None
    assert found.interaction.percent == pytest.approx(0, abs=1e-9)
