"""The record of one finished mix: raw figures as measured. What is derived from them is in `analysis`."""

from __future__ import annotations

from dataclasses import dataclass, field

from serverdyno import clean
from serverdyno._native import Histogram
from serverdyno.units import NS_PER_MS


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation class in the window. Histogram: HDR V2, nanoseconds."""

    operation: str
    count: int
    bytes_read: int
    bytes_written: int
    errors: int
    response_time_hdr: bytes


@dataclass(frozen=True, slots=True)
class ClientRow:
    """One client in the window; errors from start to end of the mix."""

    client: int
    operations: int
    bytes_in: int
    bytes_read: int | None
    bytes_written: int
    errors: int
    left_at_s: float | None


@dataclass(frozen=True, slots=True)
class SecondRow:
    """One second since the start of the mix, ramps included."""

    second: int
    operations: int
    bytes_in: int
    errors: int


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One kind of error, with its side: server, network, client (our own fault) or check (wrong data)."""

    side: str
    fault: str
    count: int
    in_window: int
    example: str


@dataclass(frozen=True, slots=True)
class OutageRow:
    """One outage of one client, since the start of the mix: the end of the `last` operation that succeeded before it,
    and of the first that did when it was `back`. `session_lost`: what it had open was lost; else it went on with it.
    """

    client: int
    last_s: float
    back_s: float
    session_lost: bool


@dataclass(frozen=True, slots=True)
class CallRow:
    """One kind of call that passed below the client cache, from start to end of the mix; workspaces not counted.

    `not_there`: answered, rightly or not, with "there is no such file".
    """

    call: str
    done: int
    not_there: int
    failed: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RequestRow:
    """Requests of the protocol by its own names ("CREATE"), from start to end of the mix."""

    request: str
    count: int


UNANSWERED = "unanswered_at_close"
"""The kind of errors that are none: operations in flight when the window closed, without an answer in time."""
MOST_STALLED_S = 0.5
"""A generator that stood still for longer has not measured the server. A shorter stall counts as its own waiting."""
DATA_CALLS = ("fsync", "fdatasync", "syncfs", "sync", "io_uring_fsync")
"""The calls after which data is on the disk. sync_file_range(2) and msync(2) alone don't promise that."""


@dataclass(frozen=True, slots=True)
class HandshakeRow:
    """TLS handshakes that led to sessions on the same terms, from start to end of the mix and in the window.

    `key_exchange` None: an earlier session's secret was used alone.
    """

    version: str
    cipher: str
    key_exchange: str | None
    key: str
    resumed: bool
    count: int
    in_window: int


