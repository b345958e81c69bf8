"""The line under each table and figure: scale, window, repetitions, spread and number of clients."""

from __future__ import annotations

from enum import StrEnum

from serverdyno import wording
from serverdyno.analysis.trust import LETTERS, Mark
from serverdyno.plan.expand import suite_shortened
from serverdyno.report.figures.results import Results
from serverdyno.report.source import Source

NAMES_STATEMENT = (
    "Suites re-create published parameters; they are not the original programs, so no figure here is a "
    "WebBench or NetBench result."
)


class Over(StrEnum):
    MEAN = "Mean of {count}, with the range"
    MEAN_ALONE = "Mean of {count}"
    TOGETHER = "{count} together, with the range over the repetitions"
    SUM = "Sum of {count}"
    EACH = "Each of {count} separately"


def basis(results: Results, over: Over = Over.MEAN) -> str:
    parts = [shortening(results.source), _window(results), _repetitions(results, over), _clients(results)]
    return " ".join(f"{part}." for part in parts if part)


def shortening(source: Source) -> str:
    shortened = suite_shortened(source.head.scale)
    return "" if shortened is None else f"Suite {shortened}"


def mark_notes(marks: frozenset[Mark]) -> tuple[str, ...]:
    return tuple(f"{LETTERS[mark]} {mark.value}." for mark in Mark if mark in marks)


def letters(marks: frozenset[Mark]) -> str:
    return "".join(LETTERS[mark] for mark in Mark if mark in marks)


def _window(results: Results) -> str:
    planned = results.source.head.levels
    windows = {level.window_s for level in results.levels} or {level.window_s for level in planned}
    lengths = {level.length_s for level in planned}
    return (
        f"Measured: {wording.seconds_span(windows)} of the {wording.seconds_span(lengths)} of each load level"
    )


def _repetitions(results: Results, over: Over) -> str:
    counts = [level.repetitions for level in results.levels]
    if not counts:
        return "No load level was finished"
    if max(counts) == 1:
        return "Only 1 repetition, so the spread is not known"
    low, high = min(counts), max(counts)
    count = f"{high}" if low == high else f"{low} to {high}"
    return over.value.format(count=f"{count} repetitions")


def _clients(results: Results) -> str:
    levels = results.levels
    if not levels:
        return ""
    all_levels = wording.plural(len(levels), "load level")
    counted = {
        "could not begin": sum(level.clients_never_began > 0 for level in levels),
        "left": sum(level.clients_left > level.clients_never_began for level in levels),
        "completed nothing": sum(Mark.STARVED in level.marks for level in levels),
    }
    parts = [f"{what} at {count} of {all_levels}" for what, count in counted.items() if count]
    return f"Clients {wording.listing(parts)}" if parts else "All planned clients took part"
