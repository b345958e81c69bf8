"""Which of several claims hold for all of them together: Holm's steps, by families of unequal weight.

Of twenty comparisons of equal servers, one is expected to have a 95 % interval that leaves out 0 %. Holm's
step-down correction bounds the chance of any false claim among them, whatever their dependence (S. Holm, A Simple
Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6(2), 1979, pages 65 to 70; also with
weights).

**Averages and peaks are one family of claims.** The overall average is primary: while claims of both are open, 98 % of
the 5 % are for averages and 2 % for peaks. Where all of one are claimed, the other has the whole.

Tukey's range is not used, although it asks for a little less: it holds for independent runs alone. Where runs resemble
those before them, eight equal servers would differ in 6 to 7 % of experiments.

The claims are corrected; the intervals stay those of single comparisons. That the direction of a claim is right,
too, is proven for independent comparisons only (J. P. Shaffer, Control of Directional Errors with Stagewise
Multiple Test Procedures, The Annals of Statistics 8(6), 1980, doi:10.1214/aos/1176345205).
"""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno.analysis.threshold import LEVEL, PRIMARY_SHARE


def holds(primary: Sequence[float], secondary: Sequence[float] = ()) -> tuple[list[bool], list[bool]]:
    """Return which claims of each family hold, by their p-values, for all of both together."""
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
    """The share of the level that each family has."""
    if primary_open and secondary_open:
        return PRIMARY_SHARE * LEVEL, (1 - PRIMARY_SHARE) * LEVEL
    return LEVEL, LEVEL
