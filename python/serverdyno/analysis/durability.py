"""Judge the effect of a file server's flushes, from counts of flushes and syncs and from the medium below its files.

A flush promises that written data is on the disk. If only one of two servers keeps that promise, they are different
services, and their throughput can't be compared. `run/durability.py` counts the calls; `report/subjects/durability.py`
words the findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from serverdyno.analysis.medium import NO_MEDIUM, Cut, Media

BORDER_EACH_CLIENT = 1
"""Flushes per client whose sync may precede the window.

A sync precedes the answer, so the end of the window needs no such tolerance.
"""
LATE_S = 0.01
"""Largest delay of the first count: the time to wake up and to read the kernel's counters.

A late last count only adds syncs.
"""
LATE_LEAST = 1
"""Fewest flushes assumed to fall into `LATE_S`, even at a low rate."""
BORDER_MOST = 0.25
"""Largest share of the flushes of a level, and of a run, that tolerances may excuse. One per level is always excused.

Otherwise the tolerances could excuse all of a few flushes.
"""
STRAY_SHARE = 0.01
"""Share of the flushes up to which all syncs may be for something else, such as the server's own bookkeeping."""
UNSTABLE = 2.0
"""Ratio above which the disk's own fsync times before and after the levels count as different."""


class SyncExtent(StrEnum):
    """What the counts show about a server's flushes. They don't show which sync was for which flush."""

    EACH = "at least as many syncs as flushes at each load level, except at the start of its window"
    SYNCED = "at least as many syncs as flushes"
    FEWER = "fewer syncs than flushes at one or more load levels"
    NONE = "flushes answered without any sync"
    MEMORY = "synced to memory only: no data reach a disk"
    NO_FLUSH = "no flush was sent"
    UNKNOWN = "not known"
    NOT_ALIKE = "different from run to run"

    def told(self, one: str, several: str) -> str:
        """Return the verdict in words, with the name of a flush and its plural."""
        return self.value.replace("flushes", several).replace("flush", one)


NOT_DURABLE = "not durable in a power cut"
"""The verdict if power cuts lost data. It overrides the counts: a file can be lost although its data were synced."""
UNCERTAIN = {SyncExtent.SYNCED, SyncExtent.UNKNOWN, SyncExtent.NOT_ALIKE}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effect of a flush.

    `because` is the reason why the effect is not known; `weak` is the place where syncs stop short. `lost`: whether
    power cuts lost data that had been acknowledged as durable; None: the power was not cut.
    """

    extent: SyncExtent
    because: str = ""
    weak: Cut | None = None
    lost: bool | None = None

    @property
    def uncertain(self) -> bool:
        """Return whether the outcome is too vague to compare: equal outcomes may hide different actions."""
        return self.extent in UNCERTAIN

    def __str__(self) -> str:
        return self.told("flush", "flushes")

    def told(self, one: str, several: str) -> str:
        """Return the outcome in words. `one`, `several`: the name of a flush in this kind of work, and its plural."""
        because = (
            f"{', but ' if self.extent is SyncExtent.SYNCED else ': '}{self.because}" if self.because else ""
        )
        counted = f"{self.extent.told(one, several)}{because}{f', and {self.weak}' if self.weak else ''}"
        return f"{NOT_DURABLE}; by the counts: {counted}" if self.lost else counted


@dataclass(frozen=True, slots=True)
class InLevel:
    """Flushes and syncs in the window of one level.

    `border` is the tolerance: the number of syncs that may be missing because they preceded the window.
    """

    flushes: int
    syncs: int
    border: float

    @property
    def missing(self) -> int:
        return max(0, self.flushes - self.syncs)


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Two counts of one run's syncs, from before its first level to after its last; None if not counted or not known.

    The server counts only syncs of its clients' files. The kernel counts all syncs, over a longer time, so its count
    is never lower.
    """

    by_kernel: int | None = None
    by_server: int | None = None

    def disagree(self, flushes: int, *, kept: bool) -> str:
        """Return how the two counts contradict each other; empty if they do not.

        `flushes` is the number of flushes that were answered, and `kept` whether the kernel counted a sync for
        each of them.
        """
        if self.by_kernel is None or self.by_server is None:
            return ""
        server = f"the server's own counters show {self.by_server:,} file syncs in the run"
        if self.by_server > self.by_kernel:
            return f"{server}, the kernel counted {self.by_kernel:,}"
        if kept and self.by_server < (1 - STRAY_SHARE) * flushes:
            return (
                f"{server}, fewer than the {flushes:,} answered flushes; the kernel counted "
                f"{self.by_kernel:,} syncs of all kinds"
            )
        return ""


def judged(
    levels: Sequence[InLevel], media: Media, *, syncs_known: bool, witnesses: Witnesses | None = None
) -> Outcome:
    """Return the outcome of one run, from the flushes and syncs in its windows and the medium below the files."""
    flushes = sum(level.flushes for level in levels)
    if flushes == 0:
        return Outcome(SyncExtent.NO_FLUSH)
    if media.in_memory:
        return Outcome(SyncExtent.MEMORY)
    weak = media.weak
    kept = syncs_known and _kept_in_each(levels)
    if because := witnesses.disagree(flushes, kept=kept) if witnesses and syncs_known else "":
        return Outcome(SyncExtent.UNKNOWN, because, weak)
    if kept:
        return (
            Outcome(SyncExtent.SYNCED, media.gap, weak) if media.gap else Outcome(SyncExtent.EACH, weak=weak)
        )
    if not syncs_known or media.needs_no_sync:
        return Outcome(SyncExtent.UNKNOWN, media.needs_no_sync, weak)
    few = (
        SyncExtent.NONE if sum(level.syncs for level in levels) <= STRAY_SHARE * flushes else SyncExtent.FEWER
    )
    return Outcome(few, weak=weak)


def _kept_in_each(levels: Sequence[InLevel]) -> bool:
    """Return whether each level by itself is within its tolerance, and the total is a small part of the flushes."""
    in_border = all(level.missing <= level.border for level in levels)
    return in_border and missing(levels) <= BORDER_MOST * sum(level.flushes for level in levels)


def missing(levels: Sequence[InLevel]) -> int:
    """Return the missing syncs, summed over the levels that lack any."""
    return sum(level.missing for level in levels)


def unstable(before_ms: float, after_ms: float) -> bool:
    """Return whether the disk's own fsync took a different time after the levels than before them."""
    low, high = sorted((before_ms, after_ms))
    return high > UNSTABLE * low


def border(flushes: int, clients: int, window_s: float) -> float:
    """Return how many syncs of a level may be missing because they preceded its window."""
    late = max(LATE_LEAST, LATE_S * flushes / window_s)
    return min(BORDER_EACH_CLIENT * clients + late, max(1, BORDER_MOST * flushes))


def together(seen: set[Outcome]) -> Outcome:
    """Return the outcome of several runs. Runs with an unknown medium are treated as equal if their counts agree."""
    cut = next((outcome.lost for outcome in seen if outcome.lost is not None), None)
    return replace(_by_counts({replace(outcome, lost=None) for outcome in seen}), lost=cut)


def _by_counts(seen: set[Outcome]) -> Outcome:
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
    """Return whether two servers treated a flush differently; None if not known. Without flushes nothing differs."""
    if first is None or second is None:
        return False
    if {first.lost, second.lost} == {True, False}:
        return True
    if first.uncertain or second.uncertain:
        return None
    if replace(first, lost=None) != replace(second, lost=None):
        return True
    # The counts may be equal although only one server was tested with power cuts. The other's losses are then unknown.
    return None if {first.lost, second.lost} == {True, None} else False
