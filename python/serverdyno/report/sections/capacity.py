"""The tables of capacity at an objective: one row a configuration, and every trial in its order."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.report.basis import letters, mark_notes
from serverdyno.report.figures.capacity import Capacities, Searched, TrialFigures
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Section, Table
from serverdyno.report.parts import (
    NAME,
)
from serverdyno.report.subjects import response_times


def summary(found: Capacities, results: Results, mean: str, together: str) -> Section:
    """The executive summary, its sentences still to come: capacity, and the curve of latency against throughput."""
    return Section(
        key="summary",
        title=f"Capacity at {found.objective.words}",
        figures=(*response_times.tail_against_throughput(results), *response_times.charts(results)),
        tables=(capacities(found, together),),
    )


def trials(found: Capacities, basis: str) -> Section:
    """Every trial of every search."""
    return Section("trials", "The trials of each search", tables=(_trials(found, basis),))


def capacities(found: Capacities, basis: str) -> Table:
    """One row a configuration."""
    rows = tuple(_row(each) for each in found.searched)
    columns = (
        NAME,
        Column("Capacity", f"{found.operations}/s"),
        Column("95 % interval", f"{found.operations}/s"),
        Column("Held every time", f"{found.operations}/s"),
        Column("Ended by", numeric=False),
        Column("Trials"),
        Column("n", "runs"),
    )
    notes = (
        f"Capacity: the rate at which half of the trials hold {found.objective.words}; the geometric mean of the runs. "
        "The interval is over the runs, Student's; of one run it is that of its search.",
        "Held every time: the highest rate tried up to which every trial held, in the lowest run.",
    )
    title = f"Capacity at {found.objective.words}"
    return Table("capacity", 0, title, basis, columns, rows, notes)


def _row(searched: Searched) -> tuple[Cell, ...]:
    held = [found.held_per_s for found in searched.estimates.values()]
    known = [rate for rate in held if rate is not None]
    ends = sorted({"not over" if end is None else f"{end}" for end in searched.ends})
    least = "at least" if searched.by_generator and searched.rate_per_s is not None else ""
    return (
        Cell(searched.name),
        Cell(wording.rate(searched.rate_per_s), least, strong=True),
        Cell(_span(searched)),
        Cell(wording.rate(min(known)) if len(known) == len(held) and known else wording.NOTHING),
        Cell(wording.listing(ends)),
        Cell(f"{len(searched.trials)}"),
        Cell(f"{len(searched.estimates)}"),
    )


def _span(searched: Searched) -> str:
    low, high = wording.rate(searched.low_per_s), wording.rate(searched.high_per_s)
    return f"{low} to {high}" if searched.rate_per_s is not None else wording.NOTHING


def _trials(found: Capacities, basis: str) -> Table:
    rows = tuple(_trial_row(trial) for each in found.searched for trial in each.trials)
    columns = (
        NAME,
        Column("Run"),
        Column("Trial"),
        Column("Offered rate", f"{found.operations}/s"),
        Column("Answered", f"{found.operations}/s"),
        *(Column(tail.name, "of all, ms") for tail in found.objective.tails),
        Column("Failed"),
        Column("Sent late", "p99, ms"),
        Column("Held", numeric=False),
    )
    marks = frozenset().union(*(trial.marks for each in found.searched for trial in each.trials))
    notes = (
        f"Percentiles are of all {found.operations}; one that failed is slower than every answer, and nothing stands "
        "where too many failed. Failed: errors, dropped, and not answered.",
        *mark_notes(marks),
    )
    return Table("trials", 0, "Trials in their order", basis, columns, rows, notes, key_columns=3)


def _trial_row(trial: TrialFigures) -> tuple[Cell, ...]:
    return (
        Cell(trial.configuration),
        Cell(f"{trial.repetition}"),
        Cell(f"{trial.number}"),
        Cell(f"{trial.rate_per_s:,}", marks=letters(trial.marks)),
        Cell(wording.rate(trial.answered_s)),
        *(Cell(wording.significant(ms)) for ms in trial.tails_ms),
        Cell(wording.share(trial.failed_share)),
        Cell(wording.significant(trial.late_ms)),
        Cell("yes" if trial.held else "no", "" if trial.kept_up else "did not keep up"),
    )
