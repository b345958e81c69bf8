"""Configurations as sides of a comparison in `analysis.pairs`: their runs, marks and conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial

from serverdyno.analysis.comparability import Conditions, explained_share
from serverdyno.analysis.pairs import Side
from serverdyno.analysis.trust import Mark, generator_marks, limits
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results


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
            for place, mix in enumerate(result.mixes)
            if mix is not None and Mark.PART_OF_A_PASS in mix.marks
        ),
        did=results.outcomes.get(name),
        conditions=partial(_conditions, called, result),
    )


def limits_of_average(result: ConfigurationResult) -> tuple[Mark, ...]:
    """Return what limits a configuration's overall average besides the server.

    The generator counts as a limit if it may hide enough of the average; one slow level hides little. For open load,
    whose levels are compared one by one, return every limit of any level.
    """
    hidden = _hidden_speed(result.finished)
    if hidden is None or any(mix.open is not None for mix in result.finished):
        return limits(result.marks)
    return limits(generator_marks(hidden) | (result.marks & {Mark.RATE_BOUND}))


def _conditions(name: str, result: ConfigurationResult, places: Collection[int]) -> Conditions:
    mixes = [mix for place in places if (mix := result.mixes[place]) is not None]
    operations: Counter[str] = Counter()
    for mix in mixes:
        operations.update(mix.operations)
    return Conditions(
        name=name,
        left_share=max((mix.clients_left / (mix.clients * mix.repetitions) for mix in mixes), default=0.0),
        failed_share=max((mix.failed_share for mix in mixes), default=0.0),
        slowed=_of_mean([(_slowed(mix), mix) for mix in mixes]),
        operations=operations,
        hidden_speed=_hidden_speed(mixes),
        rate_bound=any(Mark.RATE_BOUND in mix.marks for mix in mixes),
    )


def _hidden_speed(mixes: Sequence[MixFigures]) -> float | None:
    """Return the throughput-weighted hidden speed of the mean over the levels; None unless measured at all levels."""
    return _of_mean([(mix.hidden_speed, mix) for mix in mixes])


def _of_mean(shares: Sequence[tuple[float | None, MixFigures]]) -> float | None:
    """Return the mean of the levels' shares, weighted by throughput; None unless every share is known."""
    known = [(share, mix.throughput.mean) for share, mix in shares if share is not None]
    total = sum(weight for _, weight in known)
    if len(known) < len(shares) or not total:
        return None
    return sum(share * weight for share, weight in known) / total


def _slowed(mix: MixFigures) -> float | None:
    """Return an upper bound on how much other programs may have slowed a level; None if unknown."""
    if mix.others_cpus is None:
        return None
    cpus = min(mix.server_cpus or 1, mix.cost.generator_threads)
    busy = 1.0 if mix.server_share is None else max(mix.server_share, mix.cost.generator_cpu_share)
    return explained_share(mix.others_cpus, cpus, busy + mix.others_cpus / cpus)
