"""The runs: their order, the finished part of each, the server's counts, and the CPU time of a team's members.

Outlying runs, which comparisons leave out, are in `differences.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from serverdyno import clean, units, wording
from serverdyno.analysis.oddities import counts_agree
from serverdyno.plan.model import RunKey
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Part, Section, Table
from serverdyno.report.parts import NAME, always
from serverdyno.report.source import Source
from serverdyno.store.note import RunNote

REQUESTS = (
    "Answered and failed: counted by the generator, ramps included. The server's count: from its access log or status "
    f"page; {wording.NOTHING} if the server has neither."
)
REQUESTS_OF_FILES = (
    "Requests of the protocol, including those in ramps and those for workspaces. Failures are counted per "
    "operation, not per request; the table of errors has them. The server's count: from its own counters; "
    f"{wording.NOTHING} if the server has none."
)
applies = always


def build(results: Results) -> Part:
    tables = (_runs(results), *_members(results))
    return Part((Section("order", "Order of the runs", tables=tables, appendix=True),))


def _runs(results: Results) -> Table:
    source = results.source
    finished = Counter(record.run for record in results.used)
    rows = tuple(
        (
            Cell(units.Written(f"{key.number}", key.number)),
            Cell(key.configuration),
            Cell(wording.whole(key.repetition)),
            Cell(f"{finished[key.number]} of {len(source.head.levels)}"),
            *_note_cells(source.run_notes.get(key.number)),
        )
        for key in source.head.order
    )
    columns = (
        Column("Run"),
        NAME,
        Column("Repetition"),
        Column("Load levels finished"),
        Column("State", numeric=False),
        Column("Answered", "requests"),
        Column("Failed", "requests"),
        Column("The server's count", "requests"),
    )
    notes = (REQUESTS if results.work.uses_documents else REQUESTS_OF_FILES,)
    return Table("runs", 0, "Order of the runs", basis(results, Over.EACH), columns, rows, notes)


def _note_cells(note: RunNote | None) -> list[Cell]:
    if note is None:
        return [Cell(wording.NOTHING)] * 4
    counts = (note.requests_answered, note.requests_failed, note.requests_by_server_count)
    return [Cell(note.state), *(Cell(wording.whole(count)) for count in counts)]


def _members(results: Results) -> Iterator[Table]:
    """Yield the CPU time of each member of a run, if a configuration is a team."""
    source, rows = results.source, []
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
                    Cell(wording.whole(key.repetition)),
                    Cell(name),
                    Cell(wording.significant(seconds)),
                    Cell(wording.share(share)),
                    Cell(wording.significant(each_us)),
                )
            )
    if not rows:
        return
    columns = (
        NAME,
        Column("Repetition"),
        Column("Member", numeric=False),
        Column("CPU time", "s"),
        Column("Share", "of all members"),
        Column("CPU time", "µs per request of the clients"),
    )
    notes = (
        "CPU time: user and system time from the first load level of a run to its last, pauses included.",
    )
    title, under = "CPU time by team member", basis(results, Over.EACH)
    yield Table("members", 0, title, under, columns, tuple(rows), notes, key_columns=3)


def set_aside(source: Source) -> list[str]:
    """Return a warning on damaged files and the lost figures, by kind of file."""
    if not source.set_aside:
        return []
    names = {place.rsplit("/", 1)[-1].split(".", 1)[0] for place in source.set_aside}
    said = [f"`dyno resume` found damaged files and renamed them: {wording.listing(source.set_aside)}."]
    if any(name.startswith("level-") for name in names):
        said.append(
            "If the figures include such a load level, the resume measured it again, later than the order of the "
            "runs says."
        )
    if "run" in names:
        said.append(
            "The run's note was damaged. These figures of finished load levels are lost: the server's count "
            "of requests, the negotiated sessions, and the media of the files."
        )
    return [" ".join(said)]


def warnings(source: Source) -> list[str]:
    """Return warnings on failed runs, crashes, and differences between the server's and the generator's counts."""
    found = []
    for key in source.head.order:
        note = source.run_notes.get(key.number)
        if note is None:
            continue
        name = f"Run {key.number}, {key.configuration}"
        found += [f"{name}{said}" for said in _lost(source, key, note)]
        if note.state == "failed":
            found.append(f"{name}, failed: {clean.quoted(note.reason or 'no reason was noted')}.")
        if note.crashes:
            count = wording.plural(len(note.crashes), "crash", "crashes")
            first = clean.quoted(note.crashes[0])
            found.append(f"{name}: the server's log reports {count} of its processes. The first: {first}")
        served, answered = note.requests_by_server_count, note.requests_answered
        if served is None or answered is None:
            continue
        if not counts_agree(served, answered, note.requests_failed or 0):
            found.append(
                f"{name}: the generator counted {answered:,} answers, but the server counted {served:,} requests."
            )
    return found


def _lost(source: Source, key: RunKey, note: RunNote) -> Iterator[str]:
    """Yield the facts that are unknown about a run because it was killed or resumed."""
    finished = {record.level for record in source.records if record.run == key.number and record.void is None}
    planned = {level.index for level in source.head.levels}
    whole = bool(planned) and finished >= planned
    counts = "the server's count of requests, and crashes in its log"
    if note.media is not None:
        counts += ", the negotiated sessions, and the disk's own fsync after the load"
    if note.state == "lost":
        yield (
            ": its load levels are complete, but its final note is lost: the run was killed before it wrote the note, "
            f"or the note was damaged. Not known: {counts}."
        )
    elif note.state == "begun" and whole:
        yield (
            " finished its load levels but not its final note. It is still running or was killed; `dyno resume` "
            f"completes it. Not known: {counts}."
        )
    elif note.from_level > 1:
        yield (
            f" was interrupted and resumed at load level {note.from_level}. Known only for the resumed part: {counts}."
        )
