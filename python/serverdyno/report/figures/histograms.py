"""Decode recorded HDR histograms of response times.

Histograms of repetitions are merged before a percentile is read, because percentiles can't be averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno import units
from serverdyno._native import Histogram
from serverdyno.analysis.trust import percentile_is_known

QUANTILES = (0.5, 0.95, 0.99, 0.999)
MEDIAN = 0.5
QUANTILE_NAMES = ("p50", "p95", "p99", "p99.9")
"""Names of percentiles for people. `units.percentile_name` gives the names of columns and keys."""


@dataclass(frozen=True, slots=True)
class Times:
    """Response times in ms.

    `percentiles_ms` follows `QUANTILES`; None if too few samples lie beyond a quantile. `deviation_ms` is the standard
    deviation of the samples.
    """

    count: int
    mean_ms: float
    deviation_ms: float
    min_ms: float
    max_ms: float
    percentiles_ms: tuple[float | None, ...]


def times(blobs: Sequence[bytes], timeouts: int = 0, timeout_ms: float = 0.0) -> Times | None:
    """Merge HDR V2 histograms of nanoseconds and return their times; None if they hold no sample.

    `timeouts` counts the operations that had no answer after `timeout_ms` or were never sent. Percentiles rank them
    above every success. Otherwise a server that answers half of its requests at once, and the others never, would have
    a median of a millisecond.
    """
    merged = Histogram.merged([blob for blob in blobs if blob])
    if merged.count == 0:
        return None
    mean_ns, deviation_ns = merged.mean_and_deviation()
    return Times(
        count=merged.count,
        mean_ms=mean_ns / units.NS_PER_MS,
        deviation_ms=deviation_ns / units.NS_PER_MS,
        min_ms=merged.min / units.NS_PER_MS,
        max_ms=merged.max / units.NS_PER_MS,
        percentiles_ms=tuple(
            _percentile_ms(merged, quantile, timeouts, timeout_ms) for quantile in QUANTILES
        ),
    )


def _percentile_ms(merged: Histogram, quantile: float, timeouts: int, timeout_ms: float) -> float | None:
    """Return a percentile, or a lower bound on it if it falls on a timeout; None if unknown."""
    samples = merged.count + timeouts
    if not percentile_is_known(samples, quantile):
        return None
    of_successes = quantile * samples / merged.count
    if of_successes > 1:
        return max(timeout_ms, merged.max / units.NS_PER_MS)
    return merged.value_at(of_successes) / units.NS_PER_MS


def quantiles(blob: bytes, wanted: Sequence[float]) -> tuple[int, list[tuple[float, float]]]:
    """Return the number of samples and the quantiles in ms. The median is given even for few samples."""
    if not blob:
        return 0, []
    found = Histogram.from_bytes(blob)
    if found.count == 0:
        return 0, []
    return found.count, [
        (quantile, found.value_at(quantile) / units.NS_PER_MS)
        for quantile in wanted
        if quantile <= MEDIAN or percentile_is_known(found.count, quantile)
    ]


def samples(blob: bytes) -> int:
    return Histogram.from_bytes(blob).count if blob else 0
