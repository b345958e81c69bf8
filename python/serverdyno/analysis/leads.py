"""Order the configurations of an experiment by proven differences, and find the unbeaten ones.

Only final verdicts determine the order. A configuration that beats none and is not beaten is not ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.pairs import Comparison


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead of `winner` over `loser` in the overall average, as a ratio with its interval.

    `at_least`: the true ratio may be larger, so only the lower end of the interval is a bound on it.
    """

    winner: str
    loser: str
    ratio: float
    low: float
    high: float
    at_least: bool

    @property
    def stated(self) -> float:
        """Return the ratio to state: the measured one, or the proven bound if the true one may be larger."""
        return self.low if self.at_least else self.ratio


@dataclass(frozen=True, slots=True)
class Order:
    """All leads, and the names of unbeaten configurations, of the leaders among them, and of beaten ones."""

    leads: tuple[Lead, ...]
    unbeaten: tuple[str, ...]
    leaders: tuple[str, ...]
    beaten: tuple[str, ...]


def order(names: Sequence[str], comparisons: Sequence[Comparison]) -> Order:
    """Return the order of the configurations `names` that the verdicts prove."""
    leads = tuple(found for each in comparisons if (found := lead(each, each.average.verdict)) is not None)
    losers, winners = {lead.loser for lead in leads}, {lead.winner for lead in leads}
    unbeaten = tuple(name for name in names if name not in losers)
    return Order(
        leads,
        unbeaten,
        leaders=tuple(name for name in unbeaten if name in winners),
        beaten=tuple(name for name in names if name in losers),
    )


def lead(comparison: Comparison, verdict: Verdict) -> Lead | None:
    """Return the lead that a verdict on the overall average proves; None if it proves none."""
    average = comparison.average
    if average.percent is None or average.low_percent is None or average.high_percent is None:
        return None
    ratio, low, high = (
        1 + percent / 100 for percent in (average.percent, average.low_percent, average.high_percent)
    )
    at_least = comparison.at_least
    if verdict is Verdict.FASTER:
        return Lead(comparison.other, comparison.base, ratio, low, high, at_least)
    if verdict is Verdict.SLOWER:
        return Lead(comparison.base, comparison.other, 1 / ratio, 1 / high, 1 / low, at_least)
    return None
