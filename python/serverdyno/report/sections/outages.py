"""Outages: how long clients were without their server, what went on over that, and what was still there."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.plan.model import Mix
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Figure, Panel, Point, Section, Series, Table
from serverdyno.report.sections.overview import MOST_BARS
from serverdyno.report.source import Source
from serverdyno.report.subjects import times_compared
from serverdyno.report.subjects.outages import RESOLUTION_S, OutageFigures, by_level
from serverdyno.report.subjects.times_compared import TimesCompared
from serverdyno.store.records import MixRecord

BACK = (
    Column("Configuration", numeric=False),
    Column("Clients"),
    Column("Outages"),
    Column("Back", "of clients"),
    Column("Back p50", "s"),
    Column("Back p99", "s"),
    Column("Slowest", "s"),
    Column("Went on", "clients"),
    Column("Failed operations"),
    Column("Blocks read back"),
    Column("Flushed, lost"),
    Column("Wrong"),
    Column("Unflushed, lost"),
)
BACK_NOTES = (
    "All repetitions together. Back: from the moment at which the server or the connections were taken away to the "
    "first operation of a client that succeeded on another connection. A client that was not back before the end of "
    "the mix counts as slower than every other. Went on: with the file that they had open; the others had to open it "
    "again.",
    "Blocks read back: after the mix, from the server. Flushed, lost: older than what the server had acknowledged "
    "and flushed. Wrong: no version as a whole, and reads in the mix that were given other bytes than the file has. "
    "Unflushed, lost: acknowledged and not flushed, which a server may lose with the session. What was not "
    "acknowledged counts nowhere.",
)
HANDLES = (
    Column("Configuration", numeric=False),
    Column("Clients"),
    Column("Asked"),
    Column("Granted"),
    Column("Persistent"),
    Column("Regained"),
    Column("Lost"),
    Column("Calls sent again"),
)
HANDLES_NOTES = (
    "From start to end of the mix, all repetitions together. Asked: opens of which clients asked that the handle "
    "outlive its connection. Persistent: those granted handles that also outlive a restart of the server. Regained: "
    "opened again on another connection, with what the server had kept. Calls sent again: those without an answer when "
    "the connection was lost.",
)


def summary(source: Source, results: Results, pairs: Sequence[TimesCompared], basis: str) -> Section:
    """The executive summary of an experiment with outages, its sentences still to come."""
    found = (
        back_table(results, basis),
        handles_table(results, basis),
        differences(source.head.mixes, pairs, basis),
    )
    return Section(
        key="summary",
        title="Outages: time without service, open files and data",
        tables=tuple(table for table in found if table is not None),
    )


def figure(found: Sequence[OutageFigures], basis: str) -> tuple[Figure, ...]:
    """Bars of the median time without service, the shortest first; nothing of one configuration."""
    bars = [
        Series(each.name, style, (Point(0, each.median_s, each.back_s[0], each.back_s[-1]),))
        for style, each in enumerate(found)
        if each.median_s is not None
    ]
    if len(bars) < 2:
        return ()
    bars.sort(key=lambda bar: bar.points[0].y)
    title = "Median time until a client was served again, and lines from the quickest to the slowest client"
    if len(bars) > MOST_BARS:
        title += f", the first {MOST_BARS} of {len(bars)}"
    panel = Panel("", "s", tuple(bars[:MOST_BARS]))
    return (Figure("overview", 0, title, f"{basis} Shorter is better.", "bars", "Seconds", (panel,)),)


def back_table(results: Results, basis: str) -> Table | None:
    """How long clients were without their server, and what was lost: a row a configuration and load level."""
    rows = tuple(_back_row(clients, found) for clients, found in by_level(results))
    if not rows:
        return None
    return Table("outages", 0, "What an outage cost", basis, BACK, rows, BACK_NOTES, key_columns=2)


def _back_row(clients: int, found: OutageFigures) -> tuple[Cell, ...]:
    wrong = None if found.blocks_wrong is None else found.blocks_wrong + found.wrong_reads
    return (
        Cell(found.name),
        Cell(f"{clients:,}"),
        Cell(f"{found.outages:,}"),
        Cell(f"{len(found.back_s):,} of {found.clients:,}"),
        Cell(wording.significant(found.median_s), strong=True),
        Cell(wording.significant(found.p99_s)),
        Cell(wording.significant(found.slowest_s)),
        Cell(f"{found.went_on:,}"),
        Cell(f"{found.failed:,}"),
        *(
            Cell(wording.NOTHING if count is None else f"{count:,}")
            for count in (found.blocks_read_back, found.blocks_lost, wrong, found.unflushed_lost)
        ),
    )


def handles_table(results: Results, basis: str) -> Table | None:
    """Handles that were to outlive connections; None where clients asked for none."""
    rows = tuple(
        _handles_row(result.name, records)
        for result in results.configurations
        for mix in result.finished
        if (records := results.records(result.name, mix.mix))
        and any(record.handles_asked for record in records)
    )
    if not rows:
        return None
    title = "Handles that were to outlive connections"
    return Table("handles", 0, title, basis, HANDLES, rows, HANDLES_NOTES, key_columns=2)


def _handles_row(configuration: str, records: Sequence[MixRecord]) -> tuple[Cell, ...]:
    counts = (
        [record.handles_asked for record in records],
        [record.handles_granted for record in records],
        [record.handles_persistent for record in records],
        [record.handles_regained for record in records],
        [record.handles_lost for record in records],
        [record.calls_sent_again for record in records],
    )
    return (
        Cell(configuration),
        Cell(f"{records[0].clients:,}"),
        *(Cell(f"{sum(count or 0 for count in each):,}") for each in counts),
    )


def differences(mixes: Sequence[Mix], pairs: Sequence[TimesCompared], basis: str) -> Table | None:
    """Each pair at each load level; None where there is nothing to compare. `mixes`: of the suite."""
    rows = times_compared.rows(pairs, lambda _, level: mixes[level.mix].clients)
    if not rows:
        return None
    columns = times_compared.columns(
        Column("Clients"), Column("Without service", "median, s; base below"), Column("Change")
    )
    notes = (
        "Faster: clients were served again sooner. Without service: harmonic mean of the repetitions' medians. "
        f"A client tries again every {RESOLUTION_S:g} s at the latest, so no difference below that is claimed. "
        f"{times_compared.VERDICTS_NOTE}",
    )
    title = "Time without service compared"
    return Table("away", 0, title, basis, columns, rows, notes, key_columns=2)
