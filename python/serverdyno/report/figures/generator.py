"""Compute the shares of time of the load generator and of other programs on the machine from one record.

The rules are in `analysis.trust`; `results` combines the repetitions.
"""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno.analysis import trust
from serverdyno.report.figures import open_load
from serverdyno.report.figures.fates import left
from serverdyno.store.records import LevelRecord, NodeRow


def cpus_busy(cpu_s: float | None, record: LevelRecord) -> float | None:
    """Return CPU seconds per second of the record's window; None if unknown."""
    return None if cpu_s is None else cpu_s / record.window_s


def waiting_share(record: LevelRecord, *, run_delay: bool = True) -> float | None:
    """Return the largest share of the clients' time spent waiting in or for the generator; None if unknown.

    For several nodes, return the largest share of any node. For open load, return the generator's share of the response
    times, including the wait for a connection. `run_delay`: count the time in which threads waited for a CPU.
    """
    delay = run_delay_share(record) if run_delay else 0.0
    if delay is not None:
        delay += (record.stalled_s or 0.0) / record.window_s
    if record.rate_per_s is not None:
        return open_load.own_share(record, delay)
    if not record.nodes:
        clients_s = _clients_s(record, record.clients, record.outstanding_s)
        return trust.waiting_share(record.ready_work_s, clients_s, delay)
    own = [node_waiting_share(node, record, run_delay=run_delay) for node in record.nodes]
    known = [share for share in own if share is not None]
    return max(known) if len(known) == len(own) else None


def node_waiting_share(node: NodeRow, record: LevelRecord, *, run_delay: bool = True) -> float | None:
    clients_s = _clients_s(record, node.clients, node.outstanding_s)
    return trust.waiting_share(
        node.ready_work_s, clients_s, _node_run_delay(node, record) if run_delay else 0.0
    )


def _clients_s(record: LevelRecord, clients: int, outstanding_s: float | None) -> float | None:
    """Return clients x threads x window, in s. If some clients left, return only the time of the operations."""
    all_stayed = record.clients_participating == record.clients and not left(record)
    if outstanding_s is None or record.rate_per_s is not None or not all_stayed:
        return outstanding_s
    return max(outstanding_s, clients * record.threads * record.window_s)


def thinking_share(record: LevelRecord) -> float:
    """Return the share of the clients' time without an operation in flight; 0 if unknown."""
    clients_s = _clients_s(record, record.clients, record.outstanding_s)
    if record.rate_per_s is not None or not clients_s or record.outstanding_s is None:
        return 0.0
    return 1 - record.outstanding_s / clients_s


def is_held_by_thinking(record: LevelRecord, think_time_s: float) -> bool:
    """Return whether operations/s are about clients / (think time + response time), so that thinking is the limit."""
    clients_s = _clients_s(record, record.clients, record.outstanding_s)
    if record.rate_per_s is not None or not clients_s or record.outstanding_s is None:
        return False
    thought_s = think_time_s * (record.operations + sum(row.in_window for row in record.errors))
    return trust.is_held_by_thinking(thought_s / clients_s, record.outstanding_s / clients_s)


def hidden_speed(record: LevelRecord, server_cpus: int | None, *, run_delay: bool = True) -> float | None:
    """Return an upper bound on how much faster the server may be than the level shows; None if unknown."""
    busy = cpus_busy(record.server_cpu_s, record)
    share = None if busy is None or server_cpus is None else busy / server_cpus
    if record.rate_per_s is not None:
        share = None  # the rate is given, so the server's CPUs do not bound the response time
    return trust.hidden_speed(waiting_share(record, run_delay=run_delay), share)


def taken_cpus(record: LevelRecord) -> float | None:
    """Return the number of CPUs that other programs and the hypervisor used; None if neither is known."""
    taken = [cpu_s for cpu_s in (record.others_cpu_s, record.steal_cpu_s) if cpu_s is not None]
    return sum(taken) / record.window_s if taken else None


def others_cpus(records: Sequence[LevelRecord]) -> float | None:
    """Return the mean of `taken_cpus` over the repetitions in which it is known."""
    taken = [
        found
        for record in records
        if record.others_cpu_s is not None and (found := taken_cpus(record)) is not None
    ]
    return sum(taken) / len(taken) if taken else None


def run_delay_share(record: LevelRecord) -> float | None:
    """Return the mean share of the window in which a generator thread waited for a CPU; None if unknown.

    For several nodes, return the largest mean of any node.
    """
    own = [_node_run_delay(node, record) for node in record.nodes]
    known = [share for share in own if share is not None]
    if known:
        return max(known)
    if record.run_delay_s is None:
        return None
    return record.run_delay_s / (record.window_s * record.generator_threads)


def _node_run_delay(node: NodeRow, record: LevelRecord) -> float | None:
    return None if node.run_delay_s is None else node.run_delay_s / (record.window_s * node.generator_threads)


def noise_marks(record: LevelRecord, fewest_cpus: int) -> frozenset[trust.Mark]:
    """Return the noise marks of a level; empty if no other program disturbed it.

    `fewest_cpus`: the smaller of the generator's and the server's CPU counts.
    """
    taken = trust.taken_share(taken_cpus(record), fewest_cpus)
    marks = trust.machine_marks(taken, run_delay_share(record))
    for node in record.nodes:
        others, cpus = node.others_cpu_s, node.cpus
        if others is not None and cpus:
            cpu_s = others + (node.steal_cpu_s or 0.0)
            marks |= trust.machine_marks(trust.taken_share(cpu_s / record.window_s, cpus), None)
    return marks


def generator_cpu_share(record: LevelRecord) -> float:
    """Return the CPU share of the busiest thread, which may delay its clients; if not recorded, the threads' mean."""
    if record.generator_busiest_cpu_s is not None:
        return record.generator_busiest_cpu_s / record.window_s
    return record.generator_cpu_s / (record.window_s * record.generator_threads)
