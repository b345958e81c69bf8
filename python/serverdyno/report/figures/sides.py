"""Configurations as sides of a comparison in `analysis.pairs`: their runs, marks and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial

from serverdyno.analysis.comparability import Conditions, explained_share
from serverdyno.analysis.pairs import Side
from serverdyno.analysis.trust import Mark, generator_marks, limits
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results


def sides(results: Results) -> list[Side]:
    return [side(results, result.name) for result in results.configurations]


def side(results: Results, name: str, called: str = "") -> Side:
    """Return a configuration as a side of a comparison. `called`: its name in the comparison; empty: its own."""
    result, called = results.of(name), called or name
    return Side(
        name=called,
        runs=result.runs,
        limits=limits_of_average(result),
        parts_of_a_pass=frozenset(
            place
            for place, level in enumerate(result.levels)
            if level is not None and Mark.PART_OF_A_PASS in level.marks
        ),
        did=results.outcomes.get(name),
        conditions=partial(_conditions, called, result),
    )


def limits_of_average(result: ConfigurationResult) -> tuple[Mark, ...]:
    """Return the limits of a configuration's overall average other than the server.

    The generator counts as a limit if it may hide enough of the average, and the plan's links if they limited most of
    it: one slow level says little. For open load,
    whose levels are compared one by one, return every limit of any level.
    """
    hidden = _hidden_speed(result.finished)
    if hidden is None or any(level.open is not None for level in result.finished):
        return limits(result.marks)
    linked = {Mark.LINK_BOUND} if _is_link_bound(result.finished) else set[Mark]()
    return limits(generator_marks(hidden) | (result.marks & {Mark.RATE_BOUND}) | linked)


def _conditions(name: str, result: ConfigurationResult, places: Collection[int]) -> Conditions:
    levels = [level for place in places if (level := result.levels[place]) is not None]
    operations: Counter[str] = Counter()
    for level in levels:
        operations.update(level.operations)
    return Conditions(
        name=name,
        left_share=max(
            (level.clients_left / (level.clients * level.repetitions) for level in levels), default=0.0
        ),
        failed_share=max((level.failed_share for level in levels), default=0.0),
        slowed=_of_mean([(_slowed(level), level) for level in levels]),
        operations=operations,
        hidden_speed=_hidden_speed(levels),
        rate_bound=any(Mark.RATE_BOUND in level.marks for level in levels),
        link_bound=_is_link_bound(levels),
    )


def _is_link_bound(levels: Sequence[LevelFigures]) -> bool:
    """Return whether the plan's links limited more than half of the throughput that a mean over the levels adds up."""
    bound = sum(level.throughput.mean for level in levels if Mark.LINK_BOUND in level.marks)
    return bound > sum(level.throughput.mean for level in levels) / 2


def _hidden_speed(levels: Sequence[LevelFigures]) -> float | None:
    """Return the throughput-weighted hidden speed of the mean over the levels; None unless measured at all levels."""
    return _of_mean([(level.hidden_speed, level) for level in levels])


def _of_mean(shares: Sequence[tuple[float | None, LevelFigures]]) -> float | None:
    """Return the mean of the levels' shares, weighted by throughput; None unless every share is known."""
    known = [(share, level.throughput.mean) for share, level in shares if share is not None]
    total = sum(weight for _, weight in known)
    if len(known) < len(shares) or not total:
        return None
    return sum(share * weight for share, weight in known) / total


def _slowed(level: LevelFigures) -> float | None:
    """Return an upper bound on how much other programs may have slowed a level; None if unknown."""
    if level.others_cpus is None:
        return None
    cpus = min(level.server_cpus or 1, level.cost.generator_threads)
    busy = 1.0 if level.server_share is None else max(level.server_share, level.cost.generator_cpu_share)
    return explained_share(level.others_cpus, cpus, busy + level.others_cpus / cpus)
