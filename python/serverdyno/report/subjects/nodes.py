"""The nodes of a fleet: the work of each at the highest load level, its clock error, and its delay at the start.

The section is missing if one machine generated the load. The disclosure describes the nodes.
"""

from __future__ import annotations

from collections import defaultdict

from serverdyno import units, wording
from serverdyno.analysis.oddities import CLOCK_SHARE, vague_clock
from serverdyno.report.figures import generator
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Part, Section, Table
from serverdyno.report.parts import NAME, named
from serverdyno.report.source import Source
from serverdyno.store.records import LevelRecord, NodeRow
from serverdyno.units import MS_PER_S

COLUMNS = (
    NAME,
    Column("Node", numeric=False),
    Column("Clients"),
    Column("Throughput", "operations/s"),
    Column("Received", "Mbit/s"),
    Column("CPU of the busiest generator thread", "%"),
    Column("Clients' time in the generator", "%"),
    Column("Delay of the first operation", "ms"),
    Column("Clock error", "ms, at most"),
)


def applies(results: Results) -> bool:
    return "fleet" in results.source.disclosure and bool(_rows(results))


def build(results: Results) -> Part:
    rows = _rows(results)
    table = Table(
        "nodes",
        0,
        "Nodes of the fleet at the highest load level",
        "Means over the repetitions; the delay of the first operation and the clock error: largest values. A load "
        "level is generator-limited or noisy if at least one node is.",
        COLUMNS,
        rows,
        key_columns=2,
    )
    count = len({row[1].text for row in rows})
    text = f"{wording.plural(count, 'node')} generated the load. Each node checked the server's consent."
    return Part((Section("nodes", "The nodes", (text,), tables=(table,), appendix=True),))


def _rows(results: Results) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        _row(result.name, node, found)
        for result in results.configurations
        for node, found in _at_the_highest(results, result.name).items()
    )


def _at_the_highest(results: Results, configuration: str) -> dict[str, list[tuple[NodeRow, LevelRecord]]]:
    """Return the rows and records of each node at the highest load level."""
    records, axis = results.source.records_of(configuration), results.axis
    most = max((axis.load(record) for record in records), default=0)
    found: dict[str, list[tuple[NodeRow, LevelRecord]]] = defaultdict(list)
    for record in records:
        if axis.load(record) == most:
            for row in record.nodes:
                found[row.node].append((row, record))
    return dict(sorted(found.items()))


def _row(configuration: str, node: str, found: list[tuple[NodeRow, LevelRecord]]) -> tuple[Cell, ...]:
    count = len(found)
    late = [row.start_late_s for row, _ in found if row.start_late_s is not None]
    waiting = [
        share for row, record in found if (share := generator.node_waiting_share(row, record)) is not None
    ]
    busiest = sum(row.generator_busiest_cpu_s / record.window_s for row, record in found) / count
    return (
        Cell(configuration),
        Cell(node.removeprefix("node ")),
        Cell(wording.whole(found[0][0].clients)),
        Cell(units.format_count(sum(row.operations / record.window_s for row, record in found) / count)),
        Cell(
            units.format_count(
                sum(units.mbit_per_s(row.bytes_in, record.window_s) for row, record in found) / count
            )
        ),
        Cell(wording.places(100 * busiest, 0)),
        Cell(wording.places(100 * sum(waiting) / len(waiting) if waiting else None, 1)),
        Cell(wording.places(MS_PER_S * max(late) if late else None, 2)),
        Cell(wording.places(MS_PER_S * max(row.clock_error_s for row, _ in found), 2)),
    )


def vague_clocks(source: Source) -> list[str]:
    """Return a caveat on nodes whose clock error was too large for their windows, the largest first."""
    worst: dict[str, float] = {}
    for record in source.records:
        for row in record.nodes:
            if vague_clock(row.clock_error_s, record.window_s):
                worst[row.node] = max(row.clock_error_s, worst.get(row.node, 0.0))
    if not worst:
        return []
    which = named(
        [f"{node} ({1000 * worst[node]:.0f} ms)" for node in sorted(worst, key=lambda each: -worst[each])]
    )
    return [
        f"The clock error of some nodes was more than {CLOCK_SHARE:.0%} of the window: {which}. The windows of "
        "the nodes may be shifted by this time, so the sums of their figures per second are doubtful."
    ]
