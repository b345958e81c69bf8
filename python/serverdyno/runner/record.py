"""From what the data plane counted to the record that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from serverdyno.fleet.fleet import NodeFigures
from serverdyno.plan.model import Mix, RunKey
from serverdyno.probes.window import WindowUse
from serverdyno.store.records import (
    CallRow,
    ClientRow,
    ErrorRow,
    HandshakeRow,
    MixRecord,
    NodeRow,
    OperationRow,
    OutageRow,
    RequestRow,
    SecondRow,
    SyncRow,
)

if TYPE_CHECKING:
    from serverdyno._native import MixResult


@dataclass(frozen=True, slots=True)
class HostFigures:
    """What was observed besides the load itself.

    `nodes`: what each place that made the load did; none where this process did alone. `syncs`: system calls of the
    server that make data durable, in the window; None: not known. `cut_at_s`: when the server was taken away, since the
    start of the mix; None: it was not.
    """

    use: WindowUse
    server_rss_bytes: int | None
    syncs: Mapping[str, int] | None = None
    nodes: Sequence[NodeFigures] = ()
    cut_at_s: float | None = None


def mix_record(run: RunKey, mix: Mix, result: MixResult, seen: HostFigures) -> MixRecord:
    """The record of one mix."""
    generator = result["generator"]
    return MixRecord(
        run=run.number,
        configuration=run.configuration,
        repetition=run.repetition,
        mix=mix.index,
        name=mix.name,
        clients=mix.clients,
        threads=mix.threads,
        clients_participating=result["clients_participating"],
        length_s=mix.length_s,
        ramp_up_s=mix.ramp_up_s,
        ramp_down_s=mix.ramp_down_s,
        window_s=result["window_s"],
        started_unix_s=result["started_unix_s"] or 0.0,
        stopped=result["stopped"],
        operations=result["operations"],
        operations_total=result["operations_total"],
        bytes_read=result["bytes_read"],
        bytes_written=result["bytes_written"],
        bytes_in=result["bytes_in"],
        bytes_out=result["bytes_out"],
        response_time_hdr=result["response_time_hdr"],
        connect_time_hdr=result["connect_time_hdr"],
        generator_threads=generator["threads"],
        generator_cpu_user_s=generator["cpu_user_s"],
        generator_cpu_system_s=generator["cpu_system_s"],
        loop_lag_hdr=generator["loop_lag_hdr"],
        connections=generator["connections"],
        reconnects=generator["reconnects"],
        source_addresses=generator["source_addresses"],
        server_cpu_s=seen.use.server_cpu_s,
        server_rss_bytes=seen.server_rss_bytes,
        others_cpu_s=seen.use.others_cpu_s,
        steal_cpu_s=seen.use.steal_cpu_s,
        generator_busiest_cpu_s=generator["busiest_cpu_s"],
        under_way_at_close=result["under_way_at_close"],
        under_way_longest_s=result["under_way_longest_s"],
        outstanding_s=result["outstanding_s"],
        overdue_at_end=result["overdue_at_end"],
        ready_work_s=generator["ready_work_s"],
        run_delay_s=generator["run_delay_s"],
        stalled_s=generator["stalled_s"],
        io_wait_s=seen.use.io_wait_s,
        passes=result["passes"],
        pass_operations=result["pass_operations"],
        bytes_checked=result["bytes_checked"],
        by_operation=[OperationRow(**row) for row in result["by_operation"]],
        by_client=[ClientRow(**row) for row in result["by_client"]],
        by_second=[SecondRow(**row) for row in result["by_second"]],
        errors=[
            ErrorRow(row["side"], row["fault"], row["count"], row["in_window"], row["example"])
            for row in result["errors"]
        ],
        calls=[CallRow(**row) for row in result["calls"]],
        requests=[RequestRow(**row) for row in result["requests"]],
        handshake_time_hdr=result["handshake_time_hdr"] if result["handshakes"] else None,
        handshakes=[HandshakeRow(**row) for row in result["handshakes"]],
        nodes=[node_row(figures) for figures in seen.nodes],
        rate_per_s=mix.rate_per_s,
        **_open(result),
        **_breaks(result),
        **_failover(result),
        cut_at_s=seen.cut_at_s,
        syncs_known=seen.syncs is not None,
        syncs=[SyncRow(name, count) for name, count in (seen.syncs or {}).items()],
    )


def node_row(figures: NodeFigures) -> NodeRow:
    """The row of one node, from its own tally."""
    result = figures.result
    generator = result["generator"]
    return NodeRow(
        node=figures.node,
        clients=result["clients_planned"],
        operations=result["operations"],
        operations_total=result["operations_total"],
        bytes_in=result["bytes_in"],
        bytes_out=result["bytes_out"],
        errors=sum(error["count"] for error in result["errors"]),
        generator_threads=generator["threads"],
        generator_cpu_s=generator["cpu_user_s"] + generator["cpu_system_s"],
        generator_busiest_cpu_s=generator["busiest_cpu_s"],
        ready_work_s=generator["ready_work_s"],
        outstanding_s=result["outstanding_s"],
        run_delay_s=generator["run_delay_s"],
        others_cpu_s=figures.others_cpu_s,
        steal_cpu_s=figures.steal_cpu_s,
        cpus=figures.cpus,
        clock_offset_s=figures.clock.offset_s,
        clock_error_s=figures.clock.error_s,
        start_late_s=result["start_late_s"],
    )


def _breaks(result: MixResult) -> dict[str, Any]:
    """The columns of breaks; none of work without files."""
    if (breaks := result["breaks"]) is None:
        return {}
    return {
        "breaks": breaks["came"],
        "breaks_to_answer": breaks["to_answer"],
        "breaks_answered": breaks["answered"],
        "break_time_hdr": breaks["answer_time_hdr"],
    }


def _failover(result: MixResult) -> dict[str, Any]:
    """The columns of outages; none where nothing was to outlive one."""
    if (failover := result["failover"]) is None:
        return {}
    counts = {name: count for name, count in failover.items() if name != "outages"}
    return {**counts, "outages": [OutageRow(**row) for row in failover["outages"]]}


def _open(result: MixResult) -> dict[str, Any]:
    """The columns of open load; none of closed load, where nothing comes by itself."""
    return dict(result["open"] or {})
