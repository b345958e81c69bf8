"""Decide which figures need a mark, because the generator, the plan or the machine may have limited them.

The generator judges itself by its measurements at every level. `waiting_share` g is the share of the clients' time that
was spent waiting in or for the generator. In closed load, a server without that wait would get its requests sooner, by
at most the factor 1 / (1 - g). If a share U of its CPUs was busy, it can't get faster than by 1 / U. The smaller of the
two, less 1, is the hidden speed: an upper bound on how much faster the server may be than shown.

g is the sum of two kinds of waiting. Ready work is measured exactly (`crates/net/src/ready_work.rs`). While an engine
thread waits for a CPU (run delay), some or all of its clients wait for it, or none do. So this part is only a bound. A
bound that exceeds the ready work's by more than `LOOSE_SPEED` is too vague to be stated. Errors are marked separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

HIDDEN_SPEED = 0.10
"""Hidden speed above which a figure is marked generator-limited."""
LOOSE_SPEED = 0.10
"""Largest amount by which the stated hidden speed may exceed the true one."""
IDLE_SHARE = 0.05
"""Share of the clients' time spent waiting for the generator, below which the generator does not limit them."""
IDLE_CPU_SHARE = 0.05
"""CPU share of the busiest generator thread below which the generator hardly works, and so limits no throughput."""
MOSTLY_WAITING = 0.5
"""Share of the clients' time spent waiting for the generator, above which nothing else can be called the limit."""
THINKING_SHARE = 0.5
"""Share of think time in the clients' time from which it limits the throughput."""
ALL_TIME = 0.9
"""Share of think and response times in the clients' time from which they count as all of it."""
BUSY_SHARE = 0.85
"""Busy share of the server's CPUs at which they limit it: queues grow with 1 / (1 - U)."""
LEAST_SHOWN = 0.01
"""Smallest share of the server's true speed that is distinguished, so a hidden speed is at most 99."""
RATE_BOUND_SHARE = 0.90
LINK_BOUND_SHARE = 0.95
"""Used share of the capacity of the plan's links from which they limit a level. The used share is a lower bound."""
FAILED_SHARE = 0.10
"""Largest share of failed operations in a window. Beyond it, the failures determine the speed of the rest."""
TAKEN_SHARE = 0.02
"""Tolerated share of the generator's or server's CPUs that others take, and of the window spent waiting for a CPU."""
DISK_SHARE = 0.10
"""Share of the window in which some process waited for a disk, above which the disk is the limit."""
RISES_SHARE = 0.05
"""Smallest rise to the next load level, as a share, that counts as higher throughput with more clients."""
SAMPLES_BEYOND_PERCENTILE = 10


class Mark(StrEnum):
    """A reason to read a figure with care. `LETTERS` contains the letters used in tables."""

    GENERATOR_LIMITED = "generator-limited: the server may be more than 10 % faster than shown"
    RATE_BOUND = "rate-bound: at least 90 % of the rate that the plan allows"
    LINK_BOUND = "link-bound: at least 95 % of what the plan's links can carry"
    NOISY = (
        "noisy: other programs or the hypervisor took more than 2 % of the generator's or the server's "
        "CPUs, or the generator waited for a CPU for more than 2 % of the window"
    )
    ERRORS = "errors: operations failed at the load level, ramps included"
    CLIENTS_LEFT = "lost clients: some could not begin, or left before the end of the load level"
    STARVED = (
        "clients without a completed operation in the window: the figures describe only the other clients"
    )
    BEHIND = (
        "behind: more operations were due than the server answered, so its response times grow with the "
        "length of the load level"
    )
    STALLED = "stalled: a second or more of the window without any completed operation"
    DRIFTING = (
        "drifting: the throughput of the window's halves differs by more than 5 %, and by more than the scatter of "
        "its seconds"
    )
    MISSING = "fewer repetitions than planned"
    PART_OF_A_PASS = (
        "part of a pass: in at least one repetition, clients completed less than one pass of the workload "
        "on average, so a faster server received different operations"
    )


