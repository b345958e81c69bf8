"""What a report's tables have in common, so that a view says it once: the usual basis, and repeated notes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from serverdyno.report.model import Report, Table

OFTEN = 2
"""From this number of tables on, a note is said once for all."""


@dataclass(frozen=True, slots=True)
class Shared:
    """`basis`: that of most tables. `notes`: those of several tables."""

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
