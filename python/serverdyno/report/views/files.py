"""Writes a report into its experiment's folder: the page, figures, raw tables, and the views that are asked for.

A view of an earlier report that isn't asked for again is removed: beside a new page it would show old figures.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from serverdyno.report.model import Report
from serverdyno.report.views import charts, csv, document, html, markdown, pdf


class View(StrEnum):
    """What may be written beside the page, by the name of its file."""

    PDF = "report.pdf"
    MARKDOWN = "report.md"
    JSON = "report.json"


def write_report(report: Report, directory: Path, views: Collection[View] = ()) -> Path:
    """Writes report.html, figures/*.svg, tables/*.csv and `views`; each file of an earlier report is replaced.

    Returns the path of the page.
    """
    drawings = {figure.key: charts.svg(figure) for figure in report.figures}
    _write_all(directory / "figures", {f"{key}.svg": drawing for key, drawing in drawings.items()})
    _write_all(directory / "tables", {f"{table.name}.csv": csv.text(table) for table in report.raw})
    for view in View:
        path = directory / view
        if view in views:
            path.write_bytes(_content(view, report, drawings))
        else:
            path.unlink(missing_ok=True)
    page = directory / "report.html"
    page.write_text(html.page(report, drawings), encoding="utf-8")
    return page


def _write_all(folder: Path, texts: dict[str, str]) -> None:
    """These files and no others with their ending."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    for suffix in {Path(name).suffix for name in texts}:
        for path in folder.glob(f"*{suffix}"):
            if path.name not in texts:
                path.unlink()


def _content(view: View, report: Report, drawings: dict[str, str]) -> bytes:
    if view is View.PDF:
        return pdf.pages(report, drawings)
    if view is View.MARKDOWN:
        return markdown.text(report).encode()
    return document.as_json(report)
