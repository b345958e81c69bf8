"""Which figures need a mark: where the generator, the plan or the machine, not the server, may have set them.

Rule 2 of measurement: a mix at or above 80 % of the generator's measured ceiling is marked generator-limited
and never reported as the server's peak without that mark. Errors are not counted here.
"""

from __future__ import annotations

from enum import StrEnum

GENERATOR_LIMITED_SHARE = 0.80
SATURATED_SHARE = 0.95
RATE_BOUND_SHARE = 0.90
NOISY_CPUS = 0.10
"""CPU seconds a second, of one CPU and not of all: the generator's and the server's are single CPUs too."""
SAMPLES_BEYOND_PERCENTILE = 10


class Mark(StrEnum):
    """Why a figure must be read with care. Letters in tables: `LETTERS`."""

    GENERATOR_LIMITED = "generator-limited: at least 80 % of what the generator can make here"
    GENERATOR_SATURATED = "generator CPU saturated: at least 95 % of its threads' time"
    CEILING_UNKNOWN = "ceiling unknown: the generator may be what was measured"
    RATE_BOUND = "rate-bound: at least 90 % of the rate that the plan allows"
    NOISY = "noisy: others, or the hypervisor, took more than 10 % of a CPU"
    ERRORS = "errors in the mix, in its ramps included"
    CLIENTS_LEFT = "clients left the mix"
    STARVED = "clients without a completed operation in the window: the figures are of the others"
    STALLED = "stalled: a second or more of the window without any completed operation"
    MISSING = "fewer repetitions than planned"
    PART_OF_A_PASS = (
        "part of a pass: less than one pass of the workload in the window, in the mean of the clients, in the "
        "repetition with the fewest, so a quicker server was asked for other operations"
    )


LETTERS = {
    Mark.GENERATOR_LIMITED: "G",
    Mark.GENERATOR_SATURATED: "S",
    Mark.CEILING_UNKNOWN: "U",
    Mark.RATE_BOUND: "R",
    Mark.NOISY: "N",
    Mark.ERRORS: "E",
    Mark.CLIENTS_LEFT: "L",
    Mark.STARVED: "C",
    Mark.STALLED: "T",
    Mark.MISSING: "M",
    Mark.PART_OF_A_PASS: "P",
}


LIMITS = {
    Mark.RATE_BOUND: "rate-bound",
    Mark.GENERATOR_LIMITED: "generator-limited",
    Mark.GENERATOR_SATURATED: "generator-saturated",
}
"""Marks of figures that something else than the server may have set, as an adjective."""


def limits(marks: frozenset[Mark]) -> tuple[Mark, ...]:
    """Those of the marks that are limits. Saturated is the same as generator-limited, by another measure."""
    repeated = Mark.GENERATOR_SATURATED if Mark.GENERATOR_LIMITED in marks else None
    return tuple(mark for mark in LIMITS if mark in marks and mark is not repeated)


def share_of_ceiling(operations_s: float, ceiling_operations_s: float | None) -> float | None:
    """Throughput as a share of the generator's ceiling, both in operations/s; None where it is unknown."""
    if ceiling_operations_s is None or ceiling_operations_s <= 0:
        return None
    return operations_s / ceiling_operations_s


def is_saturated(cpu_share: float) -> bool:
    """Whether a share of CPU time is as good as all of it."""
    return cpu_share >= SATURATED_SHARE


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
    if is_saturated(cpu_share):
        found.add(Mark.GENERATOR_SATURATED)
    return frozenset(found)


def rate_marks(attempts_s: float, max_rate_per_s: float | None) -> frozenset[Mark]:
    """The mark of a mix that its plan's bound held. `attempts_s`: requests/s, failed ones too; None: no bound."""
    held = max_rate_per_s is not None and attempts_s >= RATE_BOUND_SHARE * max_rate_per_s
    return frozenset({Mark.RATE_BOUND} if held else ())


def machine_marks(others_cpus: float | None, steal_cpus: float | None) -> frozenset[Mark]:
    """The mark of a mix that others disturbed, from CPU seconds a second; None, where unknown, marks nothing."""
    taken = max((cpus for cpus in (others_cpus, steal_cpus) if cpus is not None), default=0.0)
    return frozenset({Mark.NOISY} if taken > NOISY_CPUS else ())


def percentile_is_known(samples: int, quantile: float) -> bool:
    """Whether at least ten samples lie beyond the quantile; with fewer, single ones decide its value."""
    return samples * (1 - quantile) >= SAMPLES_BEYOND_PERCENTILE - 1e-9
