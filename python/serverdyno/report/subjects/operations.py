"""The tables of what was done: each class of operation at the peak and at the last mix, and how clients connected.

Which class belongs to which workload is the workload's matter; nothing here knows one by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from serverdyno import units, wording
from serverdyno.report.figures.histograms import QUANTILE_NAMES, Times
from serverdyno.report.figures.operations import OperationFigures
from serverdyno.report.figures.results import ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Cell, Column, Table
from serverdyno.report.parts import TOO_FEW_SAMPLES

NAME = Column("Configuration", numeric=False)
TIMES = (
    Column("Count"),
    Column("Mean", "ms"),
    Column("Deviation", "ms"),
    Column("Smallest", "ms"),
    *(Column(name, "ms") for name in QUANTILE_NAMES),
    Column("Largest", "ms"),
)


def by_class(results: Results, basis: str) -> Table:
    """One row a configuration and class of operation, at the configuration's peak: how many, how large."""
    rows = tuple(
        _class_row(result, row, in_phases=results.terms.in_phases)
        for result in results.configurations
        for row in result.operations_at_peak
    )
    terms = results.terms
    columns = (
        NAME,
        Column(*results.axis.heading),
        Column(f"Class of {terms.operation}", numeric=False),
        Column("Count"),
        Column("Share"),
        Column("Rate", terms.rate_unit),
        *((Column("Rate in its phase", terms.rate_unit),) if terms.in_phases else ()),
        Column("Mean size", "bytes"),
        Column("Errors"),
    )
    notes: tuple[str, ...] = (
        "At the mix of each configuration's peak, in its window, all repetitions together.",
    )
    if terms.in_phases:
        notes = (
            *notes,
            "Rate: over the whole window, in which clients are in all phases. Rate in its phase: clients divided by "
            "the mean response time, the rate of all clients if all were in that phase and it took each as long. "
            "With one client mdtest measures the same; with several, clients in other phases share the server.",
        )
    title = f"By class of {results.terms.classes}, at the peak"
    return Table("operations", 0, title, basis, columns, rows, notes, key_columns=3)


def _class_row(result: ConfigurationResult, row: OperationFigures, *, in_phases: bool) -> tuple[Cell, ...]:
    whole = sum(other.count for other in result.operations_at_peak)
    moved = row.bytes_read + row.bytes_written
    return (
        Cell(result.name),
        Cell(f"{result.peak.level:,}" if result.peak else wording.NOTHING),
        Cell(row.operation),
        Cell(f"{row.count:,}"),
        Cell(wording.share(row.count / whole if whole else None)),
        Cell(wording.rate(row.count / row.window_s if row.window_s else None)),
        *((Cell(wording.rate(_in_phase_per_s(result, row))),) if in_phases else ()),
        Cell(wording.rate(moved / row.count if row.count else None)),
        Cell(f"{row.errors:,}"),
    )


def _in_phase_per_s(result: ConfigurationResult, row: OperationFigures) -> float | None:
    """Return how many clients do in a second that are in this phase, by Little's law."""
    if result.peak is None or row.response is None or not row.response.mean_ms:
        return None
    return result.peak.clients * 1000 / row.response.mean_ms


def by_content(results: Results, basis: str) -> Table | None:
    """One row a configuration and kind of content, at the peak and at the last mix; None: there are no kinds."""
    rows = tuple(
        (
            Cell(result.name),
            Cell(f"{mix.level:,}", _which(result, mix)),
            Cell(row.operation),
            Cell(wording.rate(row.count / row.window_s if row.window_s else None)),
            Cell(wording.share(row.count / whole if whole else None)),
            Cell(
                wording.significant(units.mbit_per_s(row.bytes_read, row.window_s) if row.window_s else None)
            ),
            Cell(f"{row.errors:,}"),
            *time_cells(row.response),
        )
        for result in results.configurations
        for mix in result.finished
        for found in [result.contents_by_mix.get(mix.mix, ())]
        for whole in [sum(row.count for row in found)]
        for row in found
    )
    if not rows:
        return None
    columns = (
        NAME,
        Column(*results.axis.heading),
        Column("Content", numeric=False),
        Column("Rate", results.terms.unit),
        Column("Share"),
        Column("Bodies", "Mbit/s"),
        Column("Errors"),
        *TIMES,
    )
    notes = ("In the windows, all repetitions together; errors are those of the windows.", TOO_FEW_SAMPLES)
    title = "Results by kind of content, at the peak and at the last mix"
    return Table("content", 0, title, basis, columns, rows, notes, key_columns=3)


