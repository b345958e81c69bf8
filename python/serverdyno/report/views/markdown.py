"""A summary of the report in GitHub's Markdown, for an issue, a pull request or a wiki.

It contains the answer, the caveats, the findings with their evidence, the main tables with their basis, and the marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from serverdyno import clean
from serverdyno.report.basis import NAMES_STATEMENT
from serverdyno.report.model import Cell, Column, Report, Table
from serverdyno.report.views import bars, references

SHOWN = (
    "peaks",
    "throughput",
    "improvements",
    "shape",
    "scaling",
    "tuning",
    "durability",
    "errors",
    "leads",
    "bonnie",
)
"""Keys of the tables in a summary, without the suffix of groups."""


def text(report: Report) -> str:
    return "\n".join(_lines(report)).rstrip() + "\n"


def _lines(report: Report) -> Iterator[str]:
    shown = [table for table in report.tables if table.key.partition("-")[0] in SHOWN and table.rows]
    complete = references.completed(report, shown)
    yield f"# {clean.markdown(report.title)}"
    yield ""
    yield clean.markdown("; ".join(f"{fact.label}: {fact.text}" for fact in report.particulars)) + "."
    yield from ("", f"**{clean.markdown(report.answer.verdict)}**", "")
    for label, words in report.answer.lines:
        yield f"- **{label}:** {clean.markdown(complete(words))}"
    for figure in report.answer.figures:
        yield from ("", _row([clean.markdown(figure.title), clean.markdown(figure.panels[0].y_title)]))
        yield _row([":--", ":--"])
        yield from (_row([clean.markdown(name), bar]) for name, bar in bars.rows(figure))
    if report.warnings:
        yield from ("", "**Before you quote a figure**", "")
        yield from (f"- {clean.markdown(complete(warning))}" for warning in report.warnings)
    yield from ("", clean.markdown(NAMES_STATEMENT))
    yield from ("", "## Findings", "")
    for finding in report.findings:
        claim, evidence = clean.markdown(complete(finding.claim)), clean.markdown(complete(finding.evidence))
        yield f"- **{clean.markdown(finding.topic)}.** {claim} *{evidence}*"
    for table in shown:
        yield ""
        yield from table_lines(table, complete)


def table_lines(table: Table, complete: Callable[[str], str]) -> Iterator[str]:
    """Yield a table with its basis and notes. `complete`: adds references to a sentence."""
    yield f"**{table.label}. {clean.markdown(table.title)}**"
    yield ""
    yield _row([_head(column) for column in table.columns])
    yield _row(["--:" if column.numeric else ":--" for column in table.columns])
    for row in table.rows:
        yield _row([_cell(cell) for cell in row])
    yield ""
    yield clean.markdown(complete(" ".join((table.basis, *table.notes)).strip()))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(column: Column) -> str:
    return clean.markdown(f"{column.label} ({column.unit})" if column.unit else column.label)


def _cell(cell: Cell) -> str:
    marks = f" {cell.marks}" if cell.marks else ""
    detail = f" ({cell.detail})" if cell.detail else ""
    words = clean.markdown(f"{cell.text}{marks}{detail}")
    return f"**{words}**" if cell.strong and words else words
