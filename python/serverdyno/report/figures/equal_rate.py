"""Configurations at equal offered rate: the 99th percentile of the response time, level by level.

What is compared is its inverse, the speed of the slowest hundredth, so that *faster* means a shorter time. A level at
which a side did not keep up has no such figure: there it is of the length of the mix, and that side is named instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from serverdyno.analysis.improvement import Runs
from serverdyno.analysis.levels import AtLevel, at_levels
from serverdyno.analysis.pairs import Side
from serverdyno.report.figures import histograms
from serverdyno.report.figures.open_load import kept_up, unanswered
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.source import Source
from serverdyno.store.records import MixRecord

QUANTILE = histograms.QUANTILES.index(0.99)


@dataclass(frozen=True, slots=True)
class AtEqualRate:
    """Two configurations. `found`: the levels at which both kept up and have a 99th percentile, in every repetition."""

    base: str
    other: str
    found: tuple[AtLevel, ...]


def at_equal_rate(source: Source, results: Results) -> tuple[AtEqualRate, ...]:
    """Each pair of configurations of an open experiment, the earlier of the plan as the base."""
    by_side = [
        _speed(side, result, results, source.head.suite.timeout_s * 1000)
        for side, result in zip(sides(results), results.configurations, strict=True)
    ]
    found_pairs = list(combinations(by_side, 2))
    found = at_levels(
        found_pairs,
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
        floor_percent=source.noise_floor.percent,
    )
    return tuple(
        AtEqualRate(base.name, other.name, levels)
        for (base, other), levels in zip(found_pairs, found, strict=True)
    )


def _speed(side: Side, result: ConfigurationResult, results: Results, timeout_ms: float) -> Side:
    """A side whose figure is 1 / p99."""
    records = [record for record in results.used if record.configuration == result.name]
    places = {mix.mix: place for place, mix in enumerate(result.mixes) if mix is not None}
    matrix = np.full(result.runs.throughput.shape, np.nan)
    behind = {record.mix for record in records if not kept_up(record)}
    for record in records:
        p99_ms = _p99_ms(record, timeout_ms)
        if p99_ms and record.mix not in behind:
            matrix[result.runs.repetitions.index(record.repetition), places[record.mix]] = 1 / p99_ms
    return replace(side, runs=Runs(result.runs.repetitions, matrix))


def _p99_ms(record: MixRecord, timeout_ms: float) -> float | None:
    """As in the table of response times: what had no answer took longer than every answer."""
    found = histograms.times([record.response_time_hdr], *unanswered([record], timeout_ms))
    return None if found is None else found.percentiles_ms[QUANTILE]


def change_percent(speed_percent: float | None) -> float | None:
    """Return a difference in speed as the change of the time: +100 % is -50 %."""
    return None if speed_percent is None else (1 / (1 + speed_percent / 100) - 1) * 100


def undecided(pairs: Sequence[AtEqualRate]) -> bool:
    """Whether no level of any pair has an interval."""
    return all(level.low_percent is None for pair in pairs for level in pair.found)
