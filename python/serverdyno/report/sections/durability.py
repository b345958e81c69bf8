"""What a file server did with flushes, run by run, and what may be said of it. No figure without its source.

A flush is a promise that what was written is on the disk. Two servers of which one keeps it and the other doesn't are
two different services, whatever their throughput: so this stands in every report of a file server, and at its head
where what is compared differs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from serverdyno import wording
from serverdyno.analysis.medium import Cut, Layer, Media
from serverdyno.report.figures import histograms
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Finding, Table
from serverdyno.report.source import Source
from serverdyno.store.note import FsyncTimes, RunNote
from serverdyno.store.records import MixRecord, OperationRow

FLUSH = "flush"
DATA_CALLS = ("fsync", "fdatasync", "syncfs", "sync")
"""The calls after which data is on the disk. sync_file_range(2) and msync(2) alone don't promise that."""
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


class Kept(StrEnum):
    """What the counts say of the promise. They don't say which sync was for which flush."""

    EACH = "at least as many syncs as flushes in each mix, but for the opening of its window"
    FEWER = "fewer syncs than flushes in at least one mix"
    NONE = "flushes answered without any sync"
    MEMORY = "synced to memory: nothing is on a disk"
    NO_FLUSH = "no flush was sent"
    UNKNOWN = "not known"
    NOT_ALIKE = "not the same in each run"


UNCERTAIN = {Kept.UNKNOWN, Kept.NOT_ALIKE}
NO_MEDIUM = "what the files lie on is not known"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a flush. `because` of one that is not known; `weak`: how far syncs went, where that is short.

    `on_known`: whether it is known what the files lie on, where the verdict hangs on that: it may be memory.
    """

    kept: Kept
    because: str = ""
    weak: Cut | None = None
    on_known: bool = True

    @property
    def uncertain(self) -> bool:
        """Whether two that are equal in it may have done different things, or the reverse."""
        return self.kept in UNCERTAIN or not self.on_known

    def __str__(self) -> str:
        because = f": {self.because}" if self.because else ""
        on = "" if self.on_known else f", and {NO_MEDIUM}"
        return f"{self.kept.value}{because}{f', and {self.weak}' if self.weak else ''}{on}"


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
class Promise:
    """Flushes and syncs of one run, in the windows of its mixes. `syncs` None: not known, `because` says why.

    `mixes`: each on its own, since syncs to spare in one are not those that another lacks.
    `added_ms`: what each sync of the server took longer on purpose.
    """

    run: int
    configuration: str
    repetition: int
    flushes: int
    failed: int
    response: histograms.Times | None
    disk_ms: FsyncTimes | None
    disk_after_ms: FsyncTimes | None
    syncs: int | None
    because: str
    mixes: tuple[InMix, ...]
    media: Media
    added_ms: float

    @property
    def outcome(self) -> Outcome:
        """By the counts of flushes that were answered, and by what the files lie on."""
        if self.flushes == 0:
            return Outcome(Kept.NO_FLUSH)
        if self.media.in_memory:
            return Outcome(Kept.MEMORY)
        weak, known = self.media.weak, self.media.known
        if self.syncs is not None and self._kept_in_each_mix:
            return Outcome(Kept.EACH, weak=weak, on_known=known)
        if self.syncs is None or self.media.synchronous:
            return Outcome(Kept.UNKNOWN, self.media.synchronous, weak)
        kept = Kept.NONE if self.syncs <= STRAY_SHARE * self.flushes else Kept.FEWER
        return Outcome(kept, weak=weak, on_known=known)

    @property
    def _kept_in_each_mix(self) -> bool:
        """By each mix on its own; and all that is missing is a small part of the flushes."""
        in_border = all(mix.missing <= mix.border for mix in self.mixes)
        return in_border and self.missing <= BORDER_MOST * self.flushes

    @property
    def missing(self) -> int:
        """Syncs that mixes lack, summed over those mixes alone."""
        return sum(mix.missing for mix in self.mixes)

    @property
    def short(self) -> bool:
        """Whether the syncs make up for the flushes only with those that may fall outside the windows."""
        return self.outcome.kept is Kept.EACH and self.missing > 0

    @property
    def unstable(self) -> bool:
        """Whether the disk's own fsync was another one after the mixes."""
        if self.disk_ms is None or self.disk_after_ms is None:
            return False
        low, high = sorted((self.disk_ms.p50, self.disk_after_ms.p50))
        return high > UNSTABLE * low


