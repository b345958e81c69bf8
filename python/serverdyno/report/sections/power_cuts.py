"""The table of power cuts, with the throughput of the same configuration next to each verdict."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Table
from serverdyno.report.source import Source
from serverdyno.report.words.power_cuts import losses
from serverdyno.store.powercut import PowerCuts


def table(source: Source, results: Results) -> Table:
    """One row a configuration."""
    columns = (
        Column("Configuration", numeric=False),
        Column("Power cuts"),
        Column("Flushed files"),
        Column("Flushed files", "lost"),
        Column("Flushed MB", "lost"),
        Column("Other files"),
        Column("Other files", "complete"),
        Column("Verdict", numeric=False),
        Column("Highest throughput", results.terms.unit),
    )
    heights = {
        result.name: wording.significant(result.peak_height) if result.peak else wording.NOTHING
        for result in results.configurations
    }
    rows = tuple(_row(cuts, heights.get(cuts.configuration, wording.NOTHING)) for cuts in source.power_cuts)
    return Table("power-cuts", 0, "What power cuts left", "", columns, rows, _notes(source))


def _row(cuts: PowerCuts, height: str) -> tuple[Cell, ...]:
    lost_bytes = sum(cut.lost_bytes for cut in cuts.cuts)
    return (
        Cell(cuts.configuration),
        Cell(f"{len(cuts.cuts):,}"),
        Cell(f"{cuts.flushed_files:,}"),
        Cell(f"{cuts.lost_files:,}"),
        Cell(wording.significant(lost_bytes / 1e6) if lost_bytes else "0"),
        Cell(f"{sum(cut.unflushed_files for cut in cuts.cuts):,}"),
        Cell(f"{sum(cut.kept_unflushed_files for cut in cuts.cuts):,}"),
        Cell(losses(cuts)),
        Cell(height),
    )


def _notes(source: Source) -> tuple[str, ...]:
    how = (
        "The same server and configuration in a guest with a disk whose cache is lost with the power. Clients wrote "
        "files and flushed three of four. At a random moment guest and cache were killed, the guest was booted from "
        "what had been flushed to its disk, and each file was read through the server. A flushed file is lost where a "
        "byte that a successful flush covered is not as it was written. Other files may be lost. Throughput is that of "
        "the runs under load: none is taken from a guest."
    )
    each = (
        f"{cuts.configuration}: {cuts.version}, kernel {cuts.kernel}, {cuts.clients} clients, seed {cuts.seed}, "
        f"{cuts.took_s:.0f} s in all. In the guest: {'; '.join(cuts.changed) or 'nothing changed'}."
        for cuts in source.power_cuts
    )
    return (how, *each)
