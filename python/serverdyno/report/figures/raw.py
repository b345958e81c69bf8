"""Unrounded figures for the CSV files and the downloads in the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

from serverdyno.analysis.curve import Spread
from serverdyno.analysis.improvement import Improvement
from serverdyno.analysis.pairs import Comparison
from serverdyno.plan.expand import levels_by_configuration
from serverdyno.report.figures.histograms import QUANTILES, Times, quantiles, times
from serverdyno.report.figures.results import LevelFigures, Results
from serverdyno.store.records import CallRow, ClientRow, LevelRecord, RequestRow, SyncRow
from serverdyno.units import percentile_name

TIME_COLUMNS = (
    "mean_ms",
    "sd_ms",
    "min_ms",
    "max_ms",
    *(f"{percentile_name(share)}_ms" for share in QUANTILES),
)
SPREAD_COLUMNS = ("n", "mean", "min", "max", "sd")
CONFIGURATION, FACTOR = "configuration", "factor_"
Value = float | int | str | None
Row = ClientRow | CallRow | RequestRow | SyncRow
RUN_COLUMNS = ("run", "configuration", "repetition", "level", "clients", "threads")
WORK_COLUMNS = (
    *(
        "started_unix_s",
        "window_s",
        "clients_participating",
        "operations",
        "operations_s",
        "operations_total",
    ),
    *("bytes_read", "bytes_written", "bytes_in", "bytes_out"),
)
COST_COLUMNS = (
    *(
        "generator_cpu_s",
        "generator_threads",
        "server_cpu_s",
        "server_rss_bytes",
        "others_cpu_s",
        "steal_cpu_s",
    ),
    *(
        "generator_busiest_cpu_s",
        "under_way_at_close",
        "under_way_longest_s",
        "outstanding_s",
        "overdue_at_end",
    ),
    *("ready_work_s", "run_delay_s", "io_wait_s", "connections", "reconnects", "source_addresses"),
    *("passes", "pass_operations", "bytes_checked"),
)
"""Columns of cost, each a field of a level's record."""


@dataclass(frozen=True, slots=True)
class RawTable:
    """Figures as measured or computed, unrounded, for `tables/<name>.csv`. Column names end in the unit."""

    name: str
    description: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def raw_tables(results: Results) -> tuple[RawTable, ...]:
    """Return all tables of raw figures, with a column for each factor wherever a configuration is named."""
    levels = levels_by_configuration(results.source.head.plan)
    return tuple(_with_levels(table, levels) for table in _tables(results))


def _with_levels(table: RawTable, levels: Mapping[str, Mapping[str, Any]]) -> RawTable:
    """Add each factor's level after the configuration's name; None if its server has no such factor."""
    factors = list(dict.fromkeys(factor for of_one in levels.values() for factor in of_one))
    if not factors or CONFIGURATION not in table.columns:
        return table
    place = table.columns.index(CONFIGURATION) + 1

    def inserted(row: tuple[Value, ...]) -> tuple[Value, ...]:
        own = levels.get(str(row[place - 1]), {})
        return (*row[:place], *(_level(own.get(factor)) for factor in factors), *row[place:])

    names = [f"{FACTOR}{factor}" for factor in factors]
    columns = (*table.columns[:place], *names, *table.columns[place:])
    return replace(table, columns=columns, rows=tuple(map(inserted, table.rows)))


def _level(level: object) -> Value:
    if isinstance(level, bool):
        return f"{level}".lower()
    return level if level is None or isinstance(level, int | float) else f"{level}"


def _tables(results: Results) -> tuple[RawTable, ...]:
    if not results.source.head.levels:
        return ()
    return (
        _curves(results),
        _levels(results),
        _operations(results),
        _errors(results),
        _improvements(results),
        _seconds(results),
        _histograms(results),
        *(_of_files(results) if results.work.shows_clients else ()),
    )


def _seconds(results: Results) -> RawTable:
    columns = (*RUN_COLUMNS, "second", "operations", "bytes_in", "errors")
    rows = tuple(
        (*_run(record), row.second, row.operations, row.bytes_in, row.errors)
        for record in results.used
        for row in record.by_second
    )
    return RawTable("seconds", "One row per run, level and second, ramps included", columns, rows)


