"""The report as one self-contained HTML page: no external script or resource, everything inlined."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from serverdyno.report.figures.raw import RawTable
from serverdyno.report.model import Report
from serverdyno.report.views import csv as report_csv
from serverdyno.report.views.palette import css, themed
from serverdyno.report.views.shared import shared

MOST_INLINED_ROWS = 5_000
"""Maximum number of rows of a table in the page; longer tables are only files, so that the page loads quickly."""
MOST_OPEN_WORDS = 40
"""Maximum number of words of a table's notes shown at once; longer notes, which explain the method, are collapsed."""


def page(report: Report, drawings: Mapping[str, str]) -> str:
    """Return the page. `drawings`: the SVG of each figure by its key."""
    downloads = [
        (table, _data_url(table) if len(table.rows) <= MOST_INLINED_ROWS else "") for table in report.raw
    ]
    return _template().render(
        report=report,
        drawings={key: themed(drawing) for key, drawing in drawings.items()},
        downloads=downloads,
        shared=shared(report),
        most_open_words=MOST_OPEN_WORDS,
        topics=[(topic, list(found)) for topic, found in groupby(report.findings, attrgetter("topic"))],
        palette_css=css(),
    )


@functools.cache
def _template() -> Template:
    """Return the template, cached because compiling it takes six times as long as rendering a page."""
    environment = Environment(
        loader=PackageLoader("serverdyno.report.views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _data_url(table: RawTable) -> str:
    encoded = base64.b64encode(report_csv.text(table).encode()).decode("ascii")
    return f"data:text/csv;charset=utf-8;base64,{encoded}"
