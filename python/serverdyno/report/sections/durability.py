"""The table of flushes: what the server did with them, run by run. The sentences on it are in `words.durability`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from serverdyno import wording
from serverdyno.analysis.durability import (
    BORDER_EACH_CLIENT,
    BORDER_MOST,
    LATE_LEAST,
    LATE_S,
    STRAY_SHARE,
    UNSTABLE,
)
from serverdyno.report.figures import histograms
from serverdyno.report.figures.durability import FLUSH, Promise
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Cell, Column, Figure, Panel, Point, Series, Table
from serverdyno.report.sections.drawings import groups, style_of
from serverdyno.report.words.durability import outside, worded
from serverdyno.store.records import DATA_CALLS


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
        Column("What a flush did", numeric=False),
    )
    rows = tuple(_row(promise) for promise in found)
    return Table("durability", 0, "What a flush did", basis, columns, rows, tuple(_notes(found)))


def figures(results: Results, basis: str) -> list[Figure]:
    """How long a flush took, and what passed below the clients' cache, at each load level."""
    found = []
    for suffix, group in groups(results):
        panels = (
            Panel(
                "Flush p50", "ms", _series(results, group, lambda name, mix: _flush_ms(results, name, mix, 0))
            ),
            Panel(
                "Flush p99", "ms", _series(results, group, lambda name, mix: _flush_ms(results, name, mix, 2))
            ),
            Panel(
                "Above the client cache",
                "Mbit/s",
                _series(results, group, lambda _, mix: mix.throughput.mean),
            ),
            Panel("Below the client cache", "Mbit/s", _series(results, group, _below)),
        )
        drawn = tuple(panel for panel in panels if panel.series)
        if drawn:
            title = "Flush times, and throughput above and below the client cache"
            axis = results.axis.title
            found.append(Figure(f"flushes{suffix}", 0, title, basis, "lines", axis, drawn))
    return found


def _below(_: str, mix: MixFigures) -> float | None:
    return None if mix.below_cache_mbit_s is None else mix.below_cache_mbit_s.mean


def _series(
    results: Results,
    group: Sequence[ConfigurationResult],
    value: Callable[[str, MixFigures], float | None],
) -> tuple[Series, ...]:
    found = []
    for result in group:
        points = tuple(
            Point(mix.level, y) for mix in result.finished if (y := value(result.name, mix)) is not None
        )
        if points:
            found.append(Series(result.name, style_of(results, result.name), points))
    return tuple(found)


def _flush_ms(results: Results, name: str, mix: MixFigures, place: int) -> float | None:
    """A percentile of the flushes of one point, by its place; None where too few were answered."""
    rows = [
        row.response_time_hdr
        for record in results.records(name, mix.mix)
        for row in record.by_operation
        if row.operation == FLUSH
    ]
    found = histograms.times(rows)
    return None if found is None else found.percentiles_ms[place]


def _notes(found: Sequence[Promise]) -> Iterator[str]:
    yield (
        f"Syncs of the server: calls {wording.listing(list(DATA_CALLS))} that its processes made in the same "
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
            outside([promise]) if promise.short else "",
        ),
        Cell(str(promise.media)),
        Cell(worded(promise.outcome, [promise])),
    )


def _disk(promise: Promise) -> Cell:
    before = wording.significant(promise.disk_ms.p50 if promise.disk_ms else None)
    if promise.disk_after_ms is None:
        return Cell(before)
    after = f"{wording.significant(promise.disk_after_ms.p50)} after"
    return Cell(before, f"{after}, unstable" if promise.unstable else after)
