"""Durability: the effect of clients' flushes on each server, and the evidence.

Flushes and syncs are counted here per run. `analysis.durability` judges the counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from serverdyno import units, wording
from serverdyno.analysis.durability import (
    BORDER_EACH_CLIENT,
    BORDER_MOST,
    LATE_LEAST,
    LATE_S,
    STRAY_SHARE,
    UNSTABLE,
    InLevel,
    Outcome,
    SyncExtent,
    Witnesses,
    border,
    judged,
    missing,
    together,
    unstable,
)
from serverdyno.analysis.medium import NO_MEDIUM, Cut, Device, Layer, Media
from serverdyno.plan.protocols.files import FILES
from serverdyno.plan.protocols.work import Work
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures import histograms
from serverdyno.report.figures.results import LevelFigures, Results
from serverdyno.report.model import Cell, Column, Figure, Finding, Labels, Panel, Part, Point, Section, Table
from serverdyno.report.parts import NAME, level_figures, lines_of
from serverdyno.report.source import Source
from serverdyno.report.subjects import power_cuts
from serverdyno.report.subjects.testbed import disclosed_place
from serverdyno.store.note import FsyncTimes, LayerNote, RunNote
from serverdyno.store.records import DATA_CALLS, LevelRecord, OperationRow

FLUSHES = ("COMMIT", "FLUSH")
"""Requests of NFS and SMB clients to write data to disk."""
HOW = (
    "A flush promises that written data are on disk. This section counts the server's syncs. Even after a sync, a "
    "power cut can make the file unreadable; `dyno powercut` tests this."
)
HOW_OBJECTS = (
    "A PUT promises that its object is durable. This section counts the server's syncs. Even after a sync, a power cut "
    "can make the object unreadable; `dyno powercut` tests this."
)


class Words(NamedTuple):
    """The names of a flush in one kind of work: singular, plural, past participle. `head`, `heads`: as headings."""

    one: str
    several: str
    done: str
    head: str
    heads: str


FLUSH = Words("flush", "flushes", "flushed", "Flush", "Flushes")


def words_of(work: Work[Any]) -> Words:
    one, several = work.durable_word
    return (
        FLUSH
        if work.durable_word == FILES.durable_word
        else Words(one, several, "acknowledged", one, several)
    )


def applies(results: Results) -> bool:
    return bool(results.source.head.levels) and results.work.has_durability and not results.source.open


def build(results: Results) -> Part:
    cut = [power_cuts.table(results)] if results.source.power_cuts else []
    shown = (table(results.promises, basis(results, Over.EACH)), *cut)
    word = words_of(results.work)
    section = Section(
        "durability",
        f"Durability: what a {word.one} did",
        text=(HOW if word is FLUSH else HOW_OBJECTS,),
        figures=tuple(figures(results)),
        tables=shown,
        folded=True,
    )
    return Part(
        (section,),
        lambda tables: [*findings(results.promises, tables), *power_cuts.findings(results.source, tables)],
    )


@dataclass(frozen=True, slots=True)
class Promise:
    """The flushes and syncs of one run, in the windows of its levels.

    `syncs`: None if unknown; `because` says why. `levels`: each level by itself, because spare syncs at one level do
    not make up for syncs missing at another. `added_ms`: the artificial delay of each sync. `outcome`: the verdict
    from these counts, from the files' medium and from power cuts. `word`: the names of a flush in this kind of work.
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
    levels: tuple[InLevel, ...]
    media: Media
    added_ms: float
    outcome: Outcome
    preloaded: tuple[str, ...] = ()
    word: Words = FLUSH
    place: str = ""
    """The file system and device of the files as the server's driver told them; empty if it did not."""

    @property
    def short(self) -> bool:
        """Return whether there are as many syncs as flushes only if some fell outside the windows."""
        return self.outcome.extent is SyncExtent.EACH and missing(self.levels) > 0

    @property
    def unstable(self) -> bool:
        """Return whether the disk's own fsync took longer or shorter after the load than before."""
        if self.disk_ms is None or self.disk_after_ms is None:
            return False
        return unstable(self.disk_ms.p50, self.disk_after_ms.p50)


