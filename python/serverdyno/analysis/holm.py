"""Holm's correction: which of several claims hold together, in families of unequal weight.

Of twenty comparisons of equal servers, one is expected to have a 95 % interval that excludes 0 %. Holm's step-down
correction bounds the probability of any false claim among them, however they depend on each other (S. Holm, A Simple
Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6(2), 1979, pages 65 to 70; also with
weights).

**Averages and peaks are one family of claims.** The overall average is primary: while claims of both are open,
averages get 98 % of the 5 %, and peaks 2 %. Once all claims of one kind hold, the other kind gets the whole 5 %.

Tukey's range is not used although it would be slightly less strict, because it requires independent runs. If runs
resemble their predecessors, a difference between eight equal servers would be claimed in 6 to 7 % of experiments.

Only the claims are corrected; intervals apply to single comparisons. That the direction of a claim is also right is
proven only for independent comparisons (J. P. Shaffer, Control of Directional Errors with Stagewise Multiple Test
Procedures, The Annals of Statistics 8(6), 1980, doi:10.1214/aos/1176345205).
"""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno.analysis.threshold import LEVEL, PRIMARY_SHARE


def holds(primary: Sequence[float], secondary: Sequence[float] = ()) -> tuple[list[bool], list[bool]]:
    """Return which claims of each family hold, given their p-values. Both families are corrected together."""
    families = (primary, secondary)
    held = ([False] * len(primary), [False] * len(secondary))
    while True:
        still_open = [len(found) - sum(found) for found in held]
        levels = _levels(*still_open)
        new = [
            (which, place)
            for which, (p_values, level) in enumerate(zip(families, levels, strict=True))
            for place, p_value in enumerate(p_values)
            if not held[which][place] and p_value < level / still_open[which]
        ]
        if not new:
            return held
        for which, place in new:
            held[which][place] = True


def _levels(primary_open: int, secondary_open: int) -> tuple[float, float]:
    if primary_open and secondary_open:
        return PRIMARY_SHARE * LEVEL, (1 - PRIMARY_SHARE) * LEVEL
    return LEVEL, LEVEL
