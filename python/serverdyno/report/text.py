"""The report in the terminal: what `dyno run` and `dyno load` end with. The whole is in the page.

Tables are laid out here and not by the terminal library, which breaks a figure or a name wherever a column ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from serverdyno.report import wording
from serverdyno.report.comparison import Compared
from serverdyno.report.model import Cell, Column, Finding, Report, Table

SHOWN = ("peaks", "requests", "improvements")
GAP = 3
"""Blanks between two columns of a `SIMPLE_HEAD` box."""


def render(report: Report, console: Console) -> None:
    """Prints warnings, the main tables and the findings."""
    _render_warnings(report.warnings, console)
    shown = [table for table in report.tables if table.key.partition("-")[0] in SHOWN]
    for table in shown:
        _render_table(table, console)
    _render_notes(shown, console)
    _render_findings(report.findings, console)


def render_compared(compared: Compared, console: Console) -> None:
    """Prints what `dyno compare` ends with."""
    _render_warnings((*compared.warnings, *compared.differences), console)
    _render_table(compared.table, console)
    _render_notes([compared.table], console)
    _render_findings(compared.findings, console)


def _render_warnings(warnings: Sequence[str], console: Console) -> None:
    for warning in warnings:
        console.print(Text(warning, style="yellow"))


def _render_notes(tables: Sequence[Table], console: Console) -> None:
    """Tables have much in common; each basis and note is said once."""
    for note in dict.fromkeys(note for table in tables for note in (table.basis, *table.notes)):
        console.print(Text(note, style="dim"))


def _render_table(table: Table, console: Console) -> None:
    """In as many portions as the width asks for, each with the columns that say what a row is."""
    for part, (places, widths) in enumerate(_portions(table, console.width)):
        rich_table = RichTable(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            title=f"{table.label}{', continued' if part else ''}. {table.title}",
            title_justify="left",
            title_style="bold",
        )
        for place, width in zip(places, widths, strict=True):
            column = table.columns[place]
            head = "\n".join(_wrapped(line, width) for line in (column.label, column.unit) if line)
            rich_table.add_column(
                head, justify="right" if column.numeric else "left", width=width, overflow="fold"
            )
        for row in table.rows:
            rich_table.add_row(
                *(_cell(row[place], width) for place, width in zip(places, widths, strict=True))
            )
        console.print()
        console.print(rich_table)


def _portions(table: Table, width: int) -> Iterator[tuple[list[int], list[int]]]:
    """Which columns stand side by side, and how wide each is."""
    texts = [
        list(_texts(column, [row[place] for row in table.rows])) for place, column in enumerate(table.columns)
    ]
    least = [max(len(part) for text in column for part in _parts(text)) for column in texts]
    wanted = [max(len(text) for text in column) for column in texts]
    keys, others = list(range(table.key_columns)), list(range(table.key_columns, len(table.columns)))
    while others:
        places = keys + others[:1]
        for place in others[1:]:
            if sum(least[at] + GAP for at in (*places, place)) > width:
                break
            places.append(place)
        others = others[len(places) - len(keys) :]
        yield places, _widths([least[at] for at in places], [wanted[at] for at in places], width)


def _widths(least: list[int], wanted: list[int], width: int) -> list[int]:
    """The widest column that can give way does so until all fit."""
    widths = list(wanted)
    while sum(widths) + GAP * len(widths) > width:
        yielding = [place for place in range(len(widths)) if widths[place] > least[place]]
        if not yielding:
            break
        widths[max(yielding, key=lambda place: widths[place])] -= 1
    return widths


def _texts(column: Column, cells: Sequence[Cell]) -> Iterator[str]:
    yield from (column.label, column.unit)
    for cell in cells:
        yield from (_marked(cell), cell.detail)


def _marked(cell: Cell) -> str:
    return f"{cell.text}{wording.NO_BREAK}{cell.marks}" if cell.marks else cell.text


def _parts(text: str) -> list[str]:
    """What stays whole: words, and the parts of a name up to and with its hyphens."""
    return [part.rstrip(" ") for part in re.findall(r"[^ -]*[ -]+|[^ -]+", text)] or [""]


def _wrapped(text: str, width: int) -> str:
    """The text in lines of that width, broken at blanks and after hyphens; a no-break space breaks nowhere."""
    lines = [""]
    for part in re.findall(r"[^ -]*[ -]+|[^ -]+", text):
        if lines[-1] and len(lines[-1]) + len(part.rstrip(" ")) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip(" ") for line in lines)


def _cell(cell: Cell, width: int) -> Text:
    text = Text(_wrapped(_marked(cell), width), style="bold" if cell.strong else "")
    if cell.marks:
        text.stylize("yellow", len(text) - len(cell.marks))
    if cell.detail:
        text.append(f"\n{_wrapped(cell.detail, width)}", style="dim")
    return text


def _render_findings(findings: Sequence[Finding], console: Console) -> None:
    console.print()
    for finding in findings:
        console.print(Text(f"• {finding.claim}"))
        console.print(Text(f"  {finding.evidence}", style="dim"))