LETTERS = {
    Mark.GENERATOR_LIMITED: "G",
    Mark.RATE_BOUND: "R",
    Mark.LINK_BOUND: "K",
    Mark.NOISY: "N",
    Mark.ERRORS: "E",
    Mark.CLIENTS_LEFT: "L",
    Mark.STARVED: "C",
    Mark.BEHIND: "B",
    Mark.STALLED: "T",
    Mark.DRIFTING: "D",
    Mark.MISSING: "M",
    Mark.PART_OF_A_PASS: "P",
}


LIMITS = {
    Mark.RATE_BOUND: "rate-bound",
    Mark.LINK_BOUND: "link-bound",
    Mark.GENERATOR_LIMITED: "generator-limited",
}
"""Marks of figures that something other than the server may have limited, with the adjective for each."""


class Limit(StrEnum):
    """The resource that limited a level, as far as the record shows."""

    RATE = "the plan's rate"
    LINK = "the plan's links"
    FAILURES = "failed operations"
    GENERATOR = "generator"
    CPU_WAIT = "wait for a CPU"
    SERVER = "server CPU"
    DISK = "disk"
    ROUND_TRIP = "latency"
    OFFERED = "the offered rate"
    CONNECTIONS = "connections"
    THINKING = "think time"
    UNSEEN = "latency or locks"


def limits(marks: frozenset[Mark]) -> tuple[Mark, ...]:
    """Return those marks that `LIMITS` contains."""
    return tuple(mark for mark in LIMITS if mark in marks)


def waiting_share(
    ready_work_s: float | None, clients_s: float | None, run_delay: float | None
) -> float | None:
    """Return the largest share of the clients' time spent waiting in or for the generator; None if not known.

    `clients_s` is clients times threads times the window, think time included. `run_delay` is the mean share of the
    window in which the generator's threads were ready but had no CPU.
    """
    if ready_work_s is None or not clients_s or run_delay is None:
        return None
    return min(1.0, ready_work_s / clients_s + run_delay)


def is_held_by_thinking(thinking: float, under_way: float) -> bool:
    """Return whether think times limit the clients, regardless of the generator's share of the response times.

    `thinking`: the demanded think times as a share of the clients' time; `under_way`: the share spent in operations.
    """
    return thinking >= THINKING_SHARE and thinking + under_way >= ALL_TIME


def hidden_speed(waiting: float | None, server_share: float | None) -> float | None:
    """Return an upper bound on how much faster the server may be than shown: 0.25 for 25 %; None if not known.

    `waiting` is the result of `waiting_share`. `server_share` is the busy share of the server's CPUs; None if unknown.
    """
    if waiting is None:
        return None
    shown = max(1 - waiting, server_share or 0.0, LEAST_SHOWN)
    return max(0.0, 1 / shown - 1)


def is_loose(hidden: float | None, without_run_delay: float | None) -> bool:
    """Return whether a hidden speed may exceed the true one by so much that it should not be stated."""
    return hidden is not None and hidden - (without_run_delay or 0.0) > LOOSE_SPEED


def generator_marks(hidden: float | None) -> frozenset[Mark]:
    """Return the mark of a level whose server may be faster by `hidden`. None (not known) marks nothing."""
    return frozenset({Mark.GENERATOR_LIMITED} if hidden is not None and hidden > HIDDEN_SPEED else ())


def waits_for_cpu(marks: frozenset[Mark], cpu_share: float, run_delay: float | None) -> bool:
    """Return whether a generator that hardly works limits a level only because it waits for a CPU.

    `cpu_share` is the CPU share of the busiest thread. `run_delay` is the mean share of the window in which threads
    were ready but had no CPU.
    """
    return (
        Mark.GENERATOR_LIMITED in marks
        and cpu_share < IDLE_CPU_SHARE
        and run_delay is not None
        and run_delay > TAKEN_SHARE
    )


