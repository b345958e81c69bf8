"""Which figures need a mark: where the generator, not the server, may have set the result.

Rule 2 of measurement: a mix at or above 80 % of the generator's measured ceiling is marked generator-limited
and never reported as the server's peak without that mark. Errors are not counted here.
"""

from __future__ import annotations

from enum import StrEnum

GENERATOR_LIMITED_SHARE = 0.80
GENERATOR_SATURATED_SHARE = 0.95
SAMPLES_BEYOND_PERCENTILE = 10


class Mark(StrEnum):
    """Why a figure must be read with care. Letters in tables: `LETTERS`."""

    GENERATOR_LIMITED = "generator-limited: at least 80 % of what the generator can make here"
    GENERATOR_SATURATED = "generator CPU saturated: at least 95 % of its threads' time"
    CEILING_UNKNOWN = "ceiling unknown: the generator may be what was measured"
    ERRORS = "errors in the mix, in its ramps included"
    CLIENTS_LEFT = "clients left the mix"
    MISSING = "fewer repetitions than planned"


LETTERS = {
    Mark.GENERATOR_LIMITED: "G",
    Mark.GENERATOR_SATURATED: "S",
    Mark.CEILING_UNKNOWN: "U",
    Mark.ERRORS: "E",
    Mark.CLIENTS_LEFT: "L",
    Mark.MISSING: "M",
}


def share_of_ceiling(operations_s: float, ceiling_operations_s: float | None) -> float | None:
    """Throughput as a share of the generator's ceiling, both in operations/s; None where it is unknown."""
    if ceiling_operations_s is None or ceiling_operations_s <= 0:
        return None
    return operations_s / ceiling_operations_s


def generator_cpu_share(cpu_s: float, window_s: float, threads: int) -> float:
    """CPU seconds of the generator's threads in the window, as a share of what the threads had."""
    return cpu_s / (window_s * threads)


def generator_marks(share: float | None, cpu_share: float) -> frozenset[Mark]:
    """The marks of one mix, from its share of the ceiling (None: unknown) and the generator's CPU share."""
    found = set()
    if share is None:
        found.add(Mark.CEILING_UNKNOWN)
    elif share >= GENERATOR_LIMITED_SHARE:
        found.add(Mark.GENERATOR_LIMITED)
    if cpu_share >= GENERATOR_SATURATED_SHARE:
        found.add(Mark.GENERATOR_SATURATED)
    return frozenset(found)


def percentile_is_known(samples: int, quantile: float) -> bool:
    """Whether at least ten samples lie beyond the quantile; with fewer, single ones decide its value."""
    return samples * (1 - quantile) >= SAMPLES_BEYOND_PERCENTILE - 1e-9
