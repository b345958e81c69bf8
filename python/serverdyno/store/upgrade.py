"""Upgrades experiments of older formats on reading. Fields that an older format did not record become unknown."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_SINCE_FORMAT_4 = (
    "handshake_time_hdr",
    "handshakes",
    "outstanding_s",
    "overdue_at_end",
    "ready_work_s",
    "run_delay_s",
    "io_wait_s",
    "pass_operations",
)
_SINCE_FORMAT_5 = (
    "nodes",
    "rate_per_s",
    "arrivals",
    "arrivals_in_window",
    "dropped",
    "dropped_in_window",
    "waited",
    "waiting_s",
    "scheduling_error_hdr",
)
_SINCE_FORMAT_6 = ("breaks", "breaks_to_answer", "breaks_answered", "break_time_hdr")
_SINCE_FORMAT_7 = (
    "cut_at_s",
    "outages",
    "handles_asked",
    "handles_granted",
    "handles_persistent",
    "handles_regained",
    "handles_lost",
    "calls_sent_again",
    "blocks_read_back",
    "blocks_lost",
    "blocks_wrong",
    "unflushed_lost",
)
_SINCE_FORMAT_8 = ("stalled_s",)
_SINCE_FORMAT_9 = ("suite", "step", "state", "figure", "entries", "bytes_unknown")
_LATER_THAN_8 = _SINCE_FORMAT_9
_LATER_THAN_7 = (*_SINCE_FORMAT_8, *_LATER_THAN_8)
_LATER_THAN_6 = (*_SINCE_FORMAT_7, *_LATER_THAN_7)
_LATER_THAN_5 = (*_SINCE_FORMAT_6, *_LATER_THAN_6)
_LATER_THAN_4 = (*_SINCE_FORMAT_5, *_LATER_THAN_5)
_LATER_THAN_2 = (*_SINCE_FORMAT_4, *_LATER_THAN_4)


def head_of_format_1(head: dict[str, Any]) -> dict[str, Any]:
    """Keep the head: the defaults of the new suite parameters in format 2 describe the behaviour of format 1."""
    return head


def head_of_format_2(head: dict[str, Any]) -> dict[str, Any]:
    """Keep the head: the protocol and axis of format 3 follow from the suite."""
    return head


def mix_of_format_2(mix: pa.Table) -> pa.Table:
    """Return the table unchanged."""
    return mix


def mix_of_format_1(mix: pa.Table) -> pa.Table:
    """Rename bodies to bytes read, and add writes, calls and syncs, of which HTTP has none."""
    rows = [_row_of_format_1(row) for row in mix.to_pylist()]
    return _table(rows, without=_LATER_THAN_2)


def head_of_format_3(head: dict[str, Any]) -> dict[str, Any]:
    """Keep the head: the defaults of TLS in format 4 describe the behaviour of format 3."""
    return head


def mix_of_format_3(mix: pa.Table) -> pa.Table:
    """Add TLS handshakes (none) and the generator's operations in hand (not measured).

    The generator's ceiling is dropped, because no rule uses it any more.
    """
    added = dict.fromkeys(_SINCE_FORMAT_4) | {"handshakes": []}
    rows = [{**row, **added} for row in mix.to_pylist()]
    return _table(rows, without=_LATER_THAN_4)


def head_of_format_4(head: dict[str, Any]) -> dict[str, Any]:
    """Keep the head: fleets and open load did not exist before format 5."""
    return head


def mix_of_format_4(mix: pa.Table) -> pa.Table:
    """Add the nodes of a fleet (none), and the figures of open load (none)."""
    added = dict.fromkeys(_SINCE_FORMAT_5) | {"nodes": []}
    rows = [{**row, **added} for row in mix.to_pylist()]
    return _table(rows, without=_LATER_THAN_5)


def head_of_format_5(head: dict[str, Any]) -> dict[str, Any]:
    """Keep the head: contention did not exist before format 6."""
    return head


def mix_of_format_5(mix: pa.Table) -> pa.Table:
    """Add breaks, which were not counted."""
    rows = [{**row, **dict.fromkeys(_SINCE_FORMAT_6)} for row in mix.to_pylist()]
    return _table(rows, without=_LATER_THAN_6)


def head_of_format_6(head: dict[str, Any]) -> dict[str, Any]:
    """Keep the head: failover and durable handles did not exist before format 7."""
    return head


def mix_of_format_6(mix: pa.Table) -> pa.Table:
    """Add outages, and the handles and data that survived them, of which there were none."""
    added = dict.fromkeys(_SINCE_FORMAT_7) | {"outages": []}
    rows = [{**row, **added} for row in mix.to_pylist()]
    return _table(rows, without=_LATER_THAN_7)


def head_of_format_7(head: dict[str, Any]) -> dict[str, Any]:
    """Drop the operations' time of measured peaks: format 8 needs the run delay, which was not recorded."""
    if (rates := head.get("peaks")) is not None:
        peaks = [
            {name: value for name, value in peak.items() if name != "outstanding_s"}
            for peak in rates["peaks"]
        ]
        head = {**head, "peaks": {**rates, "peaks": peaks}}
    return head


def mix_of_format_7(mix: pa.Table) -> pa.Table:
    """Add the stalls of the generator, which were not measured."""
    rows = [{**row, **dict.fromkeys(_SINCE_FORMAT_8)} for row in mix.to_pylist()]
    return _table(rows, without=_LATER_THAN_8)


def head_of_format_8(head: dict[str, Any]) -> dict[str, Any]:
    """Return the head with a list of suites, which contains its only suite."""
    rest = {key: value for key, value in head.items() if key != "suite"}
    return {"suites": [head.get("suite")], **rest}


def mix_of_format_8(mix: pa.Table) -> pa.Table:
    """Add the suite and the step of a level (none): every level was timed."""
    rows = [{**row, **dict.fromkeys(_SINCE_FORMAT_9)} for row in mix.to_pylist()]
    return _table(rows, without=())


def _table(rows: list[dict[str, Any]], without: Collection[str]) -> pa.Table:
    """Return rows as a table with the columns of a level, except those of later formats."""
    import pyarrow as pa  # noqa: PLC0415 (as in `experiment.py`)

    from serverdyno.store import table  # noqa: PLC0415

    schema = pa.schema([field for field in table.SCHEMA if field.name not in without])
    return pa.Table.from_pylist(rows, schema=schema)


def _row_of_format_1(row: dict[str, Any]) -> dict[str, Any]:
    bodies = row.pop("bytes_body")
    by_operation = [
        {**operation, "bytes_read": operation["bytes_body"], "bytes_written": 0}
        for operation in row["by_operation"]
    ]
    by_client = [{**client, "bytes_read": None, "bytes_written": 0} for client in row["by_client"]]
    return {
        **row,
        "bytes_read": bodies,
        "bytes_written": 0,
        "by_operation": by_operation,
        "by_client": by_client,
        "calls": [],
        "requests": [],
        "syncs_known": False,
        "syncs": [],
    }