def promises(source: Source, results: Results) -> list[Promise]:
    """One of each run that has a finished mix; none of web servers."""
    if not source.head.suite.work.has_durability:
        return []
    by_run: dict[int, list[MixRecord]] = defaultdict(list)
    for record in results.used:
        by_run[record.run].append(record)
    added_ms = {each.name: each.settings.get("fsync_delay_ms") or 0.0 for each in source.head.configurations}
    return [
        _promise(records, source.run_notes.get(run), added_ms.get(records[0].configuration, 0.0))
        for run, records in by_run.items()
    ]


def _promise(records: Sequence[MixRecord], note: RunNote | None, added_ms: float) -> Promise:
    rows = [_flushes(record) for record in records]
    known = all(record.syncs_known for record in records)
    mixes = tuple(
        _in_mix(record, sum(row.count for row in flushes))
        for record, flushes in zip(records, rows, strict=True)
    )
    because = (note and note.syncs_unknown_because) or "the run was not finished"
    return Promise(
        run=records[0].run,
        configuration=records[0].configuration,
        repetition=records[0].repetition,
        flushes=sum(mix.flushes for mix in mixes),
        failed=sum(row.errors for row in chain(*rows)),
        response=histograms.times([row.response_time_hdr for row in chain(*rows)]),
        disk_ms=note.disk_fsync_ms if note else None,
        disk_after_ms=note.disk_fsync_after_ms if note else None,
        syncs=sum(mix.syncs for mix in mixes) if known else None,
        because="" if known else because,
        mixes=mixes,
        media=_media(note),
        added_ms=added_ms,
    )


def _media(note: RunNote | None) -> Media:
    """What the volumes lay on, by a run's note."""
    volumes = (note.media if note else None) or ()
    return Media(
        tuple(
            tuple(Layer(layer.file_system, tuple(layer.options), layer.device) for layer in layers)
            for layers in volumes
        )
    )


def _flushes(record: MixRecord) -> list[OperationRow]:
    return [row for row in record.by_operation if row.operation == FLUSH]


def _in_mix(record: MixRecord, flushes: int) -> InMix:
    syncs = sum(row.count for row in record.syncs if row.system_call in DATA_CALLS)
    return InMix(flushes, syncs, border(flushes, record.clients, record.window_s))


def border(flushes: int, clients: int, window_s: float) -> float:
    """How many syncs of one mix may be missing, of as many flushes as that, for the opening of its window."""
    late = max(LATE_LEAST, LATE_S * flushes / window_s)
    return min(BORDER_EACH_CLIENT * clients + late, max(1, BORDER_MOST * flushes))


def outcomes(found: Iterable[Promise]) -> dict[str, Outcome]:
    """What the runs of each configuration did, by its name."""
    by_name: dict[str, set[Outcome]] = defaultdict(set)
    for promise in found:
        by_name[promise.configuration].add(promise.outcome)
    return {name: _together(seen) for name, seen in by_name.items()}


def _together(seen: set[Outcome]) -> Outcome:
    """Of several runs. One of which it is not known what its files lay on is not called unlike the others for that."""
    if not all(outcome.on_known for outcome in seen):
        if any(outcome.kept is Kept.MEMORY for outcome in seen):
            return Outcome(Kept.UNKNOWN, f"{NO_MEDIUM} for each run")
        seen = {replace(outcome, on_known=False) for outcome in seen}
    return next(iter(seen)) if len(seen) == 1 else Outcome(Kept.NOT_ALIKE)


def warnings(found: Sequence[Promise]) -> list[str]:
    """What must be known before any throughput is compared."""
    did = outcomes(found)
    seen = {
        outcome
        for outcome in did.values()
        if outcome.kept not in (Kept.UNKNOWN, Kept.NO_FLUSH) and outcome.on_known
    }
    said = []
    if len(seen) > 1:
        sure = any(outcome.kept in (Kept.NONE, Kept.MEMORY) or outcome.weak for outcome in seen)
        parts = "; ".join(f"{name}: {_told(outcome, found, name)}" for name, outcome in did.items())
        said.append(
            f"The configurations differ in what became of a flush, so their throughput "
            f"{'buys' if sure else 'may buy'} different things. {parts}."
        )
    else:
        said += _without_sync(found, did)
    return [*said, *_not_known(did), *_media_warnings(found)]


