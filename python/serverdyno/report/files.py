"""Writes a report into its experiment's folder: the page, each figure, and each table of raw figures."""

from __future__ import annotations

from pathlib import Path

from serverdyno.report import charts, csv, html
from serverdyno.report.model import Report


def write_report(report: Report, directory: Path) -> Path:
    """Writes report.html, figures/*.svg and tables/*.csv; each file of an earlier report is replaced.

    Returns the path of the page.
    """
    (directory / "figures").mkdir(parents=True, exist_ok=True)
    (directory / "tables").mkdir(exist_ok=True)
    drawings = {figure.key: charts.svg(figure) for figure in report.figures}
    for key, drawing in drawings.items():
        (directory / "figures" / f"{key}.svg").write_text(drawing, encoding="utf-8")
    for table in report.raw:
        (directory / "tables" / f"{table.name}.csv").write_text(csv.text(table), encoding="utf-8", newline="")
    page = directory / "report.html"
    page.write_text(html.page(report, drawings), encoding="utf-8")
    return page
