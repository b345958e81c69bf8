"""The table and the drawing of scaling over CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.analysis.scaling import Step
from serverdyno.analysis.trust import Mark
from serverdyno.protocols.work import Terms
from serverdyno.report.basis import letters, mark_notes
from serverdyno.report.figures.scaling import MOST_GROUPS, Group
from serverdyno.report.model import Cell, Column, Figure, Panel, Point, Series, Table


def table(found: Sequence[Group], terms: Terms, basis: str) -> Table:
    """One row a group and count."""
    columns = (
        Column("Server", numeric=False),
        Column("CPUs"),
        Column("Configuration", numeric=False),
        Column("Peak", terms.unit),
        Column("Speed-up", "over the fewest"),
        Column("Efficiency", "of linear"),
        Column("Change", "from the count before"),
        Column("Scaling", numeric=False),
        Column("Cores"),
        Column("NUMA nodes", numeric=False),
    )
    rows = tuple(_row(group, step, terms) for group in found for step in group.steps)
    marks: frozenset[Mark] = frozenset().union(*(group.marks for group in found))
    notes = (
        "Negative: less throughput than with fewer CPUs, by the means alone; whether a difference is shown is in the "
        "table of improvements.",
        *mark_notes(marks),
    )
    return Table("scaling", 0, "Scaling over CPUs", basis, columns, rows, notes, key_columns=2)


def _row(group: Group, step: Step, terms: Terms) -> tuple[Cell, ...]:
    result = group.by_count[step.count]
    marks = result.peak.marks if result.peak else frozenset()
    cores = group.cores[step.count]
    return (
        Cell(group.name),
        Cell(f"{step.count}"),
        Cell(result.name),
        Cell(terms.written(step.throughput), marks=letters(marks)),
        Cell(f"{step.speed_up:.2f}"),
        Cell(wording.share(step.efficiency)),
        Cell(wording.change(None if step.change is None else 100 * step.change)),
        Cell("negative" if step.negative else "", strong=step.negative),
        Cell(wording.NOTHING if cores.count is None else f"{cores.count}"),
        Cell(wording.NOTHING if cores.nodes is None else wording.listing(list(map(str, cores.nodes)))),
    )


def figure(found: Sequence[Group], terms: Terms, basis: str) -> Figure:
    """The peak against the number of CPUs, and what linear scaling would be."""
    series = []
    for place, group in enumerate(found):
        spreads = [
            (count, result.throughput.peak) for count, result in group.by_count.items() if result.throughput
        ]
        points = tuple(
            Point(count, spread.mean, *((spread.minimum, spread.maximum) if spread.n > 1 else (None, None)))
            for count, spread in spreads
        )
        first, each = spreads[0][0], spreads[0][1].mean / spreads[0][0]
        assert first == min(group.by_count)  # they are in order
        series.append(Series(group.name, 2 * place % MOST_GROUPS, points))
        linear = tuple(Point(count, count * each) for count, _ in spreads)
        series.append(Series(f"{group.name}, linear", (2 * place + 1) % MOST_GROUPS, linear))
    panel = Panel("", terms.unit, tuple(series))
    return Figure("scaling", 0, "Peak against the number of CPUs", basis, "lines", "CPUs", (panel,))
