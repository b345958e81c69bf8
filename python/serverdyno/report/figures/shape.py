"""The shape of one configuration's curve as `analysis` sees it: the peak with its uncertainty, overload, dips.

Only collected here; each statistic and its source is in the module of `analysis` that bears its name. What is said
of them is in `subjects/curves.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno.analysis import curve
from serverdyno.analysis.dips import Dips, dips
from serverdyno.analysis.overload import RetainedShare, retained
from serverdyno.analysis.peak import Peak, peak
from serverdyno.plan.model import Mix


@dataclass(frozen=True, slots=True)
class CurveShape:
    """Indices are those of the suite's mixes, from 0. None: the figures can't carry it.

    `near_peak`: the first mix with 95 % of the highest mean.
    """

    peak: Peak | None
    near_peak: int | None
    retained: RetainedShare | None
    dips: Dips


def shape_of(mixes: Sequence[Mix], throughput: curve.Throughput) -> CurveShape:
    """Of repetitions x mixes; the load of a mix is its number of connections."""
    loads = [float(mix.clients * mix.threads) for mix in mixes]
    means = [point.mean if (point := curve.spread(column)) else float("nan") for column in throughput.T]
    return CurveShape(
        peak=peak(throughput),
        near_peak=curve.near_peak_from(means),
        retained=retained(throughput),
        dips=dips(loads, throughput),
    )