def _without_sync(found: Sequence[Promise], did: Mapping[str, Outcome]) -> list[str]:
    names = [name for name, outcome in did.items() if outcome.kept is Kept.NONE]
    if not names:
        return []
    lost = all(promise.media.ordinary for promise in found if promise.configuration in names)
    so = " What a client believed to be on the disk was not." if lost else ""
    parts = "; ".join(f"{name}: {_told(did[name], found, name)}" for name in names)
    return [f"{parts}.{so}"]


def _not_known(did: Mapping[str, Outcome]) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, outcome in did.items():
        if outcome.kept is Kept.UNKNOWN:
            by_reason[outcome.because].append(name)
    return [
        f"What became of a flush can't be told from the syncs of {wording.listing(names)}: {because}."
        if because
        else f"What became of a flush is not known for {wording.listing(names)}: what a client believed to be on "
        "the disk may not have been there."
        for because, names in by_reason.items()
    ]


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


def differs(did: Mapping[str, Outcome], base: str, other: str) -> bool | None:
    """Whether two did different things with a flush, by what each did; None: not known."""
    first, second = did.get(base), did.get(other)
    if first is None or second is None:
        return False
    return None if first.uncertain or second.uncertain else first != second


@dataclass(frozen=True, slots=True)
class Told:
    """What the runs of one configuration did together. `syncs` None: not known."""

    outcome: str
    flushes: int
    syncs: int | None


def told(found: Sequence[Promise]) -> dict[str, Told]:
    """By the name of each configuration."""
    by_name = _by_name(found)
    did = outcomes(found)
    return {
        name: Told(
            _worded(did[name], promises),
            sum(promise.flushes for promise in promises),
            None
            if any(promise.syncs is None for promise in promises)
            else sum(promise.syncs or 0 for promise in promises),
        )
        for name, promises in by_name.items()
    }


def beside_peaks(found: Sequence[Promise]) -> dict[str, str]:
    """The same in words, to stand beside each figure, where it is not the same for all; else nothing."""
    if len(set(outcomes(found).values())) < 2:
        return {}
    return {name: of_name.outcome for name, of_name in told(found).items()}


def _by_name(found: Sequence[Promise]) -> dict[str, list[Promise]]:
    by_name: dict[str, list[Promise]] = defaultdict(list)
    for promise in found:
        by_name[promise.configuration].append(promise)
    return by_name


def findings(found: Sequence[Promise], tables: dict[str, str]) -> list[Finding]:
    """What became of the flushes of each configuration, its runs together; none of web servers."""
    by_name = _by_name(found)
    did = outcomes(found)
    parts = [
        f"{name}: {_worded(did[name], promises)} ({_counts(promises)})" for name, promises in by_name.items()
    ]
    if not parts:
        return []
    evidence = "Flushes answered, and syncs of the server's processes, in the windows; "
    return [Finding("Durability", f"{'; '.join(parts)}.", f"{evidence}{tables['durability']}.")]


def _worded(outcome: Outcome, found: Sequence[Promise]) -> str:
    """In words that are true of few stray syncs, too."""
    if outcome.kept is Kept.NONE and any(promise.syncs for promise in found):
        return f"{outcome}".replace("any sync", "a sync but for strays", 1)
    return f"{outcome}"


def _told(outcome: Outcome, found: Sequence[Promise], name: str) -> str:
    """With the figures where the words alone would hide some."""
    of_name = [promise for promise in found if promise.configuration == name]
    words = _worded(outcome, of_name)
    all_said = words == f"{outcome}" and not any(promise.short for promise in of_name)
    return words if all_said else f"{words} ({_counts(of_name)})"


def _counts(found: Sequence[Promise]) -> str:
    flushes = wording.plural(sum(promise.flushes for promise in found), "flush", "flushes")
    if any(promise.syncs is None for promise in found):
        return flushes
    counted = f"{flushes}, {wording.plural(sum(promise.syncs or 0 for promise in found), 'sync')}"
    if not any(promise.short for promise in found):
        return counted
    return f"{counted}; {_outside(found)}"


