"""The record of one finished load level: raw figures as measured. `analysis` derives the rest.

Counted fields are generated (`counted.py`); this module adds the planned fields and those observed on this machine.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, get_type_hints

from serverdyno import clean
from serverdyno._native import Histogram
from serverdyno.counted import (
    CallRow,
    ClientRow,
    Counted,
    ErrorRow,
    HandshakeRow,
    OperationRow,
    OutageRow,
    RequestRow,
    SecondRow,
)
from serverdyno.units import NS_PER_MS

__all__ = [
    "CallRow",
    "ClientRow",
    "ErrorRow",
    "HandshakeRow",
    "LevelRecord",
    "NodeRow",
    "OperationRow",
    "OutageRow",
    "RequestRow",
    "SecondRow",
    "SyncRow",
    "column_types",
]

UNANSWERED = "unanswered_at_close"
"""Kind of the rows in `errors` for operations in flight at the end of the window, which are not errors."""
MOST_STALLED_S = 0.5
"""Longest tolerated stall of the generator; a longer one voids the level.

Shorter stalls count as waiting for the generator.
"""
DATA_CALLS = ("fsync", "fdatasync", "syncfs", "sync", "io_uring_fsync", "open_sync")
"""Calls after which data are on disk. sync_file_range(2) and msync(2) do not promise this."""


@dataclass(frozen=True, slots=True)
class SyncRow:
    """Sync calls of the server's processes in the window, as system calls or by io_uring."""

    system_call: Annotated[str, 'name of the call, such as "fsync"']
    count: Annotated[int, "number of calls in the window"]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node of a fleet, or one of several generator processes, in the window."""

    node: Annotated[str, "name of the node"]
    clients: Annotated[int, "number of clients on the node"]
    operations: Annotated[int, "as in the column of the same name, for this node"]
    operations_total: Annotated[int, "as in the column of the same name, for this node"]
    bytes_in: Annotated[int, "as in the column of the same name, for this node"]
    bytes_out: Annotated[int, "as in the column of the same name, for this node"]
    errors: Annotated[int, "errors from start to end"]
    generator_threads: Annotated[int, "as in the column of the same name, for this node"]
    generator_cpu_s: Annotated[float, "CPU seconds of the node's engine threads in the window"]
    generator_busiest_cpu_s: Annotated[float, "as in the column of the same name, for this node"]
    ready_work_s: Annotated[float | None, "as in the column of the same name, for this node"]
    outstanding_s: Annotated[float | None, "as in the column of the same name, for this node"]
    run_delay_s: Annotated[float | None, "as in the column of the same name, for this node"]
    others_cpu_s: Annotated[
        float | None,
        "as in the column of the same name, on the node's CPUs. Null for a node on the controller's "
        "machine, like the next two: the controller's figures cover all nodes there",
    ]
    steal_cpu_s: Annotated[float | None, "as in the column of the same name, on the node's CPUs"]
    cpus: Annotated[int | None, "number of the node's CPUs"]
    clock_offset_s: Annotated[
        float, "offset of the node's monotonic clock from the controller's, by pings before the level"
    ]
    clock_error_s: Annotated[float, "the largest possible error of this offset"]
    start_late_s: Annotated[float | None, "how late the node began its first operation, by its own clock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRecord(Counted):
    """Everything recorded of one load level. `None` means not measured, never zero."""

    run: Annotated[int, "number of the run"]
    configuration: Annotated[str, "name of the run's configuration"]
    repetition: Annotated[int, "number of the run's repetition"]
    suite: Annotated[str | None, "name of the level's suite; null if the experiment has one suite"] = None
    level: Annotated[int, "number of the level in the experiment, from 1"]
    name: Annotated[str, "name of the level, such as `24_client`"]
    step: Annotated[
        str | None,
        "name of the step, for a level that ends when its work is done; the whole step counts. If levels "
        "begin and end together, the record of the last one has `server_cpu_s` and `syncs` for all. Null: "
        "the level ended after a set time",
    ] = None
    state: Annotated[
        str | None, "state of a step: `cold`, `warm`, the phase of several clients, or empty"
    ] = None
    figure: Annotated[int | None, "number of the figure in the published report that the step re-creates"] = (
        None
    )
    clients: Annotated[int, "planned number of clients"]
    threads: Annotated[int, "threads per client"]
    length_s: Annotated[float, "planned length"]
    ramp_up_s: Annotated[float, "planned ramp up"]
    ramp_down_s: Annotated[float, "planned ramp down"]
    rate_per_s: Annotated[int | None, "offered operations per second of open load; null for closed load"] = (
        None
    )
    server_cpu_s: Annotated[float | None, "CPU seconds of the server in the window"]
    server_rss_bytes: Annotated[int | None, "memory of the server at the end of the level"]
    others_cpu_s: Annotated[
        float | None,
        "CPU seconds of all other programs in the window, on the CPUs of generator and server",
    ] = None
    steal_cpu_s: Annotated[
        float | None, "CPU seconds that the hypervisor took in the window, on the same CPUs"
    ] = None
    io_wait_s: Annotated[
        float | None, "seconds of the window in which any process on the machine waited for a disk"
    ] = None
    syncs_known: Annotated[bool, "whether the server's syncs could be counted"] = False
    syncs: Annotated[
        list[SyncRow], "the server's syncs. Empty while `syncs_known` is false means unknown, not zero"
    ] = field(default_factory=list)
    nodes: Annotated[
        list[NodeRow],
        "one row per node of a fleet or per generator process, if there are several",
    ] = field(default_factory=list)
    cut_at_s: Annotated[
        float | None,
        "time of the outage (server killed or connections cut) since the start of the level; null without "
        "an outage",
    ] = None

    @property
    def operations_s(self) -> float:
        """Return the successes per second of the window."""
        return self.operations / self.window_s

    @property
    def attempts_s(self) -> float:
        """Return the successes and errors per second of the window."""
        return (self.operations + sum(row.in_window for row in self.errors)) / self.window_s

    def bounded_s(self, url: str | None) -> float:
        """Return the requests per second that a rate limit counts for the server at `url`.

        On file and object servers, an operation may send any number of requests. For HTTP and a directory, operations
        are counted. A bound also spaces the operations of a load, but not the calls of a step.
        """
        if url is None or url.startswith(("http", "file")):
            return self.attempts_s
        requests = sum(row.count for row in self.requests)
        if self.step is not None:
            return requests / self.window_s
        return max(self.attempts_s, requests / self.length_s)

    @property
    def void(self) -> str | None:
        """Return why the level is void, so that a resume repeats it; None if it counts."""
        if self.stopped:
            return "it ended early"
        if (self.stalled_s or 0.0) > MOST_STALLED_S:
            return (
                f"the load generator stood still for {self.stalled_s:.1f} s: it was stopped, the machine was paused, "
                "or its clock was set"
            )
        if self.clients and self.never_began == self.clients:
            why = f": {clean.quoted(self.errors[0].example)}" if self.errors else ""
            return (
                f"no client could be prepared: the server let no client log on or create its workspace{why}"
            )
        return None

    @property
    def never_began(self) -> int:
        """Return the number of clients that could not be prepared."""
        return sum(row.left_at_s == 0.0 for row in self.by_client)

    @property
    def failed(self) -> list[ErrorRow]:
        """Return the rows of `errors`, without operations in flight at the end of the window."""
        return [row for row in self.errors if row.fault != UNANSWERED]

    @property
    def failures(self) -> int:
        """Return the number of failed operations, from start to end."""
        return sum(row.count for row in self.failed)

    @property
    def unanswered(self) -> int:
        """Return the number of operations in flight at the end of the window that got no answer in time."""
        return sum(row.count for row in self.errors if row.fault == UNANSWERED)

    @property
    def generator_cpu_s(self) -> float:
        """Return the CPU seconds of the generator's threads in the window."""
        return self.generator_cpu_user_s + self.generator_cpu_system_s

    def response_time_ms(self, share: float) -> float | None:
        """Return the time within which a share of the successes ended; None without any success."""
        times = Histogram.from_bytes(self.response_time_hdr)
        return times.value_at(share) / NS_PER_MS if times.count else None

    @property
    def window_closes_s(self) -> float:
        """Return the end of the window, in s from the level's start."""
        return self.length_s - self.ramp_down_s


