"""The table of teams: the CPU time of each member of a run."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.model import Cell, Column, Table
from serverdyno.report.source import Source


def table(source: Source, basis: str) -> Table | None:
    """One row a run and member; None where no configuration is a team."""
    rows = []
    for key in source.head.order:
        note = source.run_notes.get(key.number)
        if note is None or not note.cpu_by_member_s:
            continue
        known = [seconds for seconds in note.cpu_by_member_s.values() if seconds is not None]
        whole_s = sum(known) if len(known) == len(note.cpu_by_member_s) else None
        for name, seconds in note.cpu_by_member_s.items():
            share = None if seconds is None or not whole_s else seconds / whole_s
            each_us = (
                None
                if seconds is None or not note.requests_answered
                else seconds * 1e6 / note.requests_answered
            )
            rows.append(
                (
                    Cell(key.configuration),
                    Cell(f"{key.repetition}"),
                    Cell(name),
                    Cell(wording.significant(seconds)),
                    Cell(wording.share(share)),
                    Cell(wording.significant(each_us)),
                )
            )
    if not rows:
        return None
    columns = (
        Column("Configuration", numeric=False),
        Column("Repetition"),
        Column("Member", numeric=False),
        Column("CPU", "s"),
        Column("Share"),
        Column("CPU", "us a request of the clients"),
    )
    notes = ("From the first load level of a run to its last, ramps and pauses included; user and system.",)
    return Table("members", 0, "CPU time by member", basis, columns, tuple(rows), notes, key_columns=3)