def promises(source: Source, used: Iterable[LevelRecord]) -> list[Promise]:
    """Return a promise for each run with a finished level; none for web servers."""
    if not source.head.suite.work.has_durability:
        return []
    classes = source.head.suite.work.durable_operations
    return _promises(source, used, lambda records: [_in_level([record], classes) for record in records])


def promises_of_steps(source: Source) -> list[Promise]:
    """Return a promise for each run with steps."""
    steps = [record for record in source.records if record.step is not None and record.void is None]
    return _promises(source, steps, _in_groups)


def _promises(
    source: Source, used: Iterable[LevelRecord], counted: Callable[[Sequence[LevelRecord]], list[InLevel]]
) -> list[Promise]:
    by_run: dict[int, list[LevelRecord]] = defaultdict(list)
    for record in used:
        by_run[record.run].append(record)
    return [_promise(records, tuple(counted(records)), source) for records in by_run.values()]


def _promise(records: Sequence[LevelRecord], levels: tuple[InLevel, ...], source: Source) -> Promise:
    name, work, note = records[0].configuration, source.head.suite.work, source.run_notes.get(records[0].run)
    settings = next((each.settings for each in source.head.configurations if each.name == name), {})
    lost = next((cuts.lost_files > 0 for cuts in source.power_cuts if cuts.configuration == name), None)
    rows = [_flushes(record, work.durable_operations) for record in records]
    # In a group of steps, the last record has the syncs of the whole group.
    known = all(record.syncs_known for record in records if record.step is None) and records[-1].syncs_known
    media = media_of(note)
    because = (note and note.syncs_unknown_because) or "the run was not finished"
    outcome = judged(levels, media, syncs_known=known, witnesses=_witnesses(records, note))
    return Promise(
        run=records[0].run,
        configuration=name,
        repetition=records[0].repetition,
        flushes=sum(level.flushes for level in levels),
        failed=sum(row.errors for row in chain(*rows)),
        response=histograms.times([row.response_time_hdr for row in chain(*rows)]),
        disk_ms=note.disk_fsync_ms if note else None,
        disk_after_ms=note.disk_fsync_after_ms if note else None,
        syncs=sum(level.syncs for level in levels) if known else None,
        because="" if known else because,
        levels=levels,
        media=media,
        added_ms=settings.get("fsync_delay_ms") or 0.0,
        outcome=outcome if outcome.extent is SyncExtent.NO_FLUSH else replace(outcome, lost=lost),
        preloaded=tuple((note and note.preloaded) or ()),
        word=words_of(work),
        place=disclosed_place(source, name),
    )


def media_of(note: RunNote | None) -> Media:
    """Return the media of the volumes, from a run's note."""
    if note is None:
        return Media()
    # Earlier versions measured only the first volume.
    first = (note.disk_fsync_ms.p50,) if note.disk_fsync_ms else ()
    return Media(
        tuple(tuple(map(_layer, layers)) for layers in note.media or ()),
        tuple(note.synchronous or ()),
        first if note.volume_fsync_ms is None else tuple(note.volume_fsync_ms),
        tuple(note.preloaded or ()),
    )


def _layer(noted: LayerNote) -> Layer:
    devices = tuple(Device(device.name, device.write_cache) for device in noted.devices)
    return Layer(noted.file_system, tuple(noted.options), noted.device, devices, noted.unfollowed)


def _witnesses(records: Sequence[LevelRecord], note: RunNote | None) -> Witnesses:
    """Return the kernel's and the server's sync counts; none after a resume, which they do not cover completely."""
    if note is None or note.from_level > min(record.level for record in records):
        return Witnesses()
    return Witnesses(note.syncs_by_kernel, note.syncs_by_server)


def _flushes(record: LevelRecord, classes: Sequence[str]) -> list[OperationRow]:
    return [row for row in record.by_operation if row.operation in classes]


