"""What became of a file server's flushes, by counts of flushes and of syncs, and by what the files lie on.

A flush is a promise that what was written is on the disk. Two servers of which one keeps it and the other doesn't are
two different services, whatever their throughput. Not for: where the counts come from, and sentences on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from serverdyno.analysis.medium import Cut, Media

BORDER_EACH_CLIENT = 1
"""A flush under way as the window opens, whose sync is before it. A sync comes before the answer, so the end of the
window takes none away."""
LATE_S = 0.01
"""By which the first count may be late: the wake-up of who counts, and reading the kernel's counters. The last one
being late only adds syncs."""
LATE_LEAST = 1
"""Flushes that such a moment may hold, however few there are a second."""
BORDER_MOST = 0.25
"""Of the flushes of a mix, beyond a single one, and of a run: where they are few, what may be under way must not stand
for syncs that nobody made."""
STRAY_SHARE = 0.01
"""Of the flushes: so few syncs were for something else, such as the server's own books."""
UNSTABLE = 2.0
"""The disk's own fsync before and after the mixes, the larger to the smaller."""


class SyncExtent(StrEnum):
    """What the counts say of the promise. They don't say which sync was for which flush."""

    EACH = "at least as many syncs as flushes in each mix, but for the opening of its window"
    FEWER = "fewer syncs than flushes in at least one mix"
    NONE = "flushes answered without any sync"
    MEMORY = "synced to memory: nothing is on a disk"
    NO_FLUSH = "no flush was sent"
    UNKNOWN = "not known"
    NOT_ALIKE = "not the same in each run"


UNCERTAIN = {SyncExtent.UNKNOWN, SyncExtent.NOT_ALIKE}
NO_MEDIUM = "what the files lie on is not known"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a flush. `because` of one that is not known; `weak`: how far syncs went, where that is short.

    `on_known`: whether it is known what the files lie on, where the verdict hangs on that: it may be memory.
    """

    extent: SyncExtent
    because: str = ""
    weak: Cut | None = None
    on_known: bool = True

    @property
    def uncertain(self) -> bool:
        """Whether two that are equal in it may have done different things, or the reverse."""
        return self.extent in UNCERTAIN or not self.on_known

    def __str__(self) -> str:
        because = f": {self.because}" if self.because else ""
        on = "" if self.on_known else f", and {NO_MEDIUM}"
        return f"{self.extent.value}{because}{f', and {self.weak}' if self.weak else ''}{on}"


@dataclass(frozen=True, slots=True)
class InMix:
    """Flushes and syncs in the window of one mix; `border`: so many syncs at most may be before it."""

    flushes: int
    syncs: int
    border: float

    @property
    def missing(self) -> int:
        """Syncs that are fewer than the flushes."""
        return max(0, self.flushes - self.syncs)


def judged(mixes: Sequence[InMix], media: Media, *, syncs_known: bool) -> Outcome:
    """What one run did, by the flushes that were answered in its windows, and by what the files lie on."""
    flushes = sum(mix.flushes for mix in mixes)
    if flushes == 0:
        return Outcome(SyncExtent.NO_FLUSH)
    if media.in_memory:
        return Outcome(SyncExtent.MEMORY)
    weak, known = media.weak, media.known
    if syncs_known and _kept_in_each(mixes):
        return Outcome(SyncExtent.EACH, weak=weak, on_known=known)
    if not syncs_known or media.synchronous:
        return Outcome(SyncExtent.UNKNOWN, media.synchronous, weak)
    kept = SyncExtent.NONE if sum(mix.syncs for mix in mixes) <= STRAY_SHARE * flushes else SyncExtent.FEWER
    return Outcome(kept, weak=weak, on_known=known)


def _kept_in_each(mixes: Sequence[InMix]) -> bool:
    """By each mix on its own; and all that is missing is a small part of the flushes."""
    in_border = all(mix.missing <= mix.border for mix in mixes)
    return in_border and missing(mixes) <= BORDER_MOST * sum(mix.flushes for mix in mixes)


def missing(mixes: Sequence[InMix]) -> int:
    """Syncs that mixes lack, summed over those mixes alone."""
    return sum(mix.missing for mix in mixes)


def unstable(before_ms: float, after_ms: float) -> bool:
    """Whether the disk's own fsync was another one after the mixes than before them."""
    low, high = sorted((before_ms, after_ms))
    return high > UNSTABLE * low


def border(flushes: int, clients: int, window_s: float) -> float:
    """How many syncs of one mix may be missing, of as many flushes as that, for the opening of its window."""
    late = max(LATE_LEAST, LATE_S * flushes / window_s)
    return min(BORDER_EACH_CLIENT * clients + late, max(1, BORDER_MOST * flushes))


def together(seen: set[Outcome]) -> Outcome:
    """Of several runs. One of which it is not known what its files lay on is not called unlike the others for that."""
    if not all(outcome.on_known for outcome in seen):
        if any(outcome.extent is SyncExtent.MEMORY for outcome in seen):
            return Outcome(SyncExtent.UNKNOWN, f"{NO_MEDIUM} for each run")
        seen = {replace(outcome, on_known=False) for outcome in seen}
    return next(iter(seen)) if len(seen) == 1 else Outcome(SyncExtent.NOT_ALIKE)


def differs(first: Outcome | None, second: Outcome | None) -> bool | None:
    """Return whether two did different things with a flush; None: not known. Without flushes nothing differs."""
    if first is None or second is None:
        return False
    return None if first.uncertain or second.uncertain else first != second
