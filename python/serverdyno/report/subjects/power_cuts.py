"""Power cuts: the flushed files that were lost when the power of a virtual machine with the same server was cut.

`run/powercut/rounds.py` cuts the power.
"""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Finding, Labels, Table
from serverdyno.report.parts import NAME
from serverdyno.report.source import Source
from serverdyno.store.powercut import PowerCuts

FILE = "flushed file"
NOT_COUNTED = "not counted"


def table(results: Results) -> Table:
    """Return a table, one row per configuration, with its measured throughput next to the verdict."""
    puts = any(cuts.unit != FILE for cuts in results.source.power_cuts)
    whole, other = ("Acknowledged PUTs", "Other PUTs") if puts else ("Flushed files", "Unflushed files")
    columns = (
        NAME,
        Column("Power cuts"),
        Column(whole),
        Column(whole, "lost"),
        Column("Acknowledged MB" if puts else "Flushed MB", "lost"),
        Column(other),
        Column(other, "complete"),
        *((Column(other, "refused"),) if puts else ()),
        Column("Verdict", numeric=False),
        Column("Highest throughput", results.terms.unit),
    )
    heights = {
        result.name: wording.significant(result.peak_height)
        for result in results.configurations
        if result.peak
    }
    found = results.source.power_cuts
    rows = tuple(_row(cuts, heights.get(cuts.configuration, wording.NOTHING), puts=puts) for cuts in found)
    return Table("power-cuts", 0, "Results of the power cuts", "", columns, rows, _notes(results.source))


def _row(cuts: PowerCuts, height: str, *, puts: bool) -> tuple[Cell, ...]:
    lost_bytes = sum(cut.lost_bytes for cut in cuts.cuts)
    refused = NOT_COUNTED if cuts.refused_puts is None else wording.whole(cuts.refused_puts)
    return (
        Cell(cuts.configuration),
        Cell(wording.whole(len(cuts.cuts))),
        Cell(wording.whole(cuts.flushed_files)),
        Cell(wording.whole(cuts.lost_files)),
        Cell(wording.significant(lost_bytes / 1e6) if lost_bytes else "0"),
        Cell(wording.whole(sum(cut.unflushed_files for cut in cuts.cuts))),
        Cell(wording.whole(sum(cut.kept_unflushed_files for cut in cuts.cuts))),
        *((Cell(refused),) if puts else ()),
        Cell(_losses(cuts)),
        Cell(height),
    )


def _notes(source: Source) -> tuple[str, ...]:
    how = (
        "The same server and configuration ran in a virtual machine whose disk cache is lost with the power. Clients "
        "wrote files and flushed three out of four. At a random moment, Serverdyno killed the virtual machine and its "
        "cache, booted it again from the disk contents that had been flushed, and read each file through the server. "
        "A flushed file counts as lost if any byte covered by a successful flush differs from the written "
        "byte. A server may lose the unflushed files. Throughput comes from the runs under load, not from the virtual "
        "machine."
    )
    if any(cuts.unit != FILE for cuts in source.power_cuts):
        how = (
            "The same server and configuration ran in a virtual machine whose disk cache is lost with the power. "
            "Clients put objects. At a random moment, Serverdyno killed the virtual machine and its cache, booted it "
            "again from the remaining disk contents, and read each object through the server. A PUT "
            "acknowledged before the cut counts as lost if its object is missing, can't be read, or is "
            "torn (its bytes or its length differ). A server may lose the other PUTs. The bucket was on the disk "
            "before the first cut. Throughput comes from the runs under load, not from the virtual machine."
        )
    each = (
        f"{cuts.configuration}: {cuts.version}, kernel {cuts.kernel}, {cuts.clients} clients, seed {cuts.seed}, "
        f"{cuts.took_s:.0f} s in all. Differences in the virtual machine: {'; '.join(cuts.changed) or 'none'}."
        for cuts in source.power_cuts
    )
    return (how, *each)


def warnings(source: Source) -> list[str]:
    """Return a warning on configurations that lost data acknowledged as flushed."""
    lost = [cuts for cuts in source.power_cuts if cuts.lost_files]
    if not lost:
        return []
    parts = "; ".join(f"{cuts.configuration}: {_losses(cuts)}" for cuts in lost)
    what = "acknowledged objects" if any(cuts.unit != FILE for cuts in lost) else "flushed data"
    return [f"A power cut lost {what}. {parts}."]


def findings(source: Source, tables: Labels) -> list[Finding]:
    if not source.power_cuts:
        return []
    parts = "; ".join(f"{cuts.configuration}: {_losses(cuts)}" for cuts in source.power_cuts)
    evidence = "Read back through the same server in a virtual machine after each power cut; "
    return [Finding("Power cut", f"{parts}.", f"{evidence}{tables['power-cuts']}.")]


def _losses(cuts: PowerCuts) -> str:
    times = wording.plural(len(cuts.cuts), "power cut")
    stored = wording.plural(cuts.flushed_files, cuts.unit)
    if not cuts.lost_files and cuts.unit != FILE:
        return f"{cuts.flushed_files:,} of {stored} survived {times}"
    torn = f" ({cuts.torn_files:,} torn)" if cuts.torn_files else ""
    lost = f"{cuts.lost_files:,} of {stored} lost{torn}"
    return f"{lost} in {cuts.cuts_with_loss:,} of {times}" if cuts.lost_files else f"{lost} in {times}"