def _in_groups(records: Sequence[LevelRecord]) -> list[InLevel]:
    """Return the counts of each group of steps, whose last record has the syncs of the group."""
    found, group = list[InLevel](), list[LevelRecord]()
    for record in records:
        group.append(record)
        if record.syncs_known or record is records[-1]:
            found.append(_in_level(group, FILES.durable_operations))
            group = []
    return found


def _in_level(records: Sequence[LevelRecord], classes: Sequence[str]) -> InLevel:
    rows = chain(*(_flushes(record, classes) for record in records))
    asked = chain(*(record.requests for record in records if record.step is not None))
    flushes = sum(row.count for row in rows) + sum(row.count for row in asked if row.request in FLUSHES)
    syncs = sum(row.count for record in records for row in record.syncs if row.system_call in DATA_CALLS)
    clients, window_s = (
        max(each) for each in zip(*((one.clients, one.window_s) for one in records), strict=True)
    )
    return InLevel(flushes, syncs, border(flushes, clients, window_s))


def outcomes(found: Iterable[Promise]) -> dict[str, Outcome]:
    by_name: dict[str, set[Outcome]] = defaultdict(set)
    for promise in found:
        by_name[promise.configuration].add(promise.outcome)
    return {name: together(seen) for name, seen in by_name.items()}


def table(found: Sequence[Promise], under: str, key: str = "durability") -> Table:
    """Return the table of flushes, one row per run. `under`: the line below the table."""
    word = _word(found)
    title = f"What a {word.one} did"
    columns = (
        NAME,
        Column("Run"),
        Column(word.heads, "answered"),
        Column(word.heads, "failed"),
        Column(f"{word.head} p50", "ms"),
        Column(f"{word.head} p99", "ms"),
        Column("The disk's own fsync p50", "ms"),
        Column("Syncs of the server"),
        Column("Files on", numeric=False),
        Column(title, numeric=False),
    )
    rows = tuple(map(_row, found))
    return Table(key, 0, title, under, columns, rows, tuple(_notes(found, word)))


def _word(found: Sequence[Promise]) -> Words:
    return found[0].word if found else FLUSH


def _notes(found: Sequence[Promise], word: Words) -> Iterator[str]:
    yield (
        f"Syncs of the server: calls of {wording.listing(list(DATA_CALLS))} by its processes in the same windows, "
        "for any reason. The kernel counts them. Opening a file for synchronous writes counts as one sync "
        "(open_sync). Syncs of servers inside the kernel can't be counted."
    )
    yield (
        f"{wording.NOTHING} not known. Each load level is judged separately. A server that honours each "
        f"{word.one} makes at least as many syncs as {word.several}, apart from a tolerance: the syncs of some "
        f"{word.several} may fall outside the window. The tolerance is {BORDER_EACH_CLIENT} per client, and the "
        f"{word.several} of the {LATE_S * 1000:g} ms by which the count may be late (at least {LATE_LEAST}). It is at "
        f"most {wording.share(BORDER_MOST)} of the {word.several} of the level (or one, if that is more) and of the "
        f"run. Syncs may also have other causes. Fewer: several {word.several} shared a sync, or the server answered "
        "some without a sync; the counts can't distinguish these cases. Without any: syncs for at most "
        f"{wording.share(STRAY_SHARE)} of the {word.several}."
    )
    yield (
        "The disk's own fsync: Serverdyno appends 4 KiB to a file in the server's data directory and syncs it, before "
        "any load and after the last load level."
    )
    if any(promise.unstable for promise in found):
        yield (
            f"Unstable: the two values differ by more than a factor of {UNSTABLE:g}, so they do not describe "
            "the disk."
        )
    if any(promise.syncs is None for promise in found):
        yield (
            f"If syncs were not counted: a {word.one} that takes much less time than the disk's fsync may not have "
            "waited for the disk."
        )
    # A server that made no sync was not slowed. If syncs were not counted, there may have been some.
    slowed = [promise for promise in found if promise.added_ms and promise.syncs != 0]
    added = {promise.configuration: promise.added_ms for promise in slowed}
    for name, added_ms in added.items():
        yield (
            f"{name}: fsync_delay_ms adds at least {added_ms:g} ms to each sync of the server, and so to "
            f"{word.several}. The disk's own fsync excludes this delay."
        )
    for text in dict.fromkeys(text for promise in found for text in promise.media.in_full()):
        yield f"Files on {text}: the mounts from top to bottom, with the server's file system first."
    yield from (f"Run {promise.run}: {promise.because}." for promise in found if promise.because)


