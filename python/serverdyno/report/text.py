"""The report in the terminal: what `dyno run` and `dyno load` end with. The whole is in the page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from serverdyno.report.model import Cell, Finding, Report, Table

SHOWN = ("peaks", "requests", "improvements")


def render(report: Report, console: Console) -> None:
    """Prints warnings, the main tables and the findings."""
    for warning in report.warnings:
        console.print(Text(warning, style="yellow"))
    for table in report.tables:
        if table.key.rpartition("-")[0] in SHOWN or table.key in SHOWN:
            render_table(table, console)
    render_findings(report.findings, console)


def render_table(table: Table, console: Console) -> None:
    """Prints one table with its basis and notes."""
    rich_table = RichTable(title=f"{table.label}. {table.title}", title_justify="left", title_style="bold")
    for column in table.columns:
        head = f"{column.label}\n{column.unit}" if column.unit else column.label
        rich_table.add_column(head, justify="right" if column.numeric else "left", vertical="bottom")
    for row in table.rows:
        rich_table.add_row(*(_cell(cell) for cell in row))
    console.print()
    console.print(rich_table)
    for note in (table.basis, *table.notes):
        console.print(Text(note, style="dim"))


def _cell(cell: Cell) -> Text:
    text = Text(cell.text, style="bold" if cell.strong else "")
    if cell.marks:
        text.append(f" {cell.marks}", style="yellow")
    return text


def render_findings(findings: Sequence[Finding], console: Console) -> None:
    """Prints each claim with its evidence below."""
    console.print()
    for finding in findings:
        console.print(Text(f"• {finding.claim}"))
        console.print(Text(f"  {finding.evidence}", style="dim"))
