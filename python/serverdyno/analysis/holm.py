"""Which of several claims hold for all of them together: Holm's steps, by families of unequal weight.

Of twenty comparisons of equal servers, one is expected to have a 95 % interval that leaves out 0 %. Holm's
step-down correction bounds the chance of any false claim among them, whatever their dependence (S. Holm, A Simple
Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6(2), 1979, pages 65 to 70; also with
weights). Two things are added:

* **Averages and peaks are one family of claims.** The overall average is primary: while claims of both are open, 98 %
  of the 5 % are for averages and 2 % for peaks. Where all of one are claimed, the other has the whole.
* **Tukey's range.** Where all comparisons are pairs of k configurations with one pooled variance, no more than 5 % of
  experiments have any pair whose t lies beyond the range of k equal ones, divided by the root of 2. A step asks for no
  more than that (the closure of both tests: R. Marcus, E. Peritz, K. R. Gabriel, On Closed Testing Procedures with
  Special Reference to Ordered Analysis of Variance, Biometrika 63(3), 1976, doi:10.1093/biomet/63.3.655).

The claims are corrected; the intervals stay those of single comparisons. That the direction of a claim is right,
too, is proven for independent comparisons only (J. P. Shaffer, Control of Directional Errors with Stagewise
Multiple Test Procedures, The Annals of Statistics 8(6), 1980, doi:10.1214/aos/1176345205).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from serverdyno.analysis.threshold import LEVEL, PRIMARY_SHARE


@dataclass(frozen=True, slots=True)
class Family:
    """Claims about one figure, by their p-values.

    `configurations`, `degrees_of_freedom`: of the pooled variance, where all claims are about pairs of so many
    configurations; None: each has a variance of its own.
    """

    p_values: Sequence[float]
    configurations: int | None = None
    degrees_of_freedom: float | None = None

    def claims(self, p_value: float, level: float, still_open: int) -> bool:
        """Whether a claim holds at a level, while so many are open."""
        if p_value < level / still_open:
            return True
        if self.configurations is None or self.degrees_of_freedom is None or p_value >= level:
            return False
        return p_value < _beyond_range(self.configurations, self.degrees_of_freedom, level)


def holds(primary: Family, secondary: Family) -> tuple[list[bool], list[bool]]:
    """Which claims of each family hold, for all of both together."""
    families = (primary, secondary)
    held = ([False] * len(primary.p_values), [False] * len(secondary.p_values))
    while True:
        still_open = [len(found) - sum(found) for found in held]
        levels = _levels(*still_open)
        new = [
            (which, place)
            for which, (family, level) in enumerate(zip(families, levels, strict=True))
            for place, p_value in enumerate(family.p_values)
            if not held[which][place] and family.claims(p_value, level, still_open[which])
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


@lru_cache(maxsize=256)
def _beyond_range(configurations: int, degrees_of_freedom: float, level: float) -> float:
    """The two-sided p-value of a t that lies at Tukey's critical range."""
    from scipy import stats  # noqa: PLC0415 (half of what a short report takes to import, and few need it)

    critical = float(stats.studentized_range.ppf(1 - level, configurations, degrees_of_freedom)) / np.sqrt(2)
    return 2 * float(special.stdtr(degrees_of_freedom, -critical))
