"""Jain's fairness index: its bounds, and the changes that it ignores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serverdyno.analysis.fairness import jain

SHARES = st.lists(st.floats(min_value=0.001, max_value=1e6), min_size=1, max_size=50)


def test_the_example_of_the_report_that_defined_it() -> None:
    # DEC-TR-301, section 3: 10 of 100 users share everything equally, so the index is 0.1.
    assert jain([1.0] * 10 + [0.0] * 90) == pytest.approx(0.1)


def test_equal_shares_are_fair_and_nothing_has_no_fairness() -> None:
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1)
    assert jain([]) is None
    assert jain([0.0, 0.0]) is None


@given(SHARES, st.floats(min_value=0.01, max_value=100))
def test_it_lies_between_one_of_n_and_one_and_knows_no_unit(shares: list[float], scale: float) -> None:
    index = jain(shares)
    assert index is not None
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
    assert jain([share * scale for share in shares]) == pytest.approx(index)
