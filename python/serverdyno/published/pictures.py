"""Pictures of a published report: curves over clients if its tables have them, otherwise bars.

This module has only data; charts and the terminal draw them. There is one picture per figure of the report, even if
the figure is printed twice. Tables without a column in one of `UNITS` (settings, versions) are not drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from serverdyno import wording
from serverdyno.published import PublishedReport
from serverdyno.published.model import Where
from serverdyno.published.tables import Cell, Table, number

UNITS = {
    "mbits_per_s": "Mbit/s",
    "requests_per_s": "requests/s",
    "k_per_s": "KB/s",
    "seeks_per_s": "seeks/s",
    "seconds": "seconds",
    "percent": "percent",
    "errors_per_run": "errors per run",
}
"""Units of the columns that are drawn."""
ALONG = "clients"
FEWEST_POINTS = 3
OTHER_SIDE = "compared_"
"""Prefix of columns of improvements, for what is improved upon."""
NEED_COLUMN = {"yes", "no", "on", "off", "none", "installed"}
"""Values that say nothing without the name of their column."""
MOST_SERIES = 6
"""Maximum number of series in one picture of curves. More series are split into several pictures."""

Row = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Line:
    """One curve, or one bar. The only point of a bar has no position."""

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def peak(self) -> tuple[float, float]:
        return max(self.points, key=lambda point: point[1])


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure of a report. `constant` has the values that all its lines share.

    `numbers_of`: the figures that print its numbers, if it does not.
    """

    figures: tuple[str, ...]
    kind: Literal["lines", "bars"]
    unit: str
    constant: str
    lines: tuple[Line, ...]
    numbers_of: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        words = _figures(self.figures)
        if self.numbers_of:
            words += (
                f", {'peaks' if self.kind == 'bars' else 'numbers'} from {_figures(self.numbers_of).lower()}"
            )
        if self.unit == "percent":
            words += ", in percent"
        return f"{words}: {self.constant}" if self.constant else words

    @property
    def looks(self) -> tuple[tuple[int, int], ...]:
        """Return the colour and variant of each line; lines of one product share the colour.

        The product is the part of the names that varies least, such as the server in "2 processors, NetWare 6".
        """
        parts = [line.name.split(", ") for line in self.lines]
        if len({len(names) for names in parts}) > 1:
            return tuple((place, 0) for place in range(len(parts)))
        distinct = [list(dict.fromkeys(column)) for column in zip(*parts, strict=True)]
        varied = [place for place, values in enumerate(distinct) if len(values) > 1]
        if len(varied) < 2:
            return tuple((place if self.kind == "lines" else 0, 0) for place in range(len(parts)))
        product = min(varied, key=lambda place: (len(distinct[place]), -place))
        seen: dict[str, int] = defaultdict(int)
        found = []
        for names in parts:
            found.append((distinct[product].index(names[product]), seen[names[product]]))
            seen[names[product]] += 1
        return tuple(found)


def _figures(numbers: Sequence[str]) -> str:
    named = [number for number in numbers if number.isdigit()]
    return f"Figure{'s' if len(named) > 1 else ''} {wording.listing(named)}" if named else "Text"


def from_numbers(table: Table, figure: str, places: Iterable[Where]) -> list[Picture]:
    """Return the pictures of a figure whose numbers a table prints with other figures.

    `places`: values that its rows have. Columns that the table lacks are ignored, and so are places without a row.
    """
    value = next(column for column in UNITS if column in table.columns)
    rows: dict[tuple[Cell, ...], Row] = {}
    numbers_of: dict[str, None] = {}
    for place in places:
        for row in table.select({key: wanted for key, wanted in place.items() if key in table.columns}):
            if row[value] is not None:
                rows[tuple(cell for name, cell in row.items() if name != "figure")] = row
                numbers_of[str(row["figure"])] = None
    numbers = tuple(sorted(numbers_of, key=lambda number: (len(number), number)))
    made = _of_rows(figure, list(rows.values()), value) if rows else []
    return [replace(picture, numbers_of=numbers) for picture in made]


