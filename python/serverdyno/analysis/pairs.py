"""Choose which configurations to compare, and judge all comparisons together.

With few configurations, every pair is compared. Otherwise each configuration is compared with the first, which is the
plan's baseline. Verdicts hold for all comparisons together (`comparisons`), and are given only if two figures are
comparable (`comparability`). Intervals apply to single comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from serverdyno.analysis.comparability import Conditions, Obstacle, is_at_least, obstacles
from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.durability import Outcome, differs
from serverdyno.analysis.improvement import NO_MARGINS, Improvement, Margins, Metric, Runs, Verdict
from serverdyno.analysis.trust import Mark

MOST_PAIRWISE = 8
"""Maximum number of configurations that are compared pairwise. Eight have 28 pairs, which still fit a table."""


@dataclass(frozen=True, slots=True)
class Side:
    """A configuration as a side of comparisons. Levels are given by their index.

    `limits` are the marks of its levels that something other than the server limited. `parts_of_a_pass` are the levels
    with less than one pass of the workload. `did` is the effect of a flush; None if nothing is flushed. `conditions`
    returns the conditions of given levels.
    """

    name: str
    runs: Runs
    limits: tuple[Mark, ...]
    parts_of_a_pass: frozenset[int]
    did: Outcome | None
    conditions: Callable[[Collection[int]], Conditions]


Pair = tuple[Side, Side]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of `other` with `base`: two configurations, or one configuration in two experiments.

    The verdict of each improvement is final. `limits` are the marks of levels that something other than the server
    limited, each with the side's name. `obstacles` are the reasons why a measured figure is not comparable, and
    `withheld` is the verdict that it would otherwise have. `differs_in_durability`: whether the two treated a flush
    differently; None if not known. `parts_of_a_pass` are the figures for which clients of either side made, on average,
    less than one pass of the workload in a window. The two sides then got different operations.
    """

    base: str
    other: str
    improvements: tuple[Improvement, ...]
    limits: tuple[tuple[str, Mark], ...] = ()
    differs_in_durability: bool | None = False
    parts_of_a_pass: frozenset[Metric] = frozenset()
    obstacles: Mapping[Metric, tuple[Obstacle, ...]] = field(default_factory=dict)
    withheld: Mapping[Metric, Verdict] = field(default_factory=dict)

    @property
    def average(self) -> Improvement:
        return next(found for found in self.improvements if found.figure is Metric.OVERALL_AVERAGE)

    def left_out(self, found: Improvement) -> str:
        """Return the outlying repetition that a figure excludes: `repetition 4 of nginx`; empty if it excludes none."""
        if found.odd is None:
            return ""
        return f"repetition {found.odd.repetition} of {self.base if found.odd.of_base else self.other}"

    @property
    def faster(self) -> str:
        """Return the name of the side that is proven faster in the overall average; empty if neither is."""
        return {Verdict.FASTER: self.other, Verdict.SLOWER: self.base}.get(self.average.verdict, "")

    @property
    def at_least(self) -> bool:
        """Return whether the true difference can only be larger, because only the faster side was limited."""
        held = {name for name, _ in self.limits}
        return is_at_least(self.average.verdict, base_held=self.base in held, other_held=self.other in held)


def pairs(sides: Sequence[Side]) -> list[Pair]:
    """Return the pairs to compare, in the order of the plan; pairs with the first configuration are first."""
    if len(sides) <= MOST_PAIRWISE:
        return list(combinations(sides, 2))
    base, *others = sides
    return [(base, other) for other in others]


def compared(
    found: Sequence[Pair], *, paired: bool, margins: Margins = NO_MARGINS, between: Contrast | None = None
) -> tuple[Comparison, ...]:
    """Compare the second side of each pair with the first by overall average and peak, and judge all pairs together.

    `margins` and `between` are as in `comparisons.compare`.
    """
    runs = {side.name: side.runs for pair in found for side in pair}
    places = {name: place for place, name in enumerate(runs)}
    improvements = compare(
        list(runs.values()),
        [(places[base.name], places[other.name]) for base, other in found],
        paired=paired,
        margins=margins,
        between=between,
    )
    return tuple(
        _comparable_alone(_comparison(pair, of_it), pair)
        for pair, of_it in zip(found, improvements, strict=True)
    )


def _comparison(pair: Pair, improvements: tuple[Improvement, ...]) -> Comparison:
    base, other = pair
    return Comparison(
        base=base.name,
        other=other.name,
        improvements=improvements,
        differs_in_durability=differs(base.did, other.did),
        limits=tuple((side.name, mark) for side in pair for mark in side.limits),
        parts_of_a_pass=frozenset(
            found.figure
            for found in improvements
            if base.parts_of_a_pass.intersection(found.base_read_at)
            or other.parts_of_a_pass.intersection(found.other_read_at)
        ),
    )


def _comparable_alone(comparison: Comparison, pair: Pair) -> Comparison:
    """Return the comparison without verdicts on figures that are not comparable. The measured figures stay."""
    base, other = pair
    reasons = {
        found.figure: why
        for found in comparison.improvements
        if found.percent is not None
        and (
            why := obstacles(
                base.conditions(found.base_read_at),
                other.conditions(found.other_read_at),
                found,
                differs_in_durability=comparison.differs_in_durability,
            )
        )
    }
    improvements = tuple(
        replace(found, verdict=Verdict.NOT_COMPARABLE) if found.figure in reasons else found
        for found in comparison.improvements
    )
    withheld = {found.figure: found.verdict for found in comparison.improvements if found.figure in reasons}
    return replace(comparison, improvements=improvements, obstacles=reasons, withheld=withheld)


def verdict_of(comparisons: Sequence[Comparison]) -> Verdict:
    """Return one verdict for a program to act on: `most_alarming` of all comparisons."""
    return most_alarming(
        {improvement.verdict for comparison in comparisons for improvement in comparison.improvements}
    )


def most_alarming(found: Collection[Verdict]) -> Verdict:
    """Return the most alarming verdict.

    The order is: slower, not comparable, measured at different times, too few repetitions, no difference shown,
    equivalent. The result is "faster" only if all verdicts are, and "not comparable" if there is no verdict.
    """
    alarming = (
        Verdict.SLOWER,
        Verdict.NOT_COMPARABLE,
        Verdict.NOT_SEPARATED,
        Verdict.TOO_FEW_REPETITIONS,
        Verdict.NO_DIFFERENCE_SHOWN,
        Verdict.EQUIVALENT,
    )
    if not found:
        return Verdict.NOT_COMPARABLE
    return next((verdict for verdict in alarming if verdict in found), Verdict.FASTER)
