"""Several claims at once: which of them hold together."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from serverdyno.analysis.holm import holds
from serverdyno.analysis.threshold import LEVEL, PRIMARY_SHARE

P_VALUES = st.lists(st.one_of(st.floats(0, 1), st.floats(0, 0.06)), max_size=4)


def closed_testing(primary: list[float], secondary: list[float]) -> list[bool]:
    """Return the claims that hold by definition: every intersection with the claim is rejected (Bonferroni)."""
    everyone = [*((0, p_value) for p_value in primary), *((1, p_value) for p_value in secondary)]
    places = range(len(everyone))
    intersections = chain.from_iterable(combinations(places, size) for size in range(1, len(everyone) + 1))
    rejected = {chosen: _rejects([everyone[place] for place in chosen]) for chosen in intersections}
    return [all(of_it for chosen, of_it in rejected.items() if place in chosen) for place in places]


def _rejects(chosen: list[tuple[int, float]]) -> bool:
    families = [[p_value for family, p_value in chosen if family == which] for which in (0, 1)]
    shares = (PRIMARY_SHARE, 1 - PRIMARY_SHARE) if all(families) else (1.0, 1.0)
    return any(
        p_value < share * LEVEL / len(family)
        for family, share in zip(families, shares, strict=True)
        for p_value in family
    )


def test_a_worked_example_of_four_hypotheses_of_which_two_are_rejected() -> None:
    # The example in Wikipedia's article on the method: at 5 %, the fourth and the first are rejected.
    held, _ = holds([0.01, 0.04, 0.03, 0.005])
    assert held == [True, False, False, True]


@given(P_VALUES, P_VALUES)
def test_it_is_the_closed_test_of_bonferroni(primary: list[float], secondary: list[float]) -> None:
    averages, peaks = holds(primary, secondary)
    assert [*averages, *peaks] == closed_testing(primary, secondary)


def test_a_peak_has_a_fiftieth_of_the_level_until_the_average_is_claimed() -> None:
    assert holds([0.2], [0.002]) == ([False], [False])
    assert holds([0.2], [0.0009]) == ([False], [True])
    assert holds([0.048], [0.048]) == ([True], [True])
    assert holds([0.0495], [0.2]) == ([False], [False])