def step_figures(record: LevelRecord, *, of_bonnie: bool) -> dict[str, Any]:
    """Return the figures of a level that ended when its work was done, by their names in tables and JSON.

    `bytes`: read and written; for a phase of Bonnie the larger of the two, as the original counts. `calls`: number of
    individually timed calls, with percentiles; None if there are none.
    """
    read, written = record.bytes_read, record.bytes_written
    times = Histogram.from_bytes(record.response_time_hdr)
    shares = {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0}
    return {
        "step": record.step,
        "state": record.state,
        "figure": record.figure,
        "elapsed_s": record.window_s,
        "user_s": record.generator_cpu_user_s,
        "system_s": record.generator_cpu_system_s,
        "entries": record.entries,
        "bytes": max(read, written) if of_bonnie else read + written,
        "calls": times.count or None,
        **{
            name: times.value_at(share) * 1000 / NS_PER_MS if times.count else None
            for name, share in shares.items()
        },
        "bytes_checked": record.bytes_checked,
        "bytes_unknown": record.bytes_unknown,
        "requests": {row.request: row.count for row in record.requests},
    }


@functools.cache
def column_types(row_type: Any) -> dict[str, Any]:
    """Return the type of each column, with the identifying columns first; cached, because evaluation is slow."""
    kept = {each.name for each in fields(row_type) if each.metadata.get("column", True)}
    types = get_type_hints(row_type)
    return {name: types[name] for name in dict.fromkeys((*row_type.__annotations__, *types)) if name in kept}
