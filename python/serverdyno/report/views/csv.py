"""Raw tables as CSV text (RFC 4180, UTF-8). An empty field means: not measured."""

from __future__ import annotations

import csv
import io

from serverdyno.report.model import RawTable


def text(table: RawTable) -> str:
    """One raw table with a head line."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return buffer.getvalue()
