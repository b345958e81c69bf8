"""What a file server did with flushes, run by run, and what may be said of it. No figure without its source.

A flush is a promise that what was written is on the disk. Two servers of which one keeps it and the other doesn't are
two different services, whatever their throughput: so this stands in every report of a file server, and at its head
where what is compared differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from serverdyno.report import histograms, wording
from serverdyno.report.model import Cell, Column, Finding, Table
from serverdyno.report.results import Results
from serverdyno.report.source import Source
from serverdyno.store.records import MixRecord

FLUSH = "flush"
DATA_CALLS = ("fsync", "fdatasync", "syncfs", "sync")
"""The calls after which data is on the disk. sync_file_range(2) and msync(2) alone don't promise that."""
BORDER_SHARE = 0.02
"""Of the flushes: the window of the counts and that of the flushes differ by some milliseconds."""


class Kept(StrEnum):
    """What the counts say of the promise. They don't say which sync was for which flush."""

    EACH = "at least as many syncs as flushes"
    FEWER = "fewer syncs than flushes"
    NONE = "flushes answered without any sync"
    NO_FLUSH = "no flush was sent"
    UNKNOWN = "not known"
    NOT_ALIKE = "not the same in each run"


UNCERTAIN = {Kept.UNKNOWN, Kept.NOT_ALIKE}


@dataclass(frozen=True, slots=True)
class Promise:
    """Flushes and syncs of one run, in the windows of its mixes. `syncs` None: not known, `because` says why."""

    run: int
    configuration: str
    repetition: int
    flushes: int
    failed: int
    response: histograms.Times | None
    disk_ms: dict[str, float] | None
    syncs: int | None
    because: str

    @property
    def kept(self) -> Kept:
        """By the counts alone, of flushes that were answered."""
        if self.flushes == 0:
            return Kept.NO_FLUSH
        if self.syncs is None:
            return Kept.UNKNOWN
        if self.syncs == 0:
            return Kept.NONE
        return Kept.EACH if self.syncs >= self.flushes * (1 - BORDER_SHARE) else Kept.FEWER


def promises(source: Source, results: Results) -> list[Promise]:
    """One of each run that has a finished mix; none of web servers."""
    if source.head.suite.protocol == "http":
        return []
    by_run: dict[int, list[MixRecord]] = defaultdict(list)
    for record in results.used:
        by_run[record.run].append(record)
    return [_promise(records, source.run_notes.get(run, {})) for run, records in by_run.items()]


def _promise(records: Sequence[MixRecord], note: Any) -> Promise:
    rows = [row for record in records for row in record.by_operation if row.operation == FLUSH]
    known = all(record.syncs_known for record in records)
    syncs = sum(row.count for record in records for row in record.syncs if row.system_call in DATA_CALLS)
    because = note.get("syncs_unknown_because") or "the run was not finished"
    return Promise(
        run=records[0].run,
        configuration=records[0].configuration,
        repetition=records[0].repetition,
        flushes=sum(row.count for row in rows),
        failed=sum(row.errors for row in rows),
        response=histograms.times([row.response_time_hdr for row in rows]),
        disk_ms=note.get("disk_fsync_ms"),
        syncs=syncs if known else None,
        because="" if known else because,
    )


def kept_by(found: Iterable[Promise]) -> dict[str, Kept]:
    """What the runs of each configuration did, by its name."""
    by_name: dict[str, set[Kept]] = defaultdict(set)
    for promise in found:
        by_name[promise.configuration].add(promise.kept)
    return {name: kept.pop() if len(kept) == 1 else Kept.NOT_ALIKE for name, kept in by_name.items()}


