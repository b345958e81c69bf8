"""Write a report into its experiment's folder: the page, figures, raw tables, and the requested views.

A view of an earlier report that is not requested again is removed, because it would show outdated figures.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from serverdyno.report.model import Report
from serverdyno.store.experiment import PAGE
from serverdyno.store.folder import Folder


class View(StrEnum):
    """A view that can be written in addition to the page; the value is its file name."""

    PDF = "report.pdf"
    MARKDOWN = "report.md"
    JSON = "report.json"


def write_report(report: Report, folder: Folder, views: Collection[View] = ()) -> Path:
    """Write report.html, figures/*.svg, tables/*.csv and `views`, and return the path of the page.

    Files of an earlier report are replaced. Raises DynoError.
    """
    # Importing the page's libraries takes longer than showing a table.
    from serverdyno.report.views import annotate, charts, csv, html  # noqa: PLC0415

    drawings = {figure.key: charts.svg(figure) for figure in report.figures}
    alone = {figure.key: annotate.alone(drawings[figure.key], figure) for figure in report.figures}
    _write_all(folder, "figures", ".svg", alone)
    _write_all(folder, "tables", ".csv", {table.name: csv.text(table) for table in report.raw})
    for view in View:
        if view in views:
            folder.write(view, _content(view, report, drawings))
        else:
            folder.remove(view)
    folder.write(PAGE, html.page(report, drawings).encode())
    return folder.path / PAGE


def _write_all(folder: Folder, place: str, ending: str, texts: dict[str, str]) -> None:
    """Write files into a folder, and remove its other files with the same ending."""
    for name, text in texts.items():
        folder.write(f"{place}/{name}{ending}", text.encode())
    for found in folder.names(place, f"*{ending}"):
        if found.removesuffix(ending) not in texts:
            folder.remove(f"{place}/{found}")


def _content(view: View, report: Report, drawings: dict[str, str]) -> bytes:
    from serverdyno.report.views import markdown, pdf  # noqa: PLC0415
    from serverdyno.report.views.document import ReportDocument  # noqa: PLC0415

    if view is View.MARKDOWN:
        return markdown.text(report).encode()
    text = ReportDocument.of(report).as_json()
    return pdf.pages(report, text, drawings) if view is View.PDF else text
