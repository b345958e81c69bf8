"""Several comparisons at once: p-values and verdicts that hold for all of them together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serverdyno.analysis.holm import adjusted_verdicts, holm
from serverdyno.analysis.improvement import Figure, Runs, Verdict, improvement

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def closed_testing(p_values: list[float]) -> list[float]:
    """Holm's procedure by its other definition: Bonferroni's test of every intersection of hypotheses."""
    everyone = range(len(p_values))
    intersections = [chosen for size in everyone for chosen in combinations(everyone, size + 1)]
    return [
        max(
            min(1.0, len(chosen) * min(p_values[each] for each in chosen))
            for chosen in intersections
            if hypothesis in chosen
        )
        for hypothesis in everyone
    ]


def test_a_worked_example_of_four_hypotheses_of_which_two_are_rejected() -> None:
    # The example of the encyclopaedia's article on the method: at 5 %, the fourth and the first are rejected.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P_VALUES)
def test_it_is_the_closed_test_of_bonferroni(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(closed_testing(p_values))


@given(P_VALUES)
def test_no_p_value_becomes_smaller_and_their_order_stays(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))
    assert all(
        adjusted[a] <= adjusted[b]
        for a in range(len(adjusted))
        for b in range(len(adjusted))
        if p_values[a] < p_values[b]
    )


def of(rates: list[float]) -> Runs:
    return Runs(tuple(range(1, len(rates) + 1)), np.array(rates)[:, None])


BASE = of([1000, 1010, 990, 1004, 996])
CLEARLY = of([1200, 1215, 1185, 1207, 1196])
BARELY = of([1013, 1036, 996, 1034, 1003])


def test_a_claim_that_holds_alone_need_not_hold_among_ten() -> None:
    alone = improvement(BASE, BARELY, Figure.PEAK, paired=True)
    assert alone.p_value is not None
    assert 0.005 < alone.p_value < 0.05
    clear = improvement(BASE, CLEARLY, Figure.PEAK, paired=True)
    nothing = improvement(BASE, BASE, Figure.PEAK, paired=True)
    assert alone.verdict is Verdict.FASTER
    assert adjusted_verdicts([alone]) == (Verdict.FASTER,)
    adjusted = adjusted_verdicts([alone, clear, *[nothing] * 8])
    assert adjusted[:2] == (Verdict.NO_DIFFERENCE_SHOWN, Verdict.FASTER)


def test_comparisons_without_an_interval_keep_their_verdict_and_do_not_count() -> None:
    alone = improvement(BASE, BARELY, Figure.PEAK, paired=True)
    few = improvement(of([1.0, 2]), of([3.0, 4]), Figure.PEAK, paired=True)
    none = improvement(of([1.0, 2, 3]), of([0.0, 0, 0]), Figure.PEAK, paired=True)
    adjusted = adjusted_verdicts([alone, *[few] * 10, none])
    assert adjusted == (Verdict.FASTER, *[Verdict.TOO_FEW_REPETITIONS] * 10, Verdict.NOT_COMPARABLE)
    assert adjusted_verdicts([]) == ()


def test_of_100_plans_of_six_comparisons_of_equals_few_make_any_claim() -> None:
    random = np.random.default_rng(41)
    single = claimed = 0
    for _ in range(100):
        found = [
            improvement(
                of(list(1000 * np.exp(random.normal(0, 0.02, 5)))),
                of(list(1000 * np.exp(random.normal(0, 0.02, 5)))),
                Figure.OVERALL_AVERAGE,
                paired=True,
            )
            for _ in range(6)
        ]
        single += any(each.verdict is not Verdict.NO_DIFFERENCE_SHOWN for each in found)
        claimed += any(each is not Verdict.NO_DIFFERENCE_SHOWN for each in adjusted_verdicts(found))
    assert single >= 15
    assert claimed <= 10
