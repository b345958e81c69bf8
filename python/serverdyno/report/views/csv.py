"""Raw tables as CSV text (RFC 4180, UTF-8). An empty field means not measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from serverdyno.report.figures.raw import RawTable

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters at which a spreadsheet begins a formula (OWASP, CSV Injection), including full-width forms."""


def text(table: RawTable) -> str:
    """Return a raw table with a header line. An apostrophe precedes any text that a spreadsheet would compute."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(_as_texts(table.columns))
    writer.writerows(_as_texts(row) for row in table.rows)
    return buffer.getvalue()


def _as_texts(row: Iterable[Any]) -> list[Any]:
    return [f"'{cell}" if isinstance(cell, str) and is_formula(cell) else cell for cell in row]


def is_formula(cell: str) -> bool:
    """Return whether a spreadsheet would compute the text; signed numbers are safe."""
    if not cell.startswith(FORMULA):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False
