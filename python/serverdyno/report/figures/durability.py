"""Flushes and syncs of each run, from its records and its note. What they say of a server is judged in `analysis`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from serverdyno.analysis.durability import (
    InMix,
    Outcome,
    SyncExtent,
    Witnesses,
    border,
    judged,
    missing,
    together,
    unstable,
)
from serverdyno.analysis.medium import Device, Layer, Media
from serverdyno.report.figures import histograms
from serverdyno.report.source import Source
from serverdyno.store.note import FsyncTimes, LayerNote, RunNote
from serverdyno.store.records import DATA_CALLS, MixRecord, OperationRow

FLUSH = "flush"


@dataclass(frozen=True, slots=True)
class Promise:
    """Flushes and syncs of one run, in the windows of its mixes. `syncs` None: not known, `because` says why.

    `mixes`: each on its own, since syncs to spare in one are not those that another lacks.
    `added_ms`: what each sync of the server took longer on purpose. `outcome`: by the counts of flushes that were
    answered, and by what the files lie on.
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
    outcome: Outcome
    preloaded: tuple[str, ...] = ()

    @property
    def short(self) -> bool:
        """Whether the syncs make up for the flushes only with those that may fall outside the windows."""
        return self.outcome.extent is SyncExtent.EACH and missing(self.mixes) > 0

    @property
    def unstable(self) -> bool:
        """Whether the disk's own fsync was another one after the mixes."""
        if self.disk_ms is None or self.disk_after_ms is None:
            return False
        return unstable(self.disk_ms.p50, self.disk_after_ms.p50)


def promises(source: Source, used: Iterable[MixRecord]) -> list[Promise]:
    """One of each run that has a finished mix; none of web servers."""
    if not source.head.suite.work.has_durability:
        return []
    by_run: dict[int, list[MixRecord]] = defaultdict(list)
    for record in used:
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
    media = media_of(note)
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
        media=media,
        added_ms=added_ms,
        outcome=judged(mixes, media, syncs_known=known, witnesses=_witnesses(records, note)),
        preloaded=tuple((note and note.preloaded) or ()),
    )


def media_of(note: RunNote | None) -> Media:
    """What the volumes lay on, by a run's note."""
    if note is None:
        return Media()
    # Before each volume was measured, the first one was.
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


def _witnesses(records: Sequence[MixRecord], note: RunNote | None) -> Witnesses:
    """Of runs that were measured at one go: after a resume the counts are of its last part alone."""
    if note is None or note.from_mix > min(record.mix for record in records):
        return Witnesses()
    return Witnesses(note.syncs_by_kernel, note.syncs_by_server)


def _flushes(record: MixRecord) -> list[OperationRow]:
    return [row for row in record.by_operation if row.operation == FLUSH]


def _in_mix(record: MixRecord, flushes: int) -> InMix:
    syncs = sum(row.count for row in record.syncs if row.system_call in DATA_CALLS)
    return InMix(flushes, syncs, border(flushes, record.clients, record.window_s))


def outcomes(found: Iterable[Promise]) -> dict[str, Outcome]:
    """What the runs of each configuration did, by its name."""
    by_name: dict[str, set[Outcome]] = defaultdict(set)
    for promise in found:
        by_name[promise.configuration].add(promise.outcome)
    return {name: together(seen) for name, seen in by_name.items()}
