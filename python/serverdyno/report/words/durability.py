"""What is said of flushes: at the head of a report, next to a peak, and as findings. No figure without its source.

It stands in every report of a file server, and at its head where what is compared differs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from serverdyno import wording
from serverdyno.analysis.durability import Outcome, SyncExtent
from serverdyno.analysis.medium import NO_MEDIUM, Cut
from serverdyno.report.figures.durability import Promise, outcomes
from serverdyno.report.model import Finding


def warnings(found: Sequence[Promise]) -> list[str]:
    """What must be known before any throughput is compared."""
    did = outcomes(found)
    seen = {
        outcome
        for outcome in did.values()
        if outcome.extent not in (SyncExtent.UNKNOWN, SyncExtent.SYNCED, SyncExtent.NO_FLUSH)
    }
    said = []
    if len(seen) > 1:
        sure = any(outcome.extent in (SyncExtent.NONE, SyncExtent.MEMORY) or outcome.weak for outcome in seen)
        parts = "; ".join(f"{name}: {_told(outcome, found, name)}" for name, outcome in did.items())
        said.append(
            "When clients ask for durable data (a flush), these configurations "
            f"{'do' if sure else 'may do'} different things: their speeds are not of the same work. {parts}."
        )
    else:
        said += _without_sync(found, did)
    return [*said, *_not_known(did), *_media_warnings(found), *_preloaded(found)]


def _without_sync(found: Sequence[Promise], did: Mapping[str, Outcome]) -> list[str]:
    names = [name for name, outcome in did.items() if outcome.extent is SyncExtent.NONE]
    if not names:
        return []
    lost = all(promise.media.ordinary for promise in found if promise.configuration in names)
    so = " What a client believed to be on the disk was not." if lost else ""
    parts = "; ".join(f"{name}: {_told(did[name], found, name)}" for name in names)
    return [f"{parts}.{so}"]


def _preloaded(found: Sequence[Promise]) -> list[str]:
    names: dict[tuple[str, ...], dict[str, None]] = defaultdict(dict)
    for promise in found:
        if promise.preloaded:
            names[promise.preloaded][promise.configuration] = None
    return [
        f"{wording.listing(list(of))}: loaded before all other libraries, in this tool or the server (LD_PRELOAD): "
        f"{', '.join(libraries)}. Such a library can answer a sync itself; then the disk's own fsync is no measure."
        for libraries, of in names.items()
    ]


def _not_known(did: Mapping[str, Outcome]) -> list[str]:
    """What `_media_warnings` says of media that nobody knows is not said here once more."""
    by_reason: dict[tuple[SyncExtent, str], list[str]] = defaultdict(list)
    for name, outcome in did.items():
        if outcome.extent in (SyncExtent.UNKNOWN, SyncExtent.SYNCED) and outcome.because != NO_MEDIUM:
            by_reason[outcome.extent, outcome.because].append(name)
    return [_why_not_known(*why, wording.listing(names)) for why, names in by_reason.items()]


def _why_not_known(extent: SyncExtent, because: str, names: str) -> str:
    if extent is SyncExtent.SYNCED:
        return f"{names}: {extent.value}. Whether they reached a disk is {because}."
    if because:
        return f"The syncs don't show what a flush did on {names}: {because}."
    return (
        f"It is not known what a flush did on {names}: what a client believed to be on the disk may not have "
        "been there."
    )


def _media_warnings(found: Sequence[Promise]) -> list[str]:
    """Of files in memory or who knows where, whether a flush was sent or not, and of syncs that stop short."""
    in_memory: dict[str, dict[str, None]] = defaultdict(dict)
    weak: dict[Cut, dict[str, None]] = defaultdict(dict)
    # Where nobody could count syncs either, that nothing is known has been said.
    unknown = list(
        dict.fromkeys(each.configuration for each in found if each.syncs is not None and not each.media.known)
    )
    for promise in found:
        if promise.media.in_memory:
            in_memory[str(promise.media)][promise.configuration] = None
        elif promise.media.weak:
            weak[promise.media.weak][promise.configuration] = None
    return [
        *(
            f"{wording.listing(list(names))}: the files are in memory (on {where}): nothing is on a disk, and no "
            "figure is of one."
            for where, names in in_memory.items()
        ),
        *(
            f"{wording.listing(list(names))}: {how}. What was flushed can be lost with the power"
            f"{', unless that cache is protected' if how.by_device_cache else ''}."
            for how, names in weak.items()
        ),
        *(
            [f"{wording.listing(unknown)}: {NO_MEDIUM}. On memory, nothing would be on a disk."]
            if unknown
            else []
        ),
    ]


@dataclass(frozen=True, slots=True)
class FlushSummary:
    """What the runs of one configuration did together. `syncs` None: not known."""

    outcome: str
    flushes: int
    syncs: int | None


def flush_summaries(found: Sequence[Promise]) -> dict[str, FlushSummary]:
    """By the name of each configuration."""
    by_name = _by_name(found)
    did = outcomes(found)
    return {
        name: FlushSummary(
            worded(did[name], promises),
            sum(promise.flushes for promise in promises),
            None
            if any(promise.syncs is None for promise in promises)
            else sum(promise.syncs or 0 for promise in promises),
        )
        for name, promises in by_name.items()
    }


def price(found: Sequence[Promise], name: str) -> str:
    """Return what a configuration that syncs less saves, and what that can cost."""
    outcome = outcomes(found).get(name)
    promises = [promise for promise in found if promise.configuration == name]
    if outcome is None:
        return ""
    if outcome.extent is SyncExtent.NONE:
        flushes = sum(promise.flushes for promise in promises)
        return (
            f"{name} answered {flushes:,} flushes without a sync, so a power cut can lose data that clients "
            "believe safe."
        )
    if outcome.extent is SyncExtent.MEMORY:
        return f"The files of {name} are in memory, so nothing survives a power cut."
    return "The two don't keep the same promise when a client flushes, so the gap is not speed alone."


def beside_peaks(found: Sequence[Promise]) -> dict[str, str]:
    """The same in words, to stand next to each figure, where it is not the same for all; else nothing."""
    if len(set(outcomes(found).values())) < 2:
        return {}
    return {name: of_name.outcome for name, of_name in flush_summaries(found).items()}


def _by_name(found: Sequence[Promise]) -> dict[str, list[Promise]]:
    by_name: dict[str, list[Promise]] = defaultdict(list)
    for promise in found:
        by_name[promise.configuration].append(promise)
    return by_name


def findings(found: Sequence[Promise], tables: dict[str, str]) -> list[Finding]:
    """What happened to the flushes of each configuration, its runs together; none where nobody sent any."""
    by_name = _by_name(found)
    did = outcomes(found)
    if all(outcome.extent is SyncExtent.NO_FLUSH for outcome in did.values()):
        return []
    parts = [
        f"{name}: {worded(did[name], promises)} ({_counts(promises)})" for name, promises in by_name.items()
    ]
    evidence = "Flushes answered, and syncs of the server's processes, in the windows; "
    return [Finding("Durability", f"{'; '.join(parts)}.", f"{evidence}{tables['durability']}.")]


def worded(outcome: Outcome, found: Sequence[Promise]) -> str:
    """In words that are true of few stray syncs, too."""
    if outcome.extent is SyncExtent.NONE and any(promise.syncs for promise in found):
        return f"{outcome}".replace("any sync", "a sync but for strays", 1)
    return f"{outcome}"


def _told(outcome: Outcome, found: Sequence[Promise], name: str) -> str:
    """With the figures where the words alone would hide some."""
    of_name = [promise for promise in found if promise.configuration == name]
    words = worded(outcome, of_name)
    all_said = words == f"{outcome}" and not any(promise.short for promise in of_name)
    return words if all_said else f"{words} ({_counts(of_name)})"


def _counts(found: Sequence[Promise]) -> str:
    flushes = wording.plural(sum(promise.flushes for promise in found), "flush", "flushes")
    if any(promise.syncs is None for promise in found):
        return flushes
    counted = f"{flushes}, {wording.plural(sum(promise.syncs or 0 for promise in found), 'sync')}"
    if not any(promise.short for promise in found):
        return counted
    return f"{counted}; {outside(found)}"


def outside(found: Sequence[Promise]) -> str:
    """What is missing and what may be, of the mixes that lack syncs: others have some to spare."""
    short = [mix for promise in found if promise.short for mix in promise.mixes if mix.missing]
    missing, most = (
        sum(each) for each in zip(*((mix.missing, math.floor(mix.border)) for mix in short), strict=True)
    )
    return (
        f"{missing:,} missing in {wording.plural(len(short), 'mix')}, where up to {most:,} may fall outside"
    )