HISTOGRAM_QUANTILES = (
    *(place / 100 for place in range(5, 100, 5)),
    *(0.96, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999),
)


def _histograms(results: Results) -> RawTable:
    """Return response times as the percentiles with at least ten samples beyond them; buckets would need more rows."""
    columns = (*RUN_COLUMNS, "samples", "quantile", "response_ms")
    rows = []
    for record in results.used:
        samples, found = quantiles(record.response_time_hdr, HISTOGRAM_QUANTILES)
        rows += [(*_run(record), samples, quantile, value_ms) for quantile, value_ms in found]
    return RawTable(
        "histograms", "One row per run, level and quantile of the response time", columns, tuple(rows)
    )


def _of_files(results: Results) -> tuple[RawTable, ...]:
    return (
        _rows("clients", "client", ClientRow, results),
        _rows("calls", "kind of call below the client cache, ramps included", CallRow, results),
        _rows("requests", "kind of request of the protocol, ramps included", RequestRow, results),
        _rows("syncs", "system call of the server that makes data durable", SyncRow, results),
    )


def _rows(name: str, what: str, row_type: type[Row], results: Results) -> RawTable:
    nested = {"clients": "by_client"}.get(name, name)
    columns = (*RUN_COLUMNS, *(field.name for field in fields(row_type)))
    rows = tuple((*_run(record), *astuple(row)) for record in results.used for row in getattr(record, nested))
    return RawTable(name, f"One row per run, level and {what}", columns, rows)


def _curves(results: Results) -> RawTable:
    terms = results.terms
    spreads: dict[str, Callable[[LevelFigures], Spread | None]] = {
        "fairness": lambda level: level.fairness,
        terms.column: lambda level: level.throughput,
        terms.second_column: lambda level: level.second,
        **({"below_cache_mbit_s": lambda level: level.below_cache_mbit_s} if terms.below_cache else {}),
        f"server_cpu_us_per_{terms.operation}": lambda level: level.cost.server_cpu_us,
        f"generator_cpu_us_per_{terms.operation}": lambda level: level.cost.generator_cpu_us,
    }
    before: dict[str, Callable[[LevelFigures], Value]] = {
        "configuration": lambda level: level.configuration,
        "clients": lambda level: level.clients,
        "threads": lambda level: level.threads,
        "window_s": lambda level: level.window_s,
        "clients_took_part": lambda level: level.clients_took_part,
        "clients_left": lambda level: level.clients_left,
        "clients_without_completion": lambda level: level.clients_starved,
        "seconds_without_completion": lambda level: sum(map(len, level.stalls.values())),
    }
    after: dict[str, Callable[[LevelFigures], Value]] = {
        "generator_cpu_share": lambda level: level.cost.generator_cpu_share,
        "waiting_share": lambda level: level.waiting_share,
        "hidden_speed": lambda level: level.stated_hidden_speed,
        "run_delay_share": lambda level: level.cost.run_delay_share,
        "taken_share": lambda level: level.cost.taken_share,
        "marks": lambda level: "; ".join(sorted(mark.name.lower() for mark in level.marks)),
    }
    columns = (
        *before,
        *(f"{name}_{part}" for name in spreads for part in SPREAD_COLUMNS),
        *TIME_COLUMNS,
        *after,
    )
    rows = tuple(
        (
            *(figure(level) for figure in before.values()),
            *(value for spread in spreads.values() for value in _spread(spread(level))),
            *_times(level.response),
            *(figure(level) for figure in after.values()),
        )
        for level in results.levels
    )
    return RawTable(
        "curves", "One row per configuration and level, with the repetitions combined", columns, rows
    )


def _spread(spread: Spread | None) -> tuple[Value, ...]:
    return (None,) * len(SPREAD_COLUMNS) if spread is None else astuple(spread)


def _times(found: Times | None) -> tuple[Value, ...]:
    if found is None:
        return (None,) * len(TIME_COLUMNS)
    return found.mean_ms, found.deviation_ms, found.min_ms, found.max_ms, *found.percentiles_ms


def _run(record: LevelRecord) -> tuple[Value, ...]:
    return record.run, record.configuration, record.repetition, record.level, record.clients, record.threads


