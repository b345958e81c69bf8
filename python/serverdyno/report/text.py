"""The report in the terminal: what `dyno run` and `dyno load` end with. The whole is in the page."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from serverdyno.report.comparison import Compared
from serverdyno.report.model import Cell, Finding, Report, Table

SHOWN = ("peaks", "requests", "improvements")


def render(report: Report, console: Console) -> None:
    """Prints warnings, the main tables and the findings."""
    for warning in report.warnings:
        console.print(Text(warning, style="yellow"))
    shown = [table for table in report.tables if table.key.partition("-")[0] in SHOWN]
    for table in shown:
        _render_table(table, console)
    _render_notes(shown, console)
    _render_findings(report.findings, console)


def render_compared(compared: Compared, console: Console) -> None:
    """Prints what `dyno compare` ends with."""
    _render_table(compared.table, console)
    _render_notes([compared.table], console)
    for difference in compared.differences:
        console.print(Text(difference, style="yellow"))
    _render_findings(compared.findings, console)


def _render_notes(tables: Sequence[Table], console: Console) -> None:
    """Tables have much in common; each basis and note is said once."""
    for note in dict.fromkeys(note for table in tables for note in (table.basis, *table.notes)):
        console.print(Text(note, style="dim"))


def _render_table(table: Table, console: Console) -> None:
    rich_table = RichTable(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=f"{table.label}. {table.title}",
        title_justify="left",
        title_style="bold",
    )
    for column in table.columns:
        head = f"{column.label}\n{column.unit}" if column.unit else column.label
        rich_table.add_column(head, justify="right" if column.numeric else "left", overflow="fold")
    for row in table.rows:
        rich_table.add_row(*(_cell(cell) for cell in row))
    console.print()
    console.print(rich_table)


def _cell(cell: Cell) -> Text:
    text = Text(cell.text, style="bold" if cell.strong else "")
    if cell.marks:
        text.append(f" {cell.marks}", style="yellow")
    if cell.detail:
        text.append(f"\n{cell.detail}", style="dim")
    return text


def _render_findings(findings: Sequence[Finding], console: Console) -> None:
    console.print()
    for finding in findings:
        console.print(Text(f"• {finding.claim}"))
        console.print(Text(f"  {finding.evidence}", style="dim"))
