"""Decide whether two figures can be compared at all, regardless of their interval.

An interval covers differences from run to run. It does not cover conditions that differ between the two sides.
Examples: a server dropped clients; another program took CPU time from one side; the operations differed; only one side
synced on each flush; the generator or the plan limited one side. Each of these shifts every run of one side alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from serverdyno.analysis.improvement import Improvement, Verdict
from serverdyno.analysis.trust import generator_marks

TOLERATED_SHARE = 0.01
"""Tolerated share of a level's clients that left, and of its operations that failed.

The throughput of the other clients changes by about this share, which is less than any claimed difference. A rule of
thumb.
"""
MOST_SHARE = 0.10
"""Share of missing clients or failed operations above which the load differs so much that no difference can be
claimed. Between the two shares, a difference can be claimed if it is larger than the missing load explains. A rule
of thumb."""
TOLERATED_OTHER_WORK = 0.02
"""Tolerated difference in the shares of operation classes, beyond that between two random draws of one mixture."""


class ObstacleKind(StrEnum):
    CLIENTS_LEFT = "clients left"
    FAILED = "operations failed"
    OTHER_WORK = "different operations"
    NOISE = "other programs used the machine"
    DURABILITY = "durability"
    RATE_BOUND = "limited by the plan's rate"
    LINK_BOUND = "limited by the plan's links"
    HIDDEN = "limited by the generator"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason why two figures are not comparable. `name` is the configuration that causes it; empty: both do.

    `amount` is a share; for noise and hidden speed, the share by which the configuration may be faster.
    """

    kind: ObstacleKind
    name: str = ""
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of one side at the levels from which a figure was read.

    `left_share` and `failed_share` are the largest shares of clients and operations at any level. `slowed` is an upper
    bound on how much higher the figure would be without other programs and the hypervisor; None if not known.
    `operations` counts the successful operations of each class. `hidden_speed` is an upper bound on how much higher it
    would be without the generator's delays; None if not measured. `rate_bound`: the plan's rate limited a level.
    `link_bound`: the plan's links limited most of the figure, so equal figures say nothing about the servers.
    """

    name: str
    left_share: float
    failed_share: float
    slowed: float | None
    operations: Mapping[str, int]
    hidden_speed: float | None = None
    rate_bound: bool = False
    link_bound: bool = False

    @property
    def held_back(self) -> bool:
        """Return whether the generator, or the plan's rate or links, limit the figure instead of the server."""
        return self.rate_bound or self.link_bound or bool(generator_marks(self.hidden_speed))


class Judged(Protocol):
    """A difference with its interval and the verdict of that interval alone, as in `Improvement` and `AtLevel`."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of the interval."""

    @property
    def low_percent(self) -> float | None:
        """The lower end of the interval; None with one repetition."""

    @property
    def high_percent(self) -> float | None:
        """The upper end of the interval; None with one repetition."""

    @property
    def minimum_percent(self) -> float:
        """The minimum effect of the verdict."""


def obstacles(
    base: Conditions, other: Conditions, found: Judged, *, differs_in_durability: bool | None
) -> tuple[Obstacle, ...]:
    """Return the reasons why no verdict may be given; empty if one may be given."""
    why = []
    for side in (base, other):
        for kind, share in (
            (ObstacleKind.CLIENTS_LEFT, side.left_share),
            (ObstacleKind.FAILED, side.failed_share),
        ):
            if share > TOLERATED_SHARE and not _beyond_loss(found, share):
                why.append(Obstacle(kind, side.name, share))
    unlike = other_work(base.operations, other.operations)
    if unlike > 0:
        why.append(Obstacle(ObstacleKind.OTHER_WORK, amount=unlike))
    if differs_in_durability:
        why.append(Obstacle(ObstacleKind.DURABILITY))
    return (*why, *_noise(base, other, found), *_held_back(base, other, found))


def is_at_least(verdict: Verdict, *, base_held: bool, other_held: bool) -> bool:
    """Return whether a proven gap can only be larger than shown, because only its faster side was held back."""
    return (verdict, base_held, other_held) in (
        (Verdict.FASTER, False, True),
        (Verdict.SLOWER, True, False),
    )


def stated(percent: float, low: float | None, high: float | None, *, at_least: bool) -> float:
    """Return the change to state: the measured one, or the proven bound if the true one may be larger."""
    bound = low if percent > 0 else high
    return bound if at_least and bound is not None else percent


