"""Sum the operations of one level by class and by kind of content, over its repetitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from serverdyno.report.figures import histograms
from serverdyno.store.records import LevelRecord


@dataclass(frozen=True, slots=True)
class OperationFigures:
    """The operations of one class, or of one kind of content. `window_s` is the sum over all repetitions."""

    operation: str
    count: int
    bytes_read: int
    bytes_written: int
    errors: int
    window_s: float
    response: histograms.Times | None


def of_records(records: Sequence[LevelRecord]) -> tuple[OperationFigures, ...]:
    return by_content(records, lambda operation: operation)


def by_content(
    records: Sequence[LevelRecord], content_of: Callable[[str], str | None]
) -> tuple[OperationFigures, ...]:
    rows = defaultdict(list)
    for record in records:
        for row in record.by_operation:
            if (content := content_of(row.operation)) is not None:
                rows[content].append(row)
    window_s = sum(record.window_s for record in records)
    return tuple(
        OperationFigures(
            operation=content,
            count=sum(row.count for row in group),
            bytes_read=sum(row.bytes_read for row in group),
            bytes_written=sum(row.bytes_written for row in group),
            errors=sum(row.errors for row in group),
            window_s=window_s,
            response=histograms.times([row.response_time_hdr for row in group]),
        )
        for content, group in rows.items()
    )
