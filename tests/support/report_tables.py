"""Reports of synthetic experiments, their tables, and the texts that they must equal."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from serverdyno.report.build import build_from
from serverdyno.report.model import Report, Table
from serverdyno.report.source import Source
from serverdyno.store.records import LevelRecord
from support.places import TESTS
from support.synthetic_files import FileShape

STRICT = {"samba-strict": FileShape(120), "samba-lax": FileShape(300, syncs_a_flush=0.0)}


def report_of(source: Source, change: Callable[[LevelRecord], LevelRecord] | None = None) -> Report:
    return build_from(
        source if change is None else replace(source, records=[change(row) for row in source.records])
    )


def table(report: Report, key: str) -> Table:
    return next(table for table in report.tables if table.key == key)


def column(table: Table, label: str) -> list[str]:
    place = next(place for place, column in enumerate(table.columns) if column.label == label)
    return [row[place].text for row in table.rows]


GOLDEN = TESTS / "golden"


def check_golden(name: str, found: str) -> None:
    """Compare a text with the stored one, or store it if DYNO_UPDATE_GOLDEN=1."""
    path = GOLDEN / name
    if os.environ.get("DYNO_UPDATE_GOLDEN"):
        path.write_text(found, encoding="utf-8", newline="")
    assert found == path.read_bytes().decode()