def warnings(found: Sequence[Promise]) -> list[str]:
    """What must be known before any throughput is compared."""
    kept = kept_by(found)
    seen = set(kept.values()) - {Kept.UNKNOWN, Kept.NO_FLUSH}
    said = []
    if len(seen) > 1:
        parts = "; ".join(f"{name}: {what.value}" for name, what in kept.items())
        buys = "buys" if Kept.NONE in seen else "may buy"
        said.append(
            f"The configurations differ in what became of a flush, so their throughput {buys} different things. "
            f"{parts}."
        )
    elif Kept.NONE in seen:
        names = wording.listing([name for name, what in kept.items() if what is Kept.NONE])
        said.append(f"{names}: {Kept.NONE.value}. What a client believed to be on the disk was not.")
    if unknown := [name for name, what in kept.items() if what is Kept.UNKNOWN]:
        said.append(
            f"What became of a flush is not known for {wording.listing(unknown)}: what a client believed to be on "
            "the disk may not have been there."
        )
    return said


def unlike(found: Sequence[Promise], base: str, other: str) -> str:
    """A sentence for each comparison of two that did different things with a flush, or may have; else nothing."""
    kept = kept_by(found)
    first, second = kept.get(base), kept.get(other)
    if first is None or second is None or (first is second and first not in UNCERTAIN):
        return ""
    if {first, second} & UNCERTAIN:
        return "Whether they did the same with a flush is not known."
    return "They differ in what became of a flush, so like is not compared with like."


def findings(found: Sequence[Promise], tables: dict[str, str]) -> list[Finding]:
    """What became of the flushes of each configuration, its runs together; none of web servers."""
    by_name: dict[str, list[Promise]] = defaultdict(list)
    for promise in found:
        by_name[promise.configuration].append(promise)
    kept = kept_by(found)
    parts = [f"{name}: {kept[name].value} ({_counts(promises)})" for name, promises in by_name.items()]
    if not parts:
        return []
    evidence = "Flushes answered, and syncs of the server's processes, in the windows; "
    return [Finding("Durability", f"{'; '.join(parts)}.", f"{evidence}{tables['durability']}.")]


def _counts(found: Sequence[Promise]) -> str:
    flushes = wording.plural(sum(promise.flushes for promise in found), "flush", "flushes")
    if any(promise.syncs is None for promise in found):
        return flushes
    return f"{flushes}, {wording.plural(sum(promise.syncs or 0 for promise in found), 'sync')}"


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
        Column("What became of a flush", numeric=False),
    )
    notes = (
        f"Syncs of the server: system calls {wording.listing(list(DATA_CALLS))} that its processes made in the same "
        "windows, counted in the kernel; whatever they were for. A server inside the kernel, and files opened for "
        "synchronous writing, can't be counted so.",
        f"{wording.NOTHING} not known. At least as many syncs as flushes: but for {wording.share(BORDER_SHARE)} at "
        "the borders of the windows. That is what a server does that keeps each flush; the syncs may have been for "
        "something else. Fewer: flushes of the same moment may have shared a sync, or some were answered without "
        "one; the counts can't tell.",
        "The disk's own fsync: of a file in the server's data directory that grew by 4 KiB each time, before any "
        "load. A flush that takes much less has not waited for that disk.",
        *(f"Run {promise.run}: {promise.because}." for promise in found if promise.because),
    )
    rows = tuple(_row(promise) for promise in found)
    return Table("durability", 0, "What a flush did", basis, columns, rows, notes)


def _row(promise: Promise) -> tuple[Cell, ...]:
    median, tail = (promise.response.percentiles_ms[place] if promise.response else None for place in (0, 2))
    return (
        Cell(promise.configuration),
        Cell(f"{promise.run}"),
        Cell(f"{promise.flushes:,}"),
        Cell(f"{promise.failed:,}"),
        Cell(wording.significant(median)),
        Cell(wording.significant(tail)),
        Cell(wording.significant(promise.disk_ms["p50"] if promise.disk_ms else None)),
        Cell(wording.NOTHING if promise.syncs is None else f"{promise.syncs:,}"),
        Cell(promise.kept.value),
    )
