"""Whether two figures may be compared at all: what a verdict rests on besides its interval.

An interval knows what differs from run to run. It does not know that one server threw its clients out, that a neighbour
took a CPU from the other, that the two were asked for different operations, that one of them kept a promise that the
other didn't, or that the generator or the plan held one of them back. Each of these shifts every run of one side alike.
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
"""Of the clients of a mix that left, and of its operations that failed. Throughput is of the others, so that it shifts
by about that share: below what is claimed at all. A rule of thumb."""
MOST_SHARE = 0.10
"""The same, from which on the load was another one, so that no difference stands. Between the two a difference stands
that is larger than what the share can explain. A rule of thumb."""
TOLERATED_OTHER_WORK = 0.02
"""Of the operations, by class, beyond what two draws of the same mixture differ by."""


class ObstacleKind(StrEnum):
    """Why two figures are not comparable."""

    CLIENTS_LEFT = "clients left"
    FAILED = "operations failed"
    OTHER_WORK = "different operations"
    NOISE = "others used the machine"
    DURABILITY = "durability"
    RATE_BOUND = "held by the plan's rate"
    HIDDEN = "held back by the generator"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason. `name`: of the configuration it is about, or nothing where it is about both. `amount`: a share; of
    noise and of what is hidden, by how much the configuration may be faster."""

    kind: ObstacleKind
    name: str = ""
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what the mixes of one side ran at which a figure was read.

    `left_share`, `failed_share`: of clients and of operations, in the mix where it is largest. `slowed`: by how much
    the figure may be higher without other programs and the hypervisor, at most; None: not known. `operations`:
    successes by class. `hidden_speed`: by how much the figure may be higher without the generator, at most; None: not
    measured. `rate_bound`: the plan's rate held a mix.
    """

    name: str
    left_share: float
    failed_share: float
    slowed: float | None
    operations: Mapping[str, int]
    hidden_speed: float | None = None
    rate_bound: bool = False

    @property
    def held_back(self) -> bool:
        """Whether something else than the server limits its figure: the generator or the plan's rate."""
        return self.rate_bound or bool(generator_marks(self.hidden_speed))


class Judged(Protocol):
    """A difference with its interval and what that says by itself: an `Improvement`, or one load level of `levels`."""

    @property
    def verdict(self) -> Verdict:
        """What the interval says."""

    @property
    def low_percent(self) -> float | None:
        """Of the interval; None of one repetition."""

    @property
    def high_percent(self) -> float | None:
        """Of the interval; None of one repetition."""

    @property
    def minimum_percent(self) -> float:
        """The minimum effect that the verdict is about."""


def obstacles(
    base: Conditions, other: Conditions, found: Judged, *, differs_in_durability: bool | None
) -> tuple[Obstacle, ...]:
    """Return why a verdict may not be given; nothing where it may."""
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
    """Whether a proven gap may be larger than shown, and not smaller: its faster side alone was held back."""
    return (verdict, base_held, other_held) in (
        (Verdict.FASTER, False, True),
        (Verdict.SLOWER, True, False),
    )


def _beyond_loss(found: Judged, share: float) -> bool:
    """Whether the verdict stands although that share of a load is missing: a difference larger than it explains.

    Throughput rises and falls at most as the load does, as long as little of it is missing.
    """
    explained = -math.log1p(-share) if share < 1 else math.inf
    return share <= MOST_SHARE and _stands(found, base=explained, other=explained)


def _stands(found: Judged, *, base: float = 0.0, other: float = 0.0) -> bool:
    """Whether the verdict holds although a side may be faster than shown, by that log ratio at most.

    What is left of the difference has to be beyond the minimum effect; of an equivalence, within its margin.
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
    """Return the share of operations that are of other classes on one side than on the other; 0 where it is tolerated.

    Half the sum of the differences of shares (total variation). Two draws of one mixture of k classes, the smaller of n
    operations, differ by less than sqrt(k / n) in nearly all cases.
    """
    totals = sum(base.values()), sum(other.values())
    if not all(totals):
        return 0.0
    classes = base.keys() | other.keys()
    apart = sum(abs(base.get(name, 0) / totals[0] - other.get(name, 0) / totals[1]) for name in classes) / 2
    return apart if apart > TOLERATED_OTHER_WORK + math.sqrt(len(classes) / min(totals)) else 0.0


def _held_back(base: Conditions, other: Conditions, found: Judged) -> Sequence[Obstacle]:
    """What the generator or the plan may hide of a side. Who is slower must be so with all of it on its side."""
    why = []
    for side, stands in (
        (base, _stands(found, base=_hidden(base))),
        (other, _stands(found, other=_hidden(other))),
    ):
        if side.rate_bound and not stands:
            why.append(Obstacle(ObstacleKind.RATE_BOUND, side.name))
        elif not stands:
            why.append(Obstacle(ObstacleKind.HIDDEN, side.name, side.hidden_speed or 0.0))
    return why


def _hidden(side: Conditions) -> float:
    """By how much the side may be faster, as a log ratio: a plan's rate may hide any speed."""
    return math.inf if side.rate_bound else math.log1p(side.hidden_speed or 0.0)


def _noise(base: Conditions, other: Conditions, found: Judged) -> Sequence[Obstacle]:
    """Others slow a server down: it may be faster in spite of them, or slower by more than they can explain."""
    if base.slowed is None or other.slowed is None or base.slowed == other.slowed:
        return ()
    more = math.log1p(other.slowed) - math.log1p(base.slowed)
    if _stands(found, other=more) if more > 0 else _stands(found, base=-more):
        return ()
    return (Obstacle(ObstacleKind.NOISE, (other if more > 0 else base).name, math.expm1(abs(more))),)


def explained_share(taken_cpus: float, cpus: int, busy_share: float = 1.0) -> float:
    """Return by how much a side would be faster, at most, that had back what others took from its CPUs.

    Work takes cpus / (cpus - taken) times as long on a CPU that others share. That delays an answer only while it
    needs the CPU: for the share of the time in which the CPU is busy (of one request at a time exactly; of more, that
    is the worst case). `busy_share`: of the CPUs, by the server or the generator and by others; 1: not known.
    """
    if taken_cpus >= cpus:
        return math.inf
    return max(0.0, taken_cpus) / (cpus - taken_cpus) * min(1.0, busy_share)
