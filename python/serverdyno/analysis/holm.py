"""Several comparisons at once: p-values and verdicts that hold for all of them together.

Of twenty comparisons of equal servers, one is expected to have a 95 % interval that leaves out 0 %. Holm's
step-down correction bounds the chance of any false claim among them, whatever their dependence, and loses less
than Bonferroni's (S. Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of
Statistics 6(2), 1979, pages 65 to 70).

The verdicts are adjusted; the intervals stay those of single comparisons. That the direction of a claim is right,
too, is proven for independent comparisons only (J. P. Shaffer, Control of Directional Errors with Stagewise
Multiple Test Procedures, The Annals of Statistics 8(6), 1980, doi:10.1214/aos/1176345205).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serverdyno.analysis.contrast import CONFIDENCE
from serverdyno.analysis.improvement import Improvement, Verdict


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: the least level at which each would be rejected."""
    ascending = np.argsort(p_values, kind="stable")
    still_open = np.arange(len(p_values), 0, -1)
    stepped = np.maximum.accumulate(still_open * np.asarray(p_values, dtype=np.float64)[ascending])
    adjusted = np.empty(len(p_values))
    adjusted[ascending] = np.minimum(1.0, stepped)
    return [float(value) for value in adjusted]


def adjusted_verdicts(comparisons: Sequence[Improvement]) -> tuple[Verdict, ...]:
    """The verdict of each comparison, as one of them all.

    A claim (faster, slower, equivalent) that doesn't survive becomes *no difference shown*. Comparisons without
    an interval claim nothing: they keep their verdict and don't count.
    """
    with_interval = [place for place, found in enumerate(comparisons) if found.p_value is not None]
    p_values = [_p_value(comparisons[place]) for place in with_interval]
    adjusted = dict(zip(with_interval, holm(p_values), strict=True))
    return tuple(
        Verdict.NO_DIFFERENCE_SHOWN if adjusted.get(place, 0.0) >= 1 - CONFIDENCE else found.verdict
        for place, found in enumerate(comparisons)
    )


def counted(comparisons: Sequence[Improvement]) -> int:
    """How many of them a correction is for: those with an interval."""
    return sum(found.p_value is not None for found in comparisons)


def _p_value(found: Improvement) -> float:
    assert found.p_value is not None  # only those that have one are counted
    return found.p_value