def _row(promise: Promise) -> tuple[Cell, ...]:
    median, tail = (promise.response.percentiles_ms[place] if promise.response else None for place in (0, 2))
    return (
        Cell(promise.configuration),
        Cell(units.Written(f"{promise.run}", promise.run)),
        Cell(wording.whole(promise.flushes)),
        Cell(wording.whole(promise.failed)),
        Cell(wording.significant(median)),
        Cell(wording.significant(tail)),
        _disk(promise),
        Cell(
            wording.whole(promise.syncs),
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


def figures(results: Results) -> Iterator[Figure]:
    """Yield charts of flush times, and of throughput above and below the clients' cache, against the load level."""
    head = words_of(results.work).head
    drawn: tuple[tuple[str, str, Callable[[LevelFigures], Point | None]], ...] = (
        (f"{head} p50", "ms", partial(_flush_ms, results, 0)),
        (f"{head} p99", "ms", partial(_flush_ms, results, 2)),
    )
    title = f"{head} times"
    if results.terms.below_cache:
        title += ", and throughput above and below the client cache"
        drawn += (
            ("Above the client cache", "Mbit/s", lambda level: Point(level.load, level.throughput.mean)),
            ("Below the client cache", "Mbit/s", _below),
        )
    yield from level_figures(
        results,
        "flushes",
        title,
        Over.TOGETHER,
        lambda group: (Panel(name, unit, lines_of(results, group, point)) for name, unit, point in drawn),
    )


def _below(level: LevelFigures) -> Point | None:
    spread = level.below_cache_mbit_s
    return None if spread is None else Point(level.load, spread.mean)


def _flush_ms(results: Results, place: int, level: LevelFigures) -> Point | None:
    """Return a percentile of the flush times at one load level; None if too few flushes were answered."""
    classes = results.work.durable_operations
    rows = chain(*(_flushes(record, classes) for record in results.records(level.configuration, level.index)))
    found = histograms.times([row.response_time_hdr for row in rows])
    value = None if found is None else found.percentiles_ms[place]
    return None if value is None else Point(level.load, value)


def warnings(found: Sequence[Promise]) -> list[str]:
    """Return warnings on flushes that a reader must know before comparing throughput."""
    did, word = outcomes(found), _word(found)
    cut = {outcome.lost for outcome in did.values()}
    seen = {
        replace(outcome, lost=None)
        for outcome in did.values()
        if outcome.extent not in (SyncExtent.UNKNOWN, SyncExtent.SYNCED, SyncExtent.NO_FLUSH)
    }
    said = []
    if len(seen) > 1 or {True, False} <= cut:
        sure = {True, False} <= cut or any(
            outcome.extent in (SyncExtent.NONE, SyncExtent.MEMORY) or outcome.weak for outcome in seen
        )
        parts = "; ".join(f"{name}: {_told(outcome, found, name)}" for name, outcome in did.items())
        said.append(
            f"When clients ask for durable data (a {word.one}), these configurations {('do' if sure else 'may do')} "
            f"different things. They did not do the same work, so their speeds can't be compared. {parts}."
        )
    else:
        said += _without_sync(found, did)
    return [*said, *_not_known(did, word), *_media_warnings(found), *_preloaded(found)]


def _without_sync(found: Sequence[Promise], did: Mapping[str, Outcome]) -> list[str]:
    names = [name for name, outcome in did.items() if outcome.extent is SyncExtent.NONE]
    if not names:
        return []
    lost = all(promise.media.ordinary for promise in found if promise.configuration in names)
    so = " Data that a client believed to be on disk were not on disk." if lost else ""
    parts = "; ".join(f"{name}: {_told(did[name], found, name)}" for name in names)
    return [f"{parts}.{so}"]


def _not_known(did: Mapping[str, Outcome], word: Words) -> list[str]:
    """Return warnings on unknown outcomes, except for an unknown medium, which `_media_warnings` reports."""
    by_reason: dict[tuple[SyncExtent, str], list[str]] = defaultdict(list)
    for name, outcome in did.items():
        if outcome.extent in (SyncExtent.UNKNOWN, SyncExtent.SYNCED) and outcome.because != NO_MEDIUM:
            by_reason[outcome.extent, outcome.because].append(name)
    return [_why_not_known(*why, wording.listing(names), word) for why, names in by_reason.items()]


def _why_not_known(extent: SyncExtent, because: str, names: str, word: Words) -> str:
    if extent is SyncExtent.SYNCED:
        return f"{names}: {extent.told(word.one, word.several)}. Whether the synced data reached a disk is {because}."
    if because:
        return f"The syncs don't show what a {word.one} did on {names}: {because}."
    return (
        f"What a {word.one} did on {names} is not known. Data that a client believed to be on disk may not have "
        "been on disk."
    )


def _media_warnings(found: Sequence[Promise]) -> Iterator[str]:
    """Yield warnings on files in memory, on an unknown medium, or below a file system that stops syncs."""
    in_memory: dict[str, dict[str, None]] = defaultdict(dict)
    weak: dict[Cut, dict[str, None]] = defaultdict(dict)
    for promise in found:
        if promise.media.in_memory:
            in_memory[str(promise.media)][promise.configuration] = None
        elif promise.media.weak:
            weak[promise.media.weak][promise.configuration] = None
    for where, names in in_memory.items():
        yield (
            f"{wording.listing(list(names))}: the files are in memory (on {where}), so no figure describes "
            "a disk."
        )
    for how, names in weak.items():
        unless = ", unless that cache is protected" if how.by_device_cache else ""
        yield f"{wording.listing(list(names))}: {how}. A power cut can lose {_word(found).done} data{unless}."
    # If syncs were not counted either, `_not_known` already warns.
    unknown = {e.configuration: e.place for e in found if e.syncs is not None and not e.media.known}
    for place in dict.fromkeys(unknown.values()):
        listed = wording.listing([name for name, its in unknown.items() if its == place])
        told = f"the files are on {place}; what is below was not recorded."
        yield f"{listed}: {told if place else f'{NO_MEDIUM}. If it is memory, no data are on a disk.'}"


def _preloaded(found: Sequence[Promise]) -> list[str]:
    names: dict[tuple[str, ...], dict[str, None]] = defaultdict(dict)
    for promise in found:
        if promise.preloaded:
            names[promise.preloaded][promise.configuration] = None
    return [
        f"{wording.listing(list(of))}: this program or the server loads a library before all others (LD_PRELOAD): "
        f"{', '.join(libraries)}. Such a library can answer syncs itself; then the disk's own fsync does "
        "not describe the disk."
        for libraries, of in names.items()
    ]


@dataclass(frozen=True, slots=True)
class FlushSummary:
    """Flushes and syncs of all runs of one configuration. `syncs`: None if unknown."""

    outcome: str
    flushes: int
    syncs: int | None


def flush_summaries(found: Sequence[Promise]) -> dict[str, FlushSummary]:
    did = outcomes(found)
    return {
        name: FlushSummary(
            _worded(did[name], of_name),
            sum(each.flushes for each in of_name),
            _syncs(of_name),
        )
        for name, of_name in _by_name(found).items()
    }


def price(found: Sequence[Promise], name: str) -> str:
    """Return one sentence on what a power cut can cost the clients of a configuration; empty without an outcome."""
    word = _word(found)
    outcome = outcomes(found).get(name)
    if outcome is None:
        return ""
    if outcome.lost:
        return f"{name} lost {word.done} data when the power was cut."
    if outcome.extent is SyncExtent.NONE:
        flushes = sum(promise.flushes for promise in _by_name(found)[name])
        return (
            f"{name} answered {flushes:,} {word.several} without a sync, so a power cut can lose data that clients "
            "believe to be safe."
        )
    if outcome.extent is SyncExtent.MEMORY:
        return f"The files of {name} are in memory, so nothing survives a power cut."
    return f"The two do different things on a {word.one}, so speed alone can't rank them."


def beside_peaks(found: Sequence[Promise]) -> dict[str, str]:
    """Return the effect of a flush to show next to each peak; empty if it was the same for all."""
    if len(set(outcomes(found).values())) < 2:
        return {}
    return {name: of_name.outcome for name, of_name in flush_summaries(found).items()}


def is_flushed(found: Sequence[Promise]) -> bool:
    return any(promise.flushes for promise in found)


def findings(found: Sequence[Promise], tables: Labels, key: str = "durability") -> list[Finding]:
    """Return a finding on each configuration's flushes; empty if no client sent any."""
    did = outcomes(found)
    if all(outcome.extent is SyncExtent.NO_FLUSH for outcome in did.values()):
        return []
    parts = [
        f"{name}: {_worded(did[name], of_name)} ({_counts(of_name)})"
        for name, of_name in _by_name(found).items()
    ]
    evidence = (
        f"{_word(found).heads} answered and syncs by the server's processes, both counted in the windows; "
    )
    return [Finding("Durability", f"{'; '.join(parts)}.", f"{evidence}{tables[key]}.")]


def _by_name(found: Sequence[Promise]) -> dict[str, list[Promise]]:
    by_name: dict[str, list[Promise]] = defaultdict(list)
    for promise in found:
        by_name[promise.configuration].append(promise)
    return by_name


def _worded(outcome: Outcome, found: Sequence[Promise]) -> str:
    """Return the outcome in words, which mention unrelated syncs if any were counted."""
    word = _word(found)
    said = outcome.told(word.one, word.several)
    if outcome.extent is SyncExtent.NONE and any(promise.syncs for promise in found):
        return said.replace("any sync", "a sync, apart from unrelated syncs", 1)
    return said


def _told(outcome: Outcome, found: Sequence[Promise], name: str) -> str:
    """Return the outcome in words, with the counts unless the words include them."""
    of_name = _by_name(found)[name]
    words = _worded(outcome, of_name)
    word = _word(found)
    all_said = words == outcome.told(word.one, word.several) and not any(promise.short for promise in of_name)
    return words if all_said else f"{words} ({_counts(of_name)})"


def _counts(found: Sequence[Promise]) -> str:
    flushes = wording.plural(sum(promise.flushes for promise in found), *_word(found)[:2])
    syncs = _syncs(found)
    if syncs is None:
        return flushes
    counted = f"{flushes}, {wording.plural(syncs, 'sync')}"
    return f"{counted}; {_outside(found)}" if any(promise.short for promise in found) else counted


def _syncs(found: Sequence[Promise]) -> int | None:
    """Return the number of syncs of all runs; None if unknown for one."""
    known = [promise.syncs for promise in found if promise.syncs is not None]
    return sum(known) if len(known) == len(found) else None


def _outside(found: Sequence[Promise]) -> str:
    """Return the numbers of missing and of tolerated missing syncs, at the levels with missing syncs."""
    short = [level for promise in found if promise.short for level in promise.levels if level.missing]
    missing, most = (
        sum(each)
        for each in zip(*((level.missing, math.floor(level.border)) for level in short), strict=True)
    )
    return (
        f"{wording.plural(missing, 'sync')} missing at {wording.plural(len(short), 'load level')}; up to {most:,} may "
        "lie outside the windows"
    )
