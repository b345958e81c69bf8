"""Response times from recorded HDR histograms: the only place of the report that decodes them.

Histograms of repetitions are merged before a percentile is read: percentiles can't be averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno import units
from serverdyno._native import Histogram
from serverdyno.analysis.trust import percentile_is_known

QUANTILES = (0.5, 0.95, 0.99, 0.999)
QUANTILE_NAMES = ("p50", "p95", "p99", "p99.9")


@dataclass(frozen=True, slots=True)
class Times:
    """Times in ms. `percentiles_ms` follows `QUANTILES`; None where too few samples lie beyond a quantile.

    `deviation_ms`: standard deviation of the samples about their mean.
    """

    count: int
    mean_ms: float
    deviation_ms: float
    min_ms: float
    max_ms: float
    percentiles_ms: tuple[float | None, ...]


def times(blobs: Sequence[bytes]) -> Times | None:
    """The merged times of HDR V2 histograms of nanoseconds; None when they hold no sample."""
    merged = Histogram.merged([blob for blob in blobs if blob])
    if merged.count == 0:
        return None
    return Times(
        count=merged.count,
        mean_ms=merged.mean / units.NS_PER_MS,
        deviation_ms=merged.deviation / units.NS_PER_MS,
        min_ms=merged.min / units.NS_PER_MS,
        max_ms=merged.max / units.NS_PER_MS,
        percentiles_ms=tuple(
            merged.value_at(quantile) / units.NS_PER_MS
            if percentile_is_known(merged.count, quantile)
            else None
            for quantile in QUANTILES
        ),
    )


def samples(blob: bytes) -> int:
    """How many samples one histogram holds."""
    return Histogram.from_bytes(blob).count if blob else 0