def marked_limits(marks: frozenset[Mark], cpu_share: float, run_delay: float | None) -> frozenset[Limit]:
    """Return the limits that the marks of a level show. `cpu_share` and `run_delay`: see `waits_for_cpu`."""
    shown = {
        Limit.RATE: Mark.RATE_BOUND in marks,
        Limit.LINK: Mark.LINK_BOUND in marks,
        Limit.GENERATOR: Mark.GENERATOR_LIMITED in marks and cpu_share >= IDLE_CPU_SHARE,
        Limit.CPU_WAIT: waits_for_cpu(marks, cpu_share, run_delay),
    }
    return frozenset(limit for limit, holds in shown.items() if holds)


def seen_limits(
    marked: frozenset[Limit],
    waiting: float | None,
    server_share: float | None,
    io_wait_share: float | None,
    *,
    rises: bool | None,
) -> tuple[Limit, ...]:
    """Return what limited a level, as far as the record shows; empty if not known. `marked`: see `marked_limits`.

    If neither generator nor server is busy, the clients wait for something else. `io_wait_share` is the share of the
    window in which some process waited for a disk. `rises`: the next load level has a higher throughput, so
    each client waits only for its own answers; None if there is no higher load level.
    """
    busy = {Limit.SERVER} if server_share is not None and server_share >= BUSY_SHARE else set()
    order = (Limit.RATE, Limit.LINK, Limit.GENERATOR, Limit.SERVER, Limit.CPU_WAIT)
    found = [limit for limit in order if limit in marked | busy]
    if found or waiting is None or waiting >= IDLE_SHARE:
        return tuple(found)
    if server_share is None:  # a user's server: if its CPUs were the limit, throughput would not rise
        return (Limit.ROUND_TRIP,) if rises else ()
    if io_wait_share is not None and io_wait_share > DISK_SHARE:
        return (Limit.DISK,)
    return (Limit.ROUND_TRIP if rises else Limit.UNSEEN,)


def rate_marks(
    requests_s: float, max_rate_per_s: float | None, *, idle_window_s: float | None = None
) -> frozenset[Mark]:
    """Return the mark of a level that the plan's rate limited.

    `requests_s` includes failures. `max_rate_per_s` is None if the plan has no bound. `idle_window_s` is the window of
    clients that mostly waited for their turn: one request may then lie just outside it.
    """
    outside_s = 1 / idle_window_s if idle_window_s else 0.0
    held = max_rate_per_s is not None and requests_s + outside_s >= RATE_BOUND_SHARE * max_rate_per_s
    return frozenset({Mark.RATE_BOUND} if held else ())


def link_marks(share: float | None) -> frozenset[Mark]:
    """Return the mark of a level that used `share` of the capacity of the plan's links; None: they have no limit."""
    return frozenset({Mark.LINK_BOUND} if share is not None and share >= LINK_BOUND_SHARE else ())


def drift_marks(drifts: Mapping[int, float]) -> frozenset[Mark]:
    """Return the mark of a level with a repetition that was not steady."""
    return frozenset({Mark.DRIFTING} if drifts else ())


def taken_share(taken_cpus: float | None, cpus: int) -> float | None:
    """Return the share of `cpus` that other programs took from the generator or the server; None if not known."""
    return None if taken_cpus is None else taken_cpus / cpus


def machine_marks(taken: float | None, run_delay: float | None) -> frozenset[Mark]:
    """Return the mark of a level that other programs disturbed. None (not known) marks nothing.

    `taken` is the share that other programs and the hypervisor took (`taken_share`). `run_delay` is the mean share of
    the window in which the generator's threads were ready but had no CPU.
    """
    most = max((share for share in (taken, run_delay) if share is not None), default=0.0)
    return frozenset({Mark.NOISY} if most > TAKEN_SHARE else ())


def percentile_is_known(samples: int, quantile: float) -> bool:
    """Return whether at least ten samples lie beyond the quantile; with fewer, single samples decide its value."""
    return samples * (1 - quantile) >= SAMPLES_BEYOND_PERCENTILE - 1e-9
