"""Which configurations are set against which, and verdicts that hold for all comparisons together.

Every pair while they are few; else each with the first, which the plan puts there as the base. Verdicts hold for all of
them together (`analysis.comparisons`); the intervals stay those of single comparisons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from serverdyno.analysis.comparability import Conditions, obstacles
from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.durability import Outcome, differs
from serverdyno.analysis.improvement import Improvement, Verdict
from serverdyno.analysis.trust import Mark, limits
from serverdyno.report.figures.results import ConfigurationResult, MixResult
from serverdyno.report.model import Comparison

MOST_PAIRWISE = 8
"""Configurations: eight make 28 pairs, as many as a table can be read for."""

Pair = tuple[ConfigurationResult, ConfigurationResult]


def pairs(configurations: Sequence[ConfigurationResult]) -> list[Pair]:
    """Those with the first come first, in the order of the plan."""
    if len(configurations) <= MOST_PAIRWISE:
        return list(combinations(configurations, 2))
    base, *others = configurations
    return [(base, other) for other in others]


def compared(
    found: Sequence[Pair], did: Mapping[str, Outcome], *, paired: bool, minimum_percent: float
) -> tuple[Comparison, ...]:
    """Overall average and peak of the second of each pair against the first, with verdicts for all together.

    `did`: what each did with a flush, by its name.
    """
    sides = {result.name: result.runs for pair in found for result in pair}
    places = {name: place for place, name in enumerate(sides)}
    improvements = compare(
        list(sides.values()),
        [(places[base.name], places[other.name]) for base, other in found],
        paired=paired,
        minimum_percent=minimum_percent,
    )
    return tuple(
        _comparable_alone(_comparison(pair, of_it, did), pair)
        for pair, of_it in zip(found, improvements, strict=True)
    )


def _comparison(pair: Pair, improvements: tuple[Improvement, ...], did: Mapping[str, Outcome]) -> Comparison:
    base, other = pair
    return Comparison(
        base=base.name,
        other=other.name,
        improvements=improvements,
        differs_in_durability=differs(did, base.name, other.name),
        limits=tuple((result.name, mark) for result in pair for mark in limits(result.marks)),
        parts_of_a_pass=frozenset(
            found.figure
            for found in improvements
            if _part_of_a_pass(base, found.base_read_at) or _part_of_a_pass(other, found.other_read_at)
        ),
    )


def _comparable_alone(comparison: Comparison, pair: Pair) -> Comparison:
    """The same without the verdicts that may not be given; what was measured stays."""
    base, other = pair
    reasons = {
        found.figure: why
        for found in comparison.improvements
        if found.percent is not None
        and (
            why := obstacles(
                _conditions(base, found.base_read_at),
                _conditions(other, found.other_read_at),
                found,
                differs_in_durability=comparison.differs_in_durability,
            )
        )
    }
    improvements = tuple(
        replace(found, verdict=Verdict.NOT_COMPARABLE) if found.figure in reasons else found
        for found in comparison.improvements
    )
    return replace(comparison, improvements=improvements, obstacles=reasons)


def _conditions(result: ConfigurationResult, places: Collection[int]) -> Conditions:
    mixes = [mix for place in places if (mix := result.mixes[place]) is not None]
    others = [mix.others_cpus for mix in mixes if mix.others_cpus is not None]
    operations: Counter[str] = Counter()
    for mix in mixes:
        operations.update(mix.operations)
    return Conditions(
        name=result.name,
        left_share=max((mix.clients_left / (mix.clients * mix.repetitions) for mix in mixes), default=0.0),
        failed_share=max((_failed_share(mix) for mix in mixes), default=0.0),
        others_cpus=sum(others) / len(others) if others else None,
        cpus=min((min(mix.server_cpus or 1, mix.cost.generator_threads) for mix in mixes), default=1),
        operations=operations,
    )


def _failed_share(mix: MixResult) -> float:
    attempts = sum(mix.operations.values()) + mix.errors_in_window
    return mix.errors_in_window / attempts if attempts else 0.0


def _part_of_a_pass(result: ConfigurationResult, read_at: Collection[int]) -> bool:
    """Whether one of the mixes at which a figure was read is marked so."""
    mixes = [result.mixes[place] for place in read_at]
    return any(mix is not None and Mark.PART_OF_A_PASS in mix.marks for mix in mixes)