def _levels(results: Results) -> RawTable:
    columns = (*RUN_COLUMNS, *WORK_COLUMNS, *TIME_COLUMNS, *COST_COLUMNS, "syncs_known")
    rows = tuple(
        (
            *_run(record),
            *(getattr(record, name) for name in WORK_COLUMNS),
            *_times(times([record.response_time_hdr])),
            *(getattr(record, name) for name in COST_COLUMNS),
            "yes" if record.syncs_known else "no",
        )
        for record in results.used
    )
    return RawTable("levels", "One row per run and level, as measured", columns, rows)


def _operations(results: Results) -> RawTable:
    columns = (
        *RUN_COLUMNS,
        "operation",
        "count",
        "bytes_read",
        "bytes_written",
        "errors_in_window",
        *TIME_COLUMNS,
    )
    rows = tuple(
        (
            *_run(record),
            row.operation,
            row.count,
            row.bytes_read,
            row.bytes_written,
            row.errors,
            *_times(times([row.response_time_hdr])),
        )
        for record in results.used
        for row in record.by_operation
    )
    return RawTable("operations", "One row per run, level and class of operation", columns, rows)


def _errors(results: Results) -> RawTable:
    columns = (*RUN_COLUMNS, "side", "fault", "count", "in_window", "example")
    rows = tuple(
        (*_run(record), row.side, row.fault, row.count, row.in_window, row.example)
        for record in results.used
        for row in record.errors
    )
    return RawTable("errors", "One row per run, level and kind of error", columns, rows)


def _improvements(results: Results) -> RawTable:
    terms = results.terms
    figures: dict[str, Callable[[Comparison, Improvement], Value]] = {
        "base": lambda comparison, _: comparison.base,
        "other": lambda comparison, _: comparison.other,
        "figure": lambda _, found: found.figure.value,
        f"base_{terms.column}": lambda _, found: found.base,
        f"other_{terms.column}": lambda _, found: found.other,
        "improvement_percent": lambda _, found: found.percent,
        "interval_low_percent": lambda _, found: found.low_percent,
        "interval_high_percent": lambda _, found: found.high_percent,
        "seen_low_percent": lambda _, found: found.observed_low_percent,
        "seen_high_percent": lambda _, found: found.observed_high_percent,
        "repetitions": lambda _, found: found.repetitions,
        "left_out": lambda comparison, found: comparison.left_out(found),
        "paired": lambda _, found: "yes" if found.paired else "no",
        "levels": lambda _, found: len(found.levels),
        "minimum_effect_percent": lambda _, found: found.minimum_percent,
        "equivalence_margin_percent": lambda _, found: found.equivalence_percent,
        "verdict": lambda _, found: found.verdict.value,
        "not_comparable_because": _obstacles,
        "corrected_for_comparisons": lambda _, found: found.among,
        "found_percent": lambda _, found: found.found_percent,
        "repetitions_needed_for_5_percent": lambda _, found: found.repetitions_needed,
        "limits": lambda comparison, _: "; ".join(
            f"{name}: {mark.name.lower()}" for name, mark in comparison.limits
        ),
        **(OF_FILES if results.work.has_durability else {}),
    }
    rows = tuple(
        tuple(figure(comparison, found) for figure in figures.values())
        for comparison in results.comparisons
        for found in comparison.improvements
    )
    return RawTable("improvements", "One row per comparison and figure", tuple(figures), rows)


def _obstacles(comparison: Comparison, found: Improvement) -> str:
    why = comparison.obstacles.get(found.figure, ())
    return "; ".join(f"{each.name}: {each.kind}" if each.name else each.kind.value for each in why)


def _in_words(*, holds: bool | None) -> str | None:
    return None if holds is None else "yes" if holds else "no"


OF_FILES: dict[str, Callable[[Comparison, Improvement], Value]] = {
    "part_of_a_pass": lambda comparison, found: _in_words(holds=found.figure in comparison.parts_of_a_pass),
    "differs_in_durability": lambda comparison, _: _in_words(holds=comparison.differs_in_durability),
}
"""Columns that say whether two servers differed in their operations and in flushes; None if unknown."""