def times_by_class(results: Results, basis: str) -> Table:
    """One row a configuration, class of operation, and mix: that of the peak, and the last one."""
    rows = tuple(
        (
            Cell(result.name),
            Cell(row.operation),
            Cell(f"{mix.level:,}", _which(result, mix)),
            *time_cells(row.response),
        )
        for result in results.configurations
        for row, mix in _at_peak_and_last(result)
    )
    columns = (
        NAME,
        Column(f"Class of {results.terms.operation}", numeric=False),
        Column(*results.axis.heading),
        *TIMES,
    )
    notes = (
        f"Of successful {results.terms.operations} in the windows, all repetitions together. Deviation: standard "
        "deviation of single times about their mean.",
        TOO_FEW_SAMPLES,
    )
    title = f"Response time by class of {results.terms.classes}, at the peak and at the last mix"
    return Table("times", 0, title, basis, columns, rows, notes, key_columns=3)


def _at_peak_and_last(result: ConfigurationResult) -> Iterator[tuple[OperationFigures, MixFigures]]:
    """Class by class, so that the two mixes of one stand together."""
    mixes = [mix for mix in result.finished if mix.mix in result.operations_by_mix]
    names = [row.operation for rows in result.operations_by_mix.values() for row in rows]
    for name in dict.fromkeys(names):
        for mix in mixes:
            for row in result.operations_by_mix[mix.mix]:
                if row.operation == name:
                    yield row, mix


def _which(result: ConfigurationResult, mix: MixFigures) -> str:
    names = (("peak", result.peak), ("last", result.last))
    return ", ".join(name for name, found in names if found is mix)


def time_cells(times: Times | None) -> list[Cell]:
    """The cells of `TIMES`; nothing but the count of zero where nothing was timed."""
    if times is None:
        return [Cell("0"), *(Cell(wording.NOTHING) for _ in TIMES[1:])]
    values = (times.mean_ms, times.deviation_ms, times.min_ms, *times.percentiles_ms, times.max_ms)
    return [Cell(f"{times.count:,}"), *(Cell(wording.significant(value)) for value in values)]


def handshakes(results: Results, basis: str) -> Table | None:
    """One row a configuration and mix over TLS: handshakes by kind, and how long they took; None: there is none."""
    rows = tuple(
        (
            Cell(result.name),
            Cell(f"{mix.level:,}"),
            *(Cell(f"{count:,}") for count in mix.connections.handshakes),
            *time_cells(mix.connections.handshake),
        )
        for result in results.configurations
        for mix in result.finished
        if mix.connections.handshakes is not None
    )
    if not rows:
        return None
    columns = (
        NAME,
        Column(*results.axis.heading),
        Column("Full"),
        Column("Resumed"),
        Column("Handshake times"),
        *TIMES[1:],
    )
    notes = (
        "TLS handshakes that led to a session: all repetitions together, ramps included. Handshake times: from the "
        "moment at which the TCP connection stood until the request could be sent, of requests that ended in the "
        "windows; they are part of the response times.",
        TOO_FEW_SAMPLES,
    )
    return Table("handshakes", 0, "TLS handshakes", basis, columns, rows, notes, key_columns=2)


def connections(results: Results, basis: str) -> Table:
    """One row a configuration and mix: connections made, made again, and how long making one took."""
    rows = tuple(
        (
            Cell(result.name),
            Cell(f"{mix.level:,}"),
            Cell(f"{mix.connections.made:,}"),
            Cell(f"{mix.connections.reconnects:,}"),
            Cell(f"{mix.connections.source_addresses:,}"),
            *time_cells(mix.connections.connect),
        )
        for result in results.configurations
        for mix in result.finished
    )
    columns = (
        NAME,
        Column(*results.axis.heading),
        Column("Connections"),
        Column("Reconnects"),
        Column("Source addresses"),
        Column("Connect times"),
        *TIMES[1:],
    )
    counted = results.terms.reconnects_note
    notes = (
        f"Connections and reconnects: all repetitions together, ramps included. {counted} Connect times: from the "
        f"moment the {results.terms.operation} was due until its connection stood, of those that ended in the windows.",
        TOO_FEW_SAMPLES,
    )
    return Table("connections", 0, "Connections", basis, columns, rows, notes, key_columns=2)
