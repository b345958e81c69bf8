"""Records as tables for notebooks: `serverdyno.open(FOLDER).levels.to_pandas()`, or `polars.from_arrow(...)`.

Every table is an Arrow table with documented columns (docs/frames.md). Intervals and verdicts are in a report's JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from serverdyno._native import Histogram
from serverdyno.plan.expand import levels_by_configuration
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import ExperimentHead
from serverdyno.store.records import LevelRecord
from serverdyno.units import NS_PER_MS, percentile_name

QUANTILES = (0.5, 0.9, 0.99, 0.999)
STEPS = (*(step / 1000 for step in range(0, 1000, 5)), 0.999, 0.9999, 1.0)
"""The shares at which `histograms` reads each distribution."""
KEYS = ("run", "configuration", "repetition", "level", "clients", "threads")
FACTOR = "factor_"


class Records:
    """The records of one experiment, as tables.

    Each row begins with its run, configuration, factors and load level.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.head: ExperimentHead = experiment.head
        self._records = experiment.levels()
        self._levels = levels_by_configuration(experiment.head.plan)

    @cached_property
    def levels(self) -> pa.Table:
        """One row per run and load level: counts, rates, times and CPU seconds of its window."""
        return self._table((_level(record) for record in self._records), self._records)

    @cached_property
    def clients(self) -> pa.Table:
        """One row per run, load level and client."""
        return self._nested("by_client")

    @cached_property
    def operations(self) -> pa.Table:
        """One row per run, load level and class of operation, with percentiles of its response time."""
        return self._nested("by_operation")

    @cached_property
    def timeline(self) -> pa.Table:
        """One row per run, load level and second since its start, ramps included."""
        return self._nested("by_second")

    @cached_property
    def errors(self) -> pa.Table:
        """One row per run, load level and kind of error."""
        return self._nested("errors")

    @cached_property
    def histograms(self) -> pa.Table:
        """One row per run, load level and share of its operations, with the response time of that share."""
        rows, owners = [], []
        for record in self._records:
            found = Histogram.from_bytes(record.response_time_hdr)
            for share in STEPS if found.count else ():
                rows.append({"share": share, "response_time_ms": found.value_at(share) / NS_PER_MS})
                owners.append(record)
        return self._table(rows, owners)

    def _nested(self, name: str) -> pa.Table:
        pairs = [(record, row) for record in self._records for row in getattr(record, name)]
        return self._table((_flat(row) for _, row in pairs), [record for record, _ in pairs])

    def _table(self, rows: Any, owners: Sequence[LevelRecord]) -> pa.Table:
        factors = list(dict.fromkeys(factor for levels in self._levels.values() for factor in levels))
        return pa.Table.from_pylist(
            [{**self._keys(owner, factors), **row} for owner, row in zip(owners, rows, strict=True)]
        )

    def _keys(self, record: LevelRecord, factors: Sequence[str]) -> dict[str, Any]:
        levels: Mapping[str, Any] = self._levels.get(record.configuration, {})
        named = {f"{FACTOR}{factor}": _text(levels.get(factor)) for factor in factors}
        keys = {key: getattr(record, key) for key in KEYS}
        return {"run": keys.pop("run"), "configuration": keys.pop("configuration"), **named, **keys}


def open_experiment(folder: str | Path) -> Records:
    """Open the records of an experiment, finished or not.

    Raises UserError if there are none, DynoError if they are damaged.
    """
    return Records(Experiment.open(Path(folder)))


def _level(record: LevelRecord) -> dict[str, Any]:
    return {
        "window_s": record.window_s,
        "operations_s": record.operations_s,
        **_flat(record),
    }


def _flat(row: Any) -> dict[str, Any]:
    """Return a row without nested values, and with histograms as their count and percentiles in ms."""
    return dict(_items(row))


def _items(row: Any) -> Iterator[tuple[str, Any]]:
    for each in fields(row):
        value = getattr(row, each.name)
        if each.name.endswith("_hdr"):
            yield from _times(each.name.removesuffix("_hdr"), value)
        elif not isinstance(value, list) and each.name not in KEYS:
            yield each.name, value


def _times(name: str, data: bytes | None) -> Iterator[tuple[str, float | None]]:
    """Yield `response_time_p99_ms` and so on; None for an empty histogram."""
    found = Histogram.from_bytes(data) if data else None
    for share in QUANTILES:
        known = found is not None and found.count > 0
        yield (
            f"{name}_{percentile_name(share)}_ms",
            found.value_at(share) / NS_PER_MS if found and known else None,
        )


def _text(level: object) -> str | None:
    """Return a level as text: the levels of a factor may have several types, but a column has only one."""
    if isinstance(level, bool):
        return f"{level}".lower()
    return None if level is None else f"{level}"