def _beyond_loss(found: Judged, share: float) -> bool:
    """Return whether the difference is larger than the missing share of the load can explain.

    Throughput changes at most in proportion to the load, as long as little of the load is missing.
    """
    explained = -math.log1p(-share) if share < 1 else math.inf
    return share <= MOST_SHARE and _stands(found, base=explained, other=explained)


def _stands(found: Judged, *, base: float = 0.0, other: float = 0.0) -> bool:
    """Return whether the verdict holds even if the sides are faster by the log ratios `base` and `other`.

    The remaining difference must exceed the minimum effect; for an equivalence, it must be within the margin.
    """
    if found.low_percent is None or found.high_percent is None:
        return True
    low, high = (
        math.log1p(percent / 100) if percent > -100 else -math.inf
        for percent in (found.low_percent, found.high_percent)
    )
    minimum = math.log1p(found.minimum_percent / 100)
    if found.verdict is Verdict.FASTER and base > 0:
        return low - base > minimum
    if found.verdict is Verdict.SLOWER and other > 0:
        return high + other < -minimum
    if isinstance(found, Improvement) and found.verdict is Verdict.EQUIVALENT:
        within = math.log1p(found.equivalence_percent / 100)
        return low - base > -within and high + other < within
    return True


def other_work(base: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return how much the shares of operation classes differ between the two sides; 0 if that is tolerated.

    The result is half the sum of the absolute differences of shares (total variation). Two draws of one mixture of k
    classes, the smaller one of n operations, nearly always differ by less than sqrt(k / n).
    """
    totals = sum(base.values()), sum(other.values())
    if not all(totals):
        return 0.0
    classes = base.keys() | other.keys()
    apart = sum(abs(base.get(name, 0) / totals[0] - other.get(name, 0) / totals[1]) for name in classes) / 2
    return apart if apart > TOLERATED_OTHER_WORK + math.sqrt(len(classes) / min(totals)) else 0.0


def _held_back(base: Conditions, other: Conditions, found: Judged) -> Sequence[Obstacle]:
    """Return the obstacles due to the generator or the plan: the verdict must hold even with all hidden speed added."""
    why = []
    for side, stands in (
        (base, _stands(found, base=_hidden(base))),
        (other, _stands(found, other=_hidden(other))),
    ):
        if side.link_bound and found.verdict is Verdict.EQUIVALENT:
            why.append(Obstacle(ObstacleKind.LINK_BOUND, side.name))
        elif side.rate_bound and not stands:
            why.append(Obstacle(ObstacleKind.RATE_BOUND, side.name))
        elif not stands:
            why.append(Obstacle(ObstacleKind.HIDDEN, side.name, side.hidden_speed or 0.0))
    return why


def _hidden(side: Conditions) -> float:
    """Return an upper bound on the side's hidden speed, as a log ratio. A plan's rate may hide any speed."""
    return math.inf if side.rate_bound else math.log1p(side.hidden_speed or 0.0)


def _noise(base: Conditions, other: Conditions, found: Judged) -> Sequence[Obstacle]:
    """Return an obstacle if the verdict would not hold without the difference in noise.

    Other programs only slow a server down: its true figure may be higher, but not lower.
    """
    if base.slowed is None or other.slowed is None or base.slowed == other.slowed:
        return ()
    more = math.log1p(other.slowed) - math.log1p(base.slowed)
    if _stands(found, other=more) if more > 0 else _stands(found, base=-more):
        return ()
    return (Obstacle(ObstacleKind.NOISE, (other if more > 0 else base).name, math.expm1(abs(more))),)


def explained_share(taken_cpus: float, cpus: int, busy_share: float = 1.0) -> float:
    """Return the largest share by which a side could be faster with the CPU time that other programs took.

    On a shared CPU, work takes cpus / (cpus - taken) times as long. That delays an answer only while it needs the CPU,
    for the share of time in which the CPU is busy (exactly so for one request at a time; otherwise this is the worst
    case). `busy_share` is the share of time in which any program keeps the CPUs busy; 1: not known.
    """
    if taken_cpus >= cpus:
        return math.inf
    return max(0.0, taken_cpus) / (cpus - taken_cpus) * min(1.0, busy_share)