def pictures(report: PublishedReport) -> list[Picture]:
    """Return all pictures in the order of the tables, without repeated ones and bars that are points of curves."""
    found: list[Picture] = []
    for picture in (picture for table in report.tables for picture in _of_table(table)):
        content = (picture.lines, picture.unit, picture.constant)
        same = next(
            (at for at, other in enumerate(found) if (other.lines, other.unit, other.constant) == content),
            None,
        )
        if same is None:
            found.append(picture)
        else:
            found[same] = replace(found[same], figures=(*found[same].figures, *picture.figures))
    return [picture for picture in found if not _in_curves(picture, found)]


def _in_curves(picture: Picture, drawn: list[Picture]) -> bool:
    """Return whether bars are points of the same figure's curves, such as peaks printed in bold."""
    heights = {
        height
        for other in drawn
        if other.kind == "lines" and other.figures == picture.figures
        for line in other.lines
        for _, height in line.points
    }
    return picture.kind == "bars" and heights.issuperset(line.peak[1] for line in picture.lines)


def _of_table(table: Table) -> list[Picture]:
    value = next((column for column in UNITS if column in table.columns), None)
    if value is None or "figure" not in table.columns:
        return []
    rows_of: dict[str, list[Row]] = defaultdict(list)
    for row in table.select({}):
        if row[value] is not None:
            rows_of[str(row["figure"])].append(row)
    drawn: list[Picture] = []
    for figure, rows in rows_of.items():
        drawn += _of_rows(figure, rows, value)
    return drawn


def _of_rows(figure: str, rows: list[Row], value: str) -> list[Picture]:
    """Return the pictures of one figure; none for a single value, because a sentence shows it better."""
    factors = _factors(list(rows[0]), value)
    curves = ALONG in factors and len({row[ALONG] for row in rows}) >= FEWEST_POINTS
    names = [column for column in factors if not (curves and column == ALONG)]
    varying = _varying(names, rows)
    constant = ", ".join(
        named(column, rows[0][column])
        for column in names
        if rows[0][column] and len({row[column] for row in rows}) == 1
    )
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        name = ", ".join(named(column, row[column]) for column in varying if row[column] is not None)
        place, height = number(row[ALONG]) if curves else 0.0, number(row[value])
        if place is not None and height is not None:
            points[name or constant].append((place, height))
    lines = [Line(name, tuple(sorted(found))) for name, found in points.items()]
    if sum(len(line.points) for line in lines) < 2:
        return []
    if not curves:
        return [Picture((figure,), "bars", UNITS[value], constant, tuple(lines))]
    parts = -(-len(lines) // MOST_SERIES)
    size = -(-len(lines) // parts)
    return [
        Picture((figure,), "lines", UNITS[value], constant, tuple(lines[start : start + size]))
        for start in range(0, len(lines), size)
    ]


def _varying(names: list[str], rows: list[Row]) -> list[str]:
    """Return the columns with several values, without those that another one implies, as a web server its system."""
    values = {column: {row[column] for row in rows} for column in names}

    def implied(column: str) -> bool:
        return any(
            None not in values[other]
            and len(values[other]) == len({(row[other], row[column]) for row in rows}) > len(values[column])
            for other in names
        )

    return [column for column in names if len(values[column]) > 1 and not implied(column)]


def _factors(columns: list[str], value: str) -> list[str]:
    """Return the columns that identify a row: those between the figure's number and the first value."""
    return columns[1 : columns.index(value)]


def named(column: str, cell: Cell) -> str:
    """Return a value as a name, with its column if needed (`oplocks on`, `8 processors`, `over TUX`)."""
    if column.startswith(OTHER_SIDE):
        return f"over {named(column.removeprefix(OTHER_SIDE), cell)}"
    text = str(cell)
    if text.isdigit():
        return f"{text} {column.removesuffix('s') if text == '1' else column}".replace("_", " ")
    if text in NEED_COLUMN:
        return f"{column} {text}".replace("_", " ")
    return text
