"""The claims about open load: how late requests leave, and what they cost, at fixed rates, next to oha's rate mode.

Ours sends at the moments of a Poisson process and says of each request how late it left. oha sends at even intervals
and says nothing of that; `--latency-correction` counts its response times from when a request should have left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benches.ratios import Bound, Spread, spread
from benches.rounds import Run
from benches.speed import BODY_BYTES, FIGURES, Case, ReadFigure
from benches.tools import CONNECTIONS, dyno, oha

REACHED_SHARE = 0.95
"""Of the offered rate; less is not Poisson scatter at any of these rates in a second."""
RATES = (1_000, 10_000, 50_000, 100_000)
LATE = "sent late p99, ms"
LIMIT = Bound(0.2, at_least=False)
"""Of `LATE`, in every round's median, where a CPU has room."""


def _quantile_ms(detail: str, name: str) -> ReadFigure:
    def figure(run: Run) -> float | None:
        times: Any = run.details.get(detail)
        return None if not times else times[name] / 1e6

    return figure


@dataclass(frozen=True, slots=True)
class OpenCase(Case):
    """One rate."""

    rate_per_s: int = 0

    @property
    def figures(self) -> Mapping[str, ReadFigure]:
        """What is told of each tool."""
        return {
            **FIGURES,
            LATE: _quantile_ms("late_ns", "p99"),
            "response p50, ms": _quantile_ms("response_ns", "p50"),
            "response p99, ms": _quantile_ms("response_ns", "p99"),
        }


def cases() -> Iterator[OpenCase]:
    """In the order in which they are run."""
    for rate in RATES:
        yield OpenCase(
            f"open-{rate}",
            f"Reference server, {BODY_BYTES} bytes, {rate:,} requests/s offered to {CONNECTIONS} connections",
            "reference",
            {"body_bytes": BODY_BYTES},
            "/",
            (
                dyno(rate_per_s=rate),
                oha("oha", "-q", str(rate), "--latency-correction"),
            ),
            rate_per_s=rate,
        )


def lateness(case: OpenCase, runs: Sequence[Run]) -> Spread | None:
    """How late ours sent requests, over the rounds; None where none was measured.

    A run that did not reach its rate says nothing of it: its requests waited for connections. It counts as infinitely
    late.
    """
    values = [
        value if run.requests_s >= REACHED_SHARE * case.rate_per_s else math.inf
        for run in runs
        if (value := case.figures[LATE](run)) is not None
    ]
    return spread(values) if values else None
