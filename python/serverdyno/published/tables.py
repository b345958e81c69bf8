"""Tables for computations: rows of named columns, from CSV files or from records in memory.

Claims use only these tables, so the same code audits published reports and the user's experiments. An empty cell is
None: the value is not stated. It never counts as zero.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from serverdyno.errors import DynoError
from serverdyno.published.model import Scalar

Cell = Scalar | None


class ClaimError(DynoError):
    """A claim can't be evaluated, because it names something that the tables do not have."""


@dataclass(frozen=True)
class Table:
    """A table of named columns. Each row has one value of each value column."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def select(self, where: Mapping[str, Scalar | tuple[Scalar, ...]]) -> list[dict[str, Cell]]:
        """Return the rows that have the wanted value in each column of `where`."""
        self.require(where)
        found = set(range(len(self.rows)))
        for column, value in where.items():
            wanted = value if isinstance(value, tuple) else (value,)
            found &= set().union(*(self._places[column].get(_plain(one), ()) for one in wanted))
        return [dict(zip(self.columns, self.rows[at], strict=True)) for at in sorted(found)]

    @cached_property
    def _places(self) -> dict[str, dict[Scalar, set[int]]]:
        """Return an index: the numbers of the rows with a value, by column and value."""
        places: dict[str, dict[Scalar, set[int]]] = {column: defaultdict(set) for column in self.columns}
        for at, row in enumerate(self.rows):
            for column, cell in zip(self.columns, row, strict=True):
                places[column][_plain(cell)].add(at)
        return places

    def require(self, columns: Mapping[str, object] | Sequence[str]) -> None:
        """Raise ClaimError for a missing column."""
        for column in columns:
            if column not in self.columns:
                raise ClaimError(
                    f'table "{self.name}" has no column "{column}"', f"it has: {', '.join(self.columns)}"
                )

    def only(self, column: str, value: Scalar) -> Table:
        """Return a table with only the rows that have `value` in `column`."""
        self.require([column])
        kept = self._places[column].get(_plain(value), ())
        return Table(self.name, self.columns, tuple(self.rows[at] for at in sorted(kept)))

    def values(self, column: str) -> list[Cell]:
        """Return the distinct values of a column in order, without empty cells."""
        place = self.columns.index(column)
        return [value for value in dict.fromkeys(row[place] for row in self.rows) if value is not None]


class Tables:
    """The tables of one report or of one experiment, by name."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = {table.name: table for table in tables}

    def __getitem__(self, name: str) -> Table:
        if name not in self._tables:
            raise ClaimError(f'no table "{name}"', f"known: {', '.join(self._tables)}")
        return self._tables[name]

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())


def of_columns(name: str, columns: Mapping[str, Sequence[Cell]]) -> Table:
    """Return a table of equally long columns, which may be lists or arrays."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ClaimError(f'the columns of table "{name}" differ in length: {sorted(lengths)} values')
    return Table(name, tuple(columns), tuple(zip(*columns.values(), strict=True)))


def of_csv(name: str, text: str) -> Table:
    """Parse CSV text with a header line. Raises ClaimError if the length of a row differs from the header's."""
    head, *rows = [row for row in csv.reader(io.StringIO(text)) if row]
    for row in rows:
        if len(row) != len(head):
            raise ClaimError(f'table "{name}" has a row of {len(row)} cells, but {len(head)} columns: {row}')
    return Table(name, tuple(head), tuple(tuple(cell or None for cell in row) for row in rows))


def number(cell: Cell) -> float | None:
    """Return a cell as a number, or None if empty. Raises ClaimError for other text."""
    if cell is None:
        return None
    try:
        return float(cell)
    except ValueError as error:
        raise ClaimError(f"{cell!r} is not a number") from error


def _plain(cell: Cell) -> Scalar:
    """Return a comparable value: a number if possible (2 is 2.0), otherwise text; empty text for an empty cell."""
    if cell is None:
        return ""
    try:
        return float(cell)
    except ValueError:
        return str(cell)
