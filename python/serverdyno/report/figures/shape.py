"""The shape of one configuration's curve: the peak with its uncertainty, overload and dips.

This module only collects the statistics, which the modules of `analysis` compute. `subjects/curves.py` words them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno.analysis import curve
from serverdyno.analysis.dips import Dips, dips
from serverdyno.analysis.overload import RetainedShare, retained
from serverdyno.analysis.peak import Peak, peak
from serverdyno.plan.model import Level


@dataclass(frozen=True, slots=True)
class CurveShape:
    """The statistics of a curve. Indices count the suite's levels from 0; None: the figures do not support a statistic.

    `near_peak`: the first level with 95 % of the highest mean.
    """

    peak: Peak | None
    near_peak: int | None
    retained: RetainedShare | None
    dips: Dips


def shape_of(levels: Sequence[Level], throughput: curve.Throughput) -> CurveShape:
    """Return the shape of `throughput` (repetitions x levels). The load of a level is its number of connections."""
    loads = [float(level.clients * level.threads) for level in levels]
    means = [point.mean if (point := curve.spread(column)) else float("nan") for column in throughput.T]
    return CurveShape(
        peak=peak(throughput),
        near_peak=curve.near_peak_from(means),
        retained=retained(throughput),
        dips=dips(loads, throughput),
    )
