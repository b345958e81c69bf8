"""Figures of a published report by number of processors, as one table per figure.

The data are from tables with a column `processors` and without curves over clients. Values that are printed twice
appear once. They are peaks, or, in a table `averages`, means over all numbers of clients. `pictures.py` has curves
and bars.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from serverdyno.published import PublishedReport
from serverdyno.published.pictures import ALONG, UNITS, named
from serverdyno.published.tables import Cell, Table, number

PROCESSORS = "processors"
AVERAGES = "averages"
MACHINE = "server"
"""The column with the server machine, in reports with several machines."""

Row = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Scaled:
    """Figures of one server on one machine by number of processors; the machine is empty if the report had only one."""

    name: str
    machine: str
    by_count: dict[int, float]


@dataclass(frozen=True, slots=True)
class ByProcessors:
    """One figure of a report. `constant` has the values that all its rows share."""

    figures: tuple[str, ...]
    unit: str
    constant: str
    rows: tuple[Scaled, ...]
    averages: bool

    @property
    def title(self) -> str:
        words = f"Figure{'s' if len(self.figures) > 1 else ''} {' and '.join(self.figures)}"
        return f"{words}: {self.constant}" if self.constant else words


def by_processors(report: PublishedReport, unit: str) -> list[ByProcessors]:
    """Return the figures in a unit, in the order of the tables."""
    found: list[ByProcessors] = []
    for one in (one for table in report.tables for one in _of_table(table, unit)):
        same = next(
            (at for at, other in enumerate(found) if replace(other, figures=one.figures) == one), None
        )
        if same is None:
            found.append(one)
        else:
            found[same] = replace(found[same], figures=(*found[same].figures, *one.figures))
    return found


def _of_table(table: Table, unit: str) -> list[ByProcessors]:
    value = next((column for column in UNITS if column in table.columns), None)
    needed = {"figure", PROCESSORS, MACHINE}
    if value is None or UNITS[value] != unit or not needed <= set(table.columns) or ALONG in table.columns:
        return []
    rows_of: dict[str, list[Row]] = defaultdict(list)
    for row in table.select({}):
        if row[value] is not None and row["figure"] is not None:
            rows_of[str(row["figure"])].append(row)
    return [_of_figure(figure, rows, value, table.name == AVERAGES) for figure, rows in rows_of.items()]


def _of_figure(figure: str, rows: list[Row], value: str, averages: bool) -> ByProcessors:
    columns = list(rows[0])
    names = [name for name in columns[1 : columns.index(value)] if name not in (PROCESSORS, MACHINE)]
    varying = [name for name in names if len({row[name] for row in rows}) > 1]
    if "web_server" in varying:  # the report's tunings name the system
        varying = [name for name in varying if name != "system"]
    constant = [name for name in names if len({row[name] for row in rows}) == 1 and rows[0][name] is not None]
    scaled: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        name = ", ".join(named(column, row[column]) for column in varying if row[column] is not None)
        machine = str(row[MACHINE] or "")
        count, height = number(row[PROCESSORS]), number(row[value])
        if count is not None and height is not None:
            scaled[(name, machine) if name else (machine, "")][int(count)] = height
    return ByProcessors(
        (figure,),
        UNITS[value],
        ", ".join(named(column, rows[0][column]) for column in constant),
        tuple(Scaled(name, machine, points) for (name, machine), points in scaled.items()),
        averages,
    )
