"""The report in the terminal, as printed at the end of `dyno run` and `dyno load`. Only the page is complete.

Column widths are computed here, because the terminal library breaks numbers and names at any position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from serverdyno import wording
from serverdyno.report.comparison import Compared
from serverdyno.report.model import Answer, Cell, Column, Finding, Report, Table
from serverdyno.report.views import bars, references

SHOWN = ("open", "equal")
SHOWN_OF_ONE = ("throughput", *SHOWN)
"""Tables of a report with one configuration, which has no bars that show its throughput."""
TOLD = {"Peak", "Comparison", "Generator", "Machine", "Main effect", "Anomaly"}
"""Topics of findings that the answer covers, or that only explain a figure."""
SHOWN_OF_OUTAGES = ("outages", "away")
SHOWN_OF_A_SEARCH = ("capacity", "trials", "equal")
SHOWN_OF_STEPS = ("leads", "bonnie")
GAP = 2
"""Spaces between two columns, including the one that the box draws."""


def render(report: Report, console: Console) -> None:
    """Print the answer, the main table, and the findings that neither contains."""
    keys = _shown_of(report)
    shown = [table for table in report.tables if _kind(report, table) in keys]
    complete = references.completed(report, shown)
    _render_answer(report.answer, console, complete)
    for table in shown:
        _render_table(table, console)
    if key := _key_to_marks(shown):
        _say(complete(key), console, "dim")
    found = [replace(finding, evidence="") for finding in report.findings if finding.topic not in TOLD]
    _render_findings(found, console, complete)


def _shown_of(report: Report) -> tuple[str, ...]:
    source = report.results.source
    if source.cut is not None:
        return (*SHOWN_OF_OUTAGES, *SHOWN_OF_STEPS)
    if source.head.suite.objective is not None:
        return (*SHOWN_OF_A_SEARCH, *SHOWN_OF_STEPS)
    return (*(SHOWN if len(source.configuration_names) > 1 else SHOWN_OF_ONE), *SHOWN_OF_STEPS)


def _kind(report: Report, table: Table) -> str:
    """Return the table's key without the prefix of its suite and the suffix of its group."""
    prefixes = [f"{suite.name}-" for suite in report.source.head.suites]
    prefix = next((each for each in prefixes if table.key.startswith(each)), "")
    return table.key.removeprefix(prefix).partition("-")[0]


def render_compared(compared: Compared, console: Console) -> None:
    _render_warnings((*compared.warnings, *compared.differences), console)
    _render_table(compared.table, console)
    _render_notes([compared.table], console)
    _render_findings(compared.findings, console)


def _render_answer(answer: Answer, console: Console, complete: Callable[[str], str]) -> None:
    """Print the verdict, its certainty, the bars, and the first sentence of each caveat."""
    _say(answer.verdict, console, "bold")
    for label, words in answer.lines:
        _say(f"{label}: {complete(words)}", console)
    for figure in answer.figures:
        console.print()
        _say(f"{figure.title}, {figure.panels[0].y_title}", console, "bold")
        for line in bars.lines(figure, console.width):
            console.print(Text(line))
    if answer.caveats:
        console.print()
        _say("Before you quote a figure:", console, "yellow")
        for caveat in answer.caveats:
            _say(f"• {complete(caveat.claim)}", console, "yellow")


def _render_warnings(warnings: Sequence[str], console: Console) -> None:
    for warning in warnings:
        _say(warning, console, "yellow")


def _render_notes(tables: Sequence[Table], console: Console) -> None:
    """Print the basis and notes, each once for all tables."""
    console.print()
    for note in dict.fromkeys(note for table in tables for note in (table.basis, *table.notes)):
        _say(note, console, "dim")


def _key_to_marks(tables: Sequence[Table]) -> str:
    """Return a short explanation of the marks used in these tables."""
    used = {
        mark
        for table in tables
        for row in table.rows
        for cell in row
        for mark in f"{cell.marks}{cell.text[:1]}"
    }
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    return "; ".join(
        note.partition(":")[0].rstrip(".")
        for note in notes
        if note[:2].strip() == note[0] and note[0] in used
    )


def _render_table(table: Table, console: Console) -> None:
    """Print a table in as many parts as the width requires, each with the columns that identify a row."""
    for part, (places, widths) in enumerate(_portions(table, console.width)):
        rich_table = RichTable(
            box=box.SIMPLE_HEAD, show_edge=False, padding=(0, GAP - 1, 0, 0), pad_edge=False
        )
        for place, width in zip(places, widths, strict=True):
            column = table.columns[place]
            head = "\n".join(_wrapped(line, width) for line in (column.label, column.unit) if line)
            rich_table.add_column(
                head, justify="right" if column.numeric else "left", width=width, overflow="fold"
            )
        for row, above in zip(table.rows, (None, *table.rows), strict=False):
            cells = [_cell(row[place], width) for place, width in zip(places, widths, strict=True)]
            if above and not table.columns[0].numeric and row[0] == above[0]:
                cells[0] = Text()
            rich_table.add_row(*cells)
        console.print()
        continued = ", continued" if part else ""
        console.print(Text(f"{table.label}{continued}. {table.title}", style="bold"))
        console.print(rich_table)


def _portions(table: Table, width: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the columns of each part of a table, and the width of each column."""
    texts = [
        list(_texts(column, [row[place] for row in table.rows])) for place, column in enumerate(table.columns)
    ]
    least = [max(len(part.rstrip(" ")) for text in column for part in _parts(text)) for column in texts]
    keys, others = list(range(table.key_columns)), list(range(table.key_columns, len(table.columns)))
    while others:
        places = keys + others[:1]
        for place in others[1:]:
            if sum(least[at] for at in (*places, place)) + GAP * len(places) > width:
                break
            places.append(place)
        others = others[len(places) - len(keys) :]
        yield places, _widths([texts[at] for at in places], [least[at] for at in places], width)


def _widths(texts: list[list[str]], least: list[int], width: int) -> list[int]:
    """Return the columns' widths. If there is too little room, narrow the columns whose height grows least."""
    widths = [max(len(text) for text in column) for column in texts]
    while sum(widths) + GAP * (len(widths) - 1) > width:
        yielding = [place for place in range(len(widths)) if widths[place] > least[place]]
        if not yielding:
            break
        heights = {place: _height(texts[place], widths[place] - 1) for place in yielding}
        widths[min(yielding, key=lambda place: (heights[place], -widths[place]))] -= 1
    return widths


def _height(texts: list[str], width: int) -> int:
    return max(_wrapped(text, width).count("\n") for text in texts)


def _texts(column: Column, cells: Sequence[Cell]) -> Iterator[str]:
    yield from (column.label, column.unit)
    for cell in cells:
        yield from (_marked(cell), cell.detail)


def _marked(cell: Cell) -> str:
    return f"{cell.text}{wording.NO_BREAK}{cell.marks}" if cell.marks else cell.text


def _parts(text: str) -> list[str]:
    """Split text at spaces and hyphens. A no-break space does not split."""
    return re.findall(r"[^ -]*[ -]+|[^ -]+", text) or [""]


def _wrapped(text: str, width: int) -> str:
    lines = [""]
    for part in _parts(text):
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


def _render_findings(
    findings: Sequence[Finding], console: Console, complete: Callable[[str], str] = str
) -> None:
    console.print()
    for finding in findings:
        _say(f"• {complete(finding.claim)}", console)
        if finding.evidence:
            _say(f"  {complete(finding.evidence)}", console, "dim")


def _say(sentence: str, console: Console, style: str = "") -> None:
    console.print(Text(_wrapped(sentence, console.width), style=style))
