"""The operations by class and by kind of content, at the peak and at the last level.

Workloads define the classes; this module names none.
"""

from __future__ import annotations

from collections.abc import Iterator

from serverdyno import units, wording
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.histograms import QUANTILE_NAMES, Times
from serverdyno.report.figures.operations import OperationFigures
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results
from serverdyno.report.model import Cell, Column, Part, Section, Table
from serverdyno.report.parts import NAME, TOO_FEW_SAMPLES, always, level_column

TIMES = (
    Column("Count"),
    Column("Mean", "ms"),
    Column("Standard deviation", "ms"),
    Column("Smallest", "ms"),
    *(Column(name, "ms") for name in QUANTILE_NAMES),
    Column("Largest", "ms"),
)


applies = always


def build(results: Results) -> Part:
    tables = (*_by_content(results), _by_class(results), _times_by_class(results))
    title = f"Classes of {results.terms.classes}"
    return Part((Section("classes", title, tables=tables, appendix=True),))


def _by_class(results: Results) -> Table:
    rows = tuple(
        _class_row(result, row, in_phases=results.terms.in_phases)
        for result in results.configurations
        for row in result.operations_at_peak
    )
    terms = results.terms
    columns = (
        NAME,
        level_column(results.axis),
        Column(f"Class of {terms.operation}", numeric=False),
        Column("Count"),
        Column("Share"),
        Column("Rate", terms.rate_unit),
        *((Column("Rate in its phase", terms.rate_unit),) if terms.in_phases else ()),
        Column("Mean size", "bytes"),
        Column("Errors"),
    )
    notes: tuple[str, ...] = (
        "Counts are sums over the windows of all repetitions, at the load level with the configuration's peak.",
    )
    if terms.in_phases:
        notes = (
            *notes,
            "Rate: operations per second of the whole window, in which clients are in different phases. "
            "Rate in its phase: number of clients divided by mean response time, an estimate of the rate if all "
            "clients were in that phase. With one client, mdtest measures the same figure. With several clients it "
            "does not, because clients in other phases share the server.",
        )
    title = f"By class of {results.terms.classes}, at the peak"
    return Table("operations", 0, title, basis(results, Over.SUM), columns, rows, notes, key_columns=3)


def _class_row(result: ConfigurationResult, row: OperationFigures, *, in_phases: bool) -> tuple[Cell, ...]:
    whole = sum(other.count for other in result.operations_at_peak)
    moved = row.bytes_read + row.bytes_written
    return (
        Cell(result.name),
        Cell(wording.whole(result.peak.load) if result.peak else wording.NOTHING),
        Cell(row.operation),
        Cell(wording.whole(row.count)),
        Cell(wording.share(row.count / whole if whole else None)),
        Cell(wording.rate(row.count / row.window_s if row.window_s else None)),
        *((Cell(wording.rate(_in_phase_per_s(result, row))),) if in_phases else ()),
        Cell(wording.rate(moved / row.count if row.count else None)),
        Cell(wording.whole(row.errors)),
    )


def _in_phase_per_s(result: ConfigurationResult, row: OperationFigures) -> float | None:
    """Return the operations/s of the peak's clients if all of them were in this phase all the time."""
    if result.peak is None or row.response is None or not row.response.mean_ms:
        return None
    return result.peak.clients * 1000 / row.response.mean_ms


def _by_content(results: Results) -> Iterator[Table]:
    rows = tuple(
        (
            Cell(result.name),
            Cell(wording.whole(level.load), _which(result, level)),
            Cell(row.operation),
            Cell(wording.rate(row.count / row.window_s if row.window_s else None)),
            Cell(wording.share(row.count / whole if whole else None)),
            Cell(
                wording.significant(units.mbit_per_s(row.bytes_read, row.window_s) if row.window_s else None)
            ),
            Cell(wording.whole(row.errors)),
            *time_cells(row.response),
        )
        for result in results.configurations
        for level in result.finished
        for found in [result.contents_by_level.get(level.index, ())]
        for whole in [sum(row.count for row in found)]
        for row in found
    )
    if not rows:
        return
    columns = (
        NAME,
        level_column(results.axis),
        Column("Content", numeric=False),
        Column("Rate", results.terms.unit),
        Column("Share"),
        Column("Bodies", "Mbit/s"),
        Column("Errors"),
        *TIMES,
    )
    notes = (
        "The table covers the windows of all repetitions. Count: successful operations with a response time.",
        TOO_FEW_SAMPLES,
    )
    title = "Results by kind of content, at the peak and at the highest load"
    yield Table("content", 0, title, basis(results, Over.TOGETHER), columns, rows, notes, key_columns=3)


def _times_by_class(results: Results) -> Table:
    rows = tuple(
        (
            Cell(result.name),
            Cell(row.operation),
            Cell(wording.whole(level.load), _which(result, level)),
            *time_cells(row.response),
        )
        for result in results.configurations
        for row, level in _at_peak_and_last(result)
    )
    columns = (
        NAME,
        Column(f"Class of {results.terms.operation}", numeric=False),
        level_column(results.axis),
        *TIMES,
    )
    notes = (
        f"The table covers the successful {results.terms.operations} in the windows of all repetitions. Standard "
        "deviation: of the individual times.",
        TOO_FEW_SAMPLES,
    )
    title = f"Response time by class of {results.terms.classes}, at the peak and at the highest load"
    return Table("times", 0, title, basis(results, Over.TOGETHER), columns, rows, notes, key_columns=3)


def _at_peak_and_last(result: ConfigurationResult) -> Iterator[tuple[OperationFigures, LevelFigures]]:
    """Yield each class at the peak and at the last level, which are adjacent."""
    levels = [level for level in result.finished if level.index in result.operations_by_level]
    names = [row.operation for rows in result.operations_by_level.values() for row in rows]
    for name in dict.fromkeys(names):
        for level in levels:
            for row in result.operations_by_level[level.index]:
                if row.operation == name:
                    yield row, level


def _which(result: ConfigurationResult, level: LevelFigures) -> str:
    names = (("peak", result.peak), ("last", result.last))
    return ", ".join(name for name, found in names if found is level)


def time_cells(times: Times | None) -> list[Cell]:
    """Return the cells of the columns `TIMES`; without times, a count of zero and dashes."""
    if times is None:
        return [Cell(wording.whole(0)), *(Cell(wording.NOTHING) for _ in TIMES[1:])]
    values = (times.mean_ms, times.deviation_ms, times.min_ms, *times.percentiles_ms, times.max_ms)
    return [Cell(wording.whole(times.count)), *(Cell(wording.significant(value)) for value in values)]