@dataclass(frozen=True, slots=True)
class SyncRow:
    """Calls by which the server's processes made data durable, in the window ("fsync"), system calls or by io_uring."""

    system_call: str
    count: int


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node of a fleet, or one of several generator processes, in the window. `clients`: that it had.

    `clock_offset_s`: of its monotonic clock from the controller's, by pings before the mix, and `clock_error_s`, how
    far that may be off. `start_late_s`: how late it began its first operation by its own clock. `others_cpu_s`,
    `steal_cpu_s`: on its `cpus`; None on the controller's machine, where they are measured for all.
    """

    node: str
    clients: int
    operations: int
    operations_total: int
    bytes_in: int
    bytes_out: int
    errors: int
    generator_threads: int
    generator_cpu_s: float
    generator_busiest_cpu_s: float
    ready_work_s: float | None
    outstanding_s: float | None
    run_delay_s: float | None
    others_cpu_s: float | None
    steal_cpu_s: float | None
    cpus: int | None
    clock_offset_s: float
    clock_error_s: float
    start_late_s: float | None


@dataclass(frozen=True, slots=True)
class MixRecord:
    """Everything that is kept of one mix. `None` means not measured, never zero.

    `outstanding_s`: operations that were under way times seconds; `ready_work_s`: connections whose next step was the
    generator's times seconds; `run_delay_s`: engine threads that were ready and had no CPU times seconds; `io_wait_s`:
    seconds in which some process of the machine waited for a disk; all of the window. `stalled_s`: in which the
    generator stood still from start to end: it was stopped, the machine was paused, or its clock was set.
    `others_cpu_s`, `steal_cpu_s`: on the CPUs that make the load or serve it. `overdue_at_end`: operations that were
    due in the mix and never begun. `pass_operations`: of one pass of the workload of one client. Of open load, where
    operations come at `rate_per_s`: `arrivals` and those that were `dropped` because too many waited, from start to end
    of the mix and `_in_window`; `waited`: operations of the window that found no connection free, and `waiting_s`, for
    how long they all waited; `scheduling_error_hdr`: how late each began by the generator's own fault, of the window.
    `breaks`: by which a file server took caching back, from start to end of the mix; `breaks_to_answer`: it waited for
    the answer, and with it another client; `breaks_answered`: not by a close; `break_time_hdr`: until the answer was
    sent. `cut_at_s`: when the server, or the connections to it, were taken away; `outages`: how long each client was
    without its server; `handles_asked` to outlive a connection, those `_granted`, those of them that are `_persistent`,
    those `_regained` and `_lost`; `calls_sent_again` on another connection; `blocks_read_back` after the mix, of them
    those `_lost` (acknowledged and flushed) and `_wrong`; `unflushed_lost`: acknowledged, not flushed.
    """

    run: int
    configuration: str
    repetition: int
    mix: int
    name: str
    clients: int
    threads: int
    clients_participating: int
    length_s: float
    ramp_up_s: float
    ramp_down_s: float
    window_s: float
    started_unix_s: float
    stopped: bool
    operations: int
    operations_total: int
    bytes_read: int
    bytes_written: int
    bytes_in: int
    bytes_out: int
    response_time_hdr: bytes
    connect_time_hdr: bytes
    generator_threads: int
    generator_cpu_user_s: float
    generator_cpu_system_s: float
    loop_lag_hdr: bytes
    connections: int
    reconnects: int
    source_addresses: int
    server_cpu_s: float | None
    server_rss_bytes: int | None
    others_cpu_s: float | None = None
    steal_cpu_s: float | None = None
    generator_busiest_cpu_s: float | None = None
    under_way_at_close: int | None = None
    under_way_longest_s: float | None = None
    outstanding_s: float | None = None
    overdue_at_end: int | None = None
    ready_work_s: float | None = None
    run_delay_s: float | None = None
    stalled_s: float | None = None
    io_wait_s: float | None = None
    passes: int | None = None
    pass_operations: int | None = None
    bytes_checked: int | None = None
    by_operation: list[OperationRow] = field(default_factory=list)
    by_client: list[ClientRow] = field(default_factory=list)
    by_second: list[SecondRow] = field(default_factory=list)
    errors: list[ErrorRow] = field(default_factory=list)
    calls: list[CallRow] = field(default_factory=list)
    requests: list[RequestRow] = field(default_factory=list)
    syncs_known: bool = False
    syncs: list[SyncRow] = field(default_factory=list)
    handshake_time_hdr: bytes | None = None
    handshakes: list[HandshakeRow] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)
    rate_per_s: int | None = None
    arrivals: int | None = None
    arrivals_in_window: int | None = None
    dropped: int | None = None
    dropped_in_window: int | None = None
    waited: int | None = None
    waiting_s: float | None = None
    scheduling_error_hdr: bytes | None = None
    breaks: int | None = None
    breaks_to_answer: int | None = None
    breaks_answered: int | None = None
    break_time_hdr: bytes | None = None
    cut_at_s: float | None = None
    outages: list[OutageRow] = field(default_factory=list)
    handles_asked: int | None = None
    handles_granted: int | None = None
    handles_persistent: int | None = None
    handles_regained: int | None = None
    handles_lost: int | None = None
    calls_sent_again: int | None = None
    blocks_read_back: int | None = None
    blocks_lost: int | None = None
    blocks_wrong: int | None = None
    unflushed_lost: int | None = None

    @property
    def operations_s(self) -> float:
        """Successes a second of the window."""
        return self.operations / self.window_s

    @property
    def void(self) -> str | None:
        """Why the level counts nowhere and is measured again by a resume; None: it counts."""
        if self.stopped:
            return "ended early"
        if (self.stalled_s or 0.0) > MOST_STALLED_S:
            return (
                f"the load generator stood still for {self.stalled_s:.1f} s: it was stopped, the machine was paused, "
                "or its clock was set"
            )
        if self.clients and self.never_began == self.clients:
            why = f": {clean.quoted(self.errors[0].example)}" if self.errors else ""
            return f"no client could be made ready: the server let none log on or make its workspace{why}"
        return None

    @property
    def never_began(self) -> int:
        """Number of clients that could not be made ready. They have not left: `leave_after_errors` is for later."""
        return sum(row.left_at_s == 0.0 for row in self.by_client)

    @property
    def failed(self) -> list[ErrorRow]:
        """Return the rows of `errors` that are errors: all but those of operations in flight at the close."""
        return [row for row in self.errors if row.fault != UNANSWERED]

    @property
    def failures(self) -> int:
        """Operations that failed, from start to end."""
        return sum(row.count for row in self.failed)

    @property
    def unanswered(self) -> int:
        """Operations that were in flight when the window closed, and had no answer in time."""
        return sum(row.count for row in self.errors if row.fault == UNANSWERED)

    @property
    def generator_cpu_s(self) -> float:
        """CPU seconds of the generator's threads in the window."""
        return self.generator_cpu_user_s + self.generator_cpu_system_s

    def response_time_ms(self, share: float) -> float | None:
        """The time within which that share of the successes was done; None where there was none."""
        times = Histogram.from_bytes(self.response_time_hdr)
        return times.value_at(share) / NS_PER_MS if times.count else None

    @property
    def window_closes_s(self) -> float:
        """When the measured part ends, since the start of the mix."""
        return self.length_s - self.ramp_down_s
