"""Configurations at equal offered rate: the 99th percentile of the response time, level by level.

A level at which a side did not keep up has no such figure: there it is of the length of the mix, and that side is named
instead.
"""

from __future__ import annotations

from itertools import combinations

from serverdyno.report.figures import histograms
from serverdyno.report.figures.open_load import kept_up, unanswered
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.source import Source
from serverdyno.report.subjects.times_compared import TimesCompared, compared, side_of_times
from serverdyno.store.records import MixRecord

QUANTILE = histograms.QUANTILES.index(0.99)
RESOLUTION_PERCENT = 0.2
"""Two buckets of a histogram of three digits: equal servers may be in neighbouring ones in every run."""


def at_equal_rate(source: Source, results: Results) -> tuple[TimesCompared, ...]:
    """Each pair of configurations of an open experiment, the earlier of the plan as the base."""
    timeout_ms = source.head.suite.timeout_s * 1000
    by_side = [
        side_of_times(side, result, results, lambda record: _p99_ms(record, timeout_ms))
        for side, result in zip(sides(results), results.configurations, strict=True)
    ]
    return compared(
        list(combinations(by_side, 2)),
        paired=source.paired,
        minimum_percent=max(source.head.plan.minimum_effect_percent, RESOLUTION_PERCENT),
    )


def _p99_ms(record: MixRecord, timeout_ms: float) -> float | None:
    """As in the table of response times: what had no answer took longer than every answer."""
    if not kept_up(record):
        return None
    found = histograms.times([record.response_time_hdr], *unanswered([record], timeout_ms))
    return None if found is None else found.percentiles_ms[QUANTILE]
