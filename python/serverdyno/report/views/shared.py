"""The basis and notes that several tables of a report share, so that a view prints them once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from serverdyno.report.model import Report, Table

OFTEN = 2
"""Minimum number of tables whose common note is printed only once."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The common texts of tables. `basis`: the basis of most tables. `notes`: notes that several tables share."""

    basis: str
    notes: tuple[str, ...]

    def basis_of(self, table: Table) -> str:
        """Return the basis of a table if it is not the usual one."""
        return "" if table.basis == self.basis else table.basis

    def notes_of(self, table: Table) -> tuple[str, ...]:
        """Return the notes that only this table has."""
        return tuple(note for note in table.notes if note not in self.notes)


def shared(report: Report) -> Shared:
    tables = [table for table in report.tables if table.rows]
    bases = Counter(table.basis for table in tables if table.basis)
    notes = Counter(note for table in tables for note in dict.fromkeys(table.notes))
    return Shared(
        basis=bases.most_common(1)[0][0] if bases else "",
        notes=tuple(note for note, count in notes.items() if count >= OFTEN),
    )