def _outside(found: Sequence[Promise]) -> str:
    """What is missing and what may be, of the mixes that lack syncs: others have some to spare."""
    short = [mix for promise in found if promise.short for mix in promise.mixes if mix.missing]
    missing, most = (
        sum(each) for each in zip(*((mix.missing, math.floor(mix.border)) for mix in short), strict=True)
    )
    return (
        f"{missing:,} missing in {wording.plural(len(short), 'mix')}, where up to {most:,} may fall outside"
    )


def table(found: Sequence[Promise], basis: str) -> Table:
    """One row a run."""
    columns = (
        Column("Configuration", numeric=False),
        Column("Run"),
        Column("Flushes", "answered"),
        Column("Flushes", "failed"),
        Column("Flush p50", "ms"),
        Column("Flush p99", "ms"),
        Column("The disk's own fsync p50", "ms"),
        Column("Syncs of the server"),
        Column("Files on", numeric=False),
        Column("What became of a flush", numeric=False),
    )
    rows = tuple(_row(promise) for promise in found)
    return Table("durability", 0, "What a flush did", basis, columns, rows, tuple(_notes(found)))


def _notes(found: Sequence[Promise]) -> Iterator[str]:
    yield (
        f"Syncs of the server: system calls {wording.listing(list(DATA_CALLS))} that its processes made in the same "
        "windows, counted in the kernel; whatever they were for. A server inside the kernel, and files opened for "
        "synchronous writing, can't be counted so."
    )
    yield (
        f"{wording.NOTHING} not known. Each mix is judged on its own. As its window opens, syncs of flushes that were "
        f"counted may fall outside: {BORDER_EACH_CLIENT} a client, and those of {LATE_S * 1000:g} ms ({LATE_LEAST} at "
        f"least), by which the count may be late; at most {wording.share(BORDER_MOST)} of the mix's flushes, or a "
        f"single one where that is more, and {wording.share(BORDER_MOST)} of the run's. At least as many syncs as "
        "flushes, but for these, is what a server does that "
        "keeps each flush; the syncs may have been for something else. Fewer: flushes of the same moment may have "
        "shared a sync, or some were answered without one; the counts can't tell. Without any: at most "
        f"{wording.share(STRAY_SHARE)}."
    )
    yield (
        "The disk's own fsync: of a file in the server's data directory that grew by 4 KiB each time, before any "
        "load, and after the mixes."
    )
    if any(promise.unstable for promise in found):
        yield f"Unstable: the two differ by more than {UNSTABLE:g} times, so that they are no measure of the disk."
    if any(promise.syncs is None for promise in found):
        yield (
            "Where syncs were not counted: a flush that takes much less than a disk that is stable may not have "
            "waited for it."
        )
    # Of who made none nothing was slowed; where nobody counted, some may have been made.
    slowed = [promise for promise in found if promise.added_ms and promise.syncs != 0]
    added = {promise.configuration: promise.added_ms for promise in slowed}
    for name, added_ms in added.items():
        yield (
            f"{name}: fsync_delay_ms adds {added_ms:g} ms at least to each sync of the server, and so to flushes; "
            "the disk's own fsync is without it."
        )
    for text in dict.fromkeys(text for promise in found for text in promise.media.in_full()):
        yield f"Files on {text}: by the server's own list of mounts, from its file system down."
    yield from (f"Run {promise.run}: {promise.because}." for promise in found if promise.because)


def _row(promise: Promise) -> tuple[Cell, ...]:
    median, tail = (promise.response.percentiles_ms[place] if promise.response else None for place in (0, 2))
    return (
        Cell(promise.configuration),
        Cell(f"{promise.run}"),
        Cell(f"{promise.flushes:,}"),
        Cell(f"{promise.failed:,}"),
        Cell(wording.significant(median)),
        Cell(wording.significant(tail)),
        _disk(promise),
        Cell(
            wording.NOTHING if promise.syncs is None else f"{promise.syncs:,}",
            _outside([promise]) if promise.short else "",
        ),
        Cell(str(promise.media)),
        Cell(_worded(promise.outcome, [promise])),
    )


def _disk(promise: Promise) -> Cell:
    before = wording.significant(promise.disk_ms.p50 if promise.disk_ms else None)
    if promise.disk_after_ms is None:
        return Cell(before)
    after = f"{wording.significant(promise.disk_after_ms.p50)} after"
    return Cell(before, f"{after}, unstable" if promise.unstable else after)
