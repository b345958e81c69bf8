"""What happened to a file server's flushes, by counts of flushes and of syncs, and by what the files lie on.

A flush is a promise that what was written is on the disk. Two servers of which one keeps it and the other doesn't are
two different services, whatever their throughput. Not for: where the counts come from, and sentences on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from serverdyno.analysis.medium import NO_MEDIUM, Cut, Media

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
    SYNCED = "at least as many syncs as flushes"
    FEWER = "fewer syncs than flushes in at least one mix"
    NONE = "flushes answered without any sync"
    MEMORY = "synced to memory: nothing is on a disk"
    NO_FLUSH = "no flush was sent"
    UNKNOWN = "not known"
    NOT_ALIKE = "not the same in each run"


UNCERTAIN = {SyncExtent.SYNCED, SyncExtent.UNKNOWN, SyncExtent.NOT_ALIKE}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a flush did. `because` of one that is not known; `weak`: how far syncs went, where that is short."""

    extent: SyncExtent
    because: str = ""
    weak: Cut | None = None

    @property
    def uncertain(self) -> bool:
        """Whether two that are equal in it may have done different things, or the reverse."""
        return self.extent in UNCERTAIN

    def __str__(self) -> str:
        because = (
            f"{', but ' if self.extent is SyncExtent.SYNCED else ': '}{self.because}" if self.because else ""
        )
        return f"{self.extent.value}{because}{f', and {self.weak}' if self.weak else ''}"


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


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Syncs of one run from before its first mix to after its last, by who counted them. None: nobody, or not known.

    The server counts those of its clients' files; the kernel counts all, for longer, so never fewer.
    """

    by_kernel: int | None = None
    by_server: int | None = None

    def disagree(self, flushes: int, *, kept: bool) -> str:
        """In which way, where so many `flushes` were answered and, by the kernel, each was `kept`; else empty."""
        if self.by_kernel is None or self.by_server is None:
            return ""
        server = f"the server's own counters say {self.by_server:,} syncs of files in the run"
        if self.by_server > self.by_kernel:
            return f"{server}, the kernel showed {self.by_kernel:,}"
        if kept and self.by_server < (1 - STRAY_SHARE) * flushes:
            return (
                f"{server}, fewer than {flushes:,} flushes; the kernel showed {self.by_kernel:,} of all kinds"
            )
        return ""


def judged(
    mixes: Sequence[InMix], media: Media, *, syncs_known: bool, witnesses: Witnesses | None = None
) -> Outcome:
    """What one run did, by the flushes that were answered in its windows, and by what the files lie on."""
    flushes = sum(mix.flushes for mix in mixes)
    if flushes == 0:
        return Outcome(SyncExtent.NO_FLUSH)
    if media.in_memory:
        return Outcome(SyncExtent.MEMORY)
    weak = media.weak
    kept = syncs_known and _kept_in_each(mixes)
    if because := witnesses.disagree(flushes, kept=kept) if witnesses and syncs_known else "":
        return Outcome(SyncExtent.UNKNOWN, because, weak)
    if kept:
        return (
            Outcome(SyncExtent.SYNCED, media.gap, weak) if media.gap else Outcome(SyncExtent.EACH, weak=weak)
        )
    if not syncs_known or media.needs_no_sync:
        return Outcome(SyncExtent.UNKNOWN, media.needs_no_sync, weak)
    few = SyncExtent.NONE if sum(mix.syncs for mix in mixes) <= STRAY_SHARE * flushes else SyncExtent.FEWER
    return Outcome(few, weak=weak)


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
    lost = next((outcome for outcome in seen if outcome.because == NO_MEDIUM), None)
    others = seen - {lost}
    if lost is None or not others:
        return next(iter(seen)) if len(seen) == 1 else Outcome(SyncExtent.NOT_ALIKE)
    if any(outcome.extent is SyncExtent.MEMORY for outcome in others):
        return Outcome(SyncExtent.UNKNOWN, f"{NO_MEDIUM} for each run")
    known = SyncExtent.EACH if lost.extent is SyncExtent.SYNCED else SyncExtent.NONE
    return (
        replace(lost, weak=None)
        if {each.extent for each in others} <= {known}
        else Outcome(SyncExtent.NOT_ALIKE)
    )


def differs(first: Outcome | None, second: Outcome | None) -> bool | None:
    """Return whether two did different things with a flush; None: not known. Without flushes nothing differs."""
    if first is None or second is None:
        return False
    return None if first.uncertain or second.uncertain else first != second
