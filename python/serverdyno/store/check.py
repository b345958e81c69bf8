"""Check whether a record can be a measurement.

A record that can't be one is damaged and contributes no figure. The report names figures that contradict each other.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from serverdyno._native import Histogram
from serverdyno.plan.model import MAX_LENGTH_S, Level
from serverdyno.store.records import LevelRecord

MIN_WINDOW_S = 1e-6  # a level that ends after a number of requests may be short
LATEST_UNIX_S = 1e11
"""Latest valid time, in the year 5138."""
LARGEST = 2.0**53
"""Upper bound of bytes, nanoseconds and operations: no level comes near, and squares and sums stay finite."""
_MAY_BE_NEGATIVE = {"clock_offset_s", "others_cpu_s"}
"""Fields that may be negative: a node's clock may be behind, and the CPU time of others is a difference in older
records."""


def check_level(record: LevelRecord, level: Level) -> None:
    """Raise ValueError if a record can't belong to `level`."""
    _check_values("", record)
    for name in ("generator_threads", "rate_per_s", "response_time_hdr"):
        if getattr(record, name) in (0, b""):
            raise ValueError(f"{name} is 0 or empty")
    if (record.clients, record.threads) != (level.clients, level.threads):
        raise ValueError(
            f"it has {record.clients} x {record.threads} connections (clients x threads), but the "
            f"plan specifies {level.clients} x {level.threads}"
        )
    _check_times(record.started_unix_s, record.window_s, MIN_WINDOW_S if level.step is None else 0.0)
    if (record.step, record.state) != (level.step, None if level.step is None else level.state):
        raise ValueError(
            f"its step {record.step!r} with state {record.state!r} is not the one that the plan specifies"
        )
    if not record.window_s <= record.length_s <= MAX_LENGTH_S:
        raise ValueError(
            f"length_s is {record.length_s}, but must be at least the window of {record.window_s} s and at most "
            f"{MAX_LENGTH_S} s"
        )
    if any(row.second > MAX_LENGTH_S for row in record.by_second):
        raise ValueError("by_second has a second after the end of the longest possible level")


def _check_times(started_unix_s: float, window_s: float, least_s: float) -> None:
    if not least_s <= window_s <= MAX_LENGTH_S:
        raise ValueError(f"window_s is {window_s}, but must be {least_s} to {MAX_LENGTH_S}")
    if started_unix_s > LATEST_UNIX_S:
        raise ValueError(f"started_unix_s is {started_unix_s}, but must be at most {LATEST_UNIX_S}")


def _check_values(place: str, row: Any) -> None:
    """Check that counts and times are not negative or too large, and that histograms can be read."""
    row_type: Any = type(row)
    for name, least in _least_values(row_type):
        value = getattr(row, name)
        if isinstance(value, int | float):
            if not least <= value <= LARGEST:
                raise ValueError(f"{place}{name} is {value}, which is negative, too large or not a number")
        elif isinstance(value, bytes):
            _check_histogram(f"{place}{name}", value)
        elif isinstance(value, list):
            for inner in value:
                if dataclasses.is_dataclass(inner):
                    _check_values(f"{place}{name}.", inner)


@functools.cache
def _least_values(row_type: type[Any]) -> list[tuple[str, float]]:
    """Return the smallest valid number of each field; cached, because a report checks a hundred thousand rows."""
    return [
        (field.name, -LARGEST if field.name in _MAY_BE_NEGATIVE else 0)
        for field in dataclasses.fields(row_type)
    ]


def _check_histogram(name: str, content: bytes) -> None:
    try:
        if content:
            Histogram.from_bytes(content)
    except ValueError as error:
        raise ValueError(f"{name} is not a valid histogram: {error}") from error
