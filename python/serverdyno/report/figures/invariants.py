"""Check conditions that must hold in every record.

A violation means a bug in Serverdyno or damaged data.

`report/subjects/runs.py` compares the requests of a whole run with the server's own count.
"""

from __future__ import annotations

from collections.abc import Iterator

from serverdyno import units, wording
from serverdyno.report.figures import histograms, open_load
from serverdyno.store.records import LevelRecord

LITTLE_SHARE = 0.01
"""Tolerance of Little's law: histograms round by 0.1 %, and clocks are read at slightly different moments."""
CPU_SHARE, CPU_S = 0.02, 0.05
"""Tolerances of CPU time, for ticks of 10 ms and samples that are late by some milliseconds."""


def contradictions(record: LevelRecord, server_cpus: int | None, *, closed: bool) -> list[str]:
    """Return each violated invariant as a sentence. `server_cpus` is None if unknown. `closed`: no pacing."""
    name = f"run {record.run}, {record.configuration}, load level {record.name}"
    found = [
        *_sums(record),
        *_arrivals(record),
        *_cpu(record, server_cpus),
        *(_little(record) if closed else ()),
    ]
    return [f"{name}: {each}" for each in found]


def _sums(record: LevelRecord) -> Iterator[str]:
    counted = {
        "the response-time histogram": (histograms.samples(record.response_time_hdr), record.operations),
        "the classes of operation": (sum(row.count for row in record.by_operation), record.operations),
        "the clients": (sum(row.operations for row in record.by_client), record.operations),
        "the seconds": (sum(row.operations for row in record.by_second), record.operations_total),
    }
    for name, (count, wanted) in counted.items():
        if count != wanted:
            yield f"the counts of {name} add up to {count:,} operations, but the load level has {wanted:,}"
    if record.operations > record.operations_total:
        yield (
            f"{record.operations:,} operations in the window, but only {record.operations_total:,} in the "
            "whole load level"
        )


def _arrivals(record: LevelRecord) -> Iterator[str]:
    if missing := open_load.unaccounted(record):
        yield f"no count contains {missing:,} of the {record.arrivals or 0:,} requests that were due"


def _cpu(record: LevelRecord, server_cpus: int | None) -> Iterator[str]:
    used = [("the generator's threads", record.generator_cpu_s, record.generator_threads)]
    if record.server_cpu_s is not None and server_cpus is not None:
        used.append(("the server", record.server_cpu_s, server_cpus))
    for name, cpu_s, cpus in used:
        there_s = cpus * record.window_s
        if cpu_s > there_s * (1 + CPU_SHARE) + CPU_S:
            yield f"{name} used {cpu_s:.2f} CPU seconds, but only {there_s:.2f} were available"


def _little(record: LevelRecord) -> Iterator[str]:
    """Check Little's law: throughput x response time = operations in flight, except those across window borders."""
    times = histograms.times([record.response_time_hdr])
    if record.outstanding_s is None or times is None or any(row.in_window for row in record.errors):
        return
    streams_s = record.clients * record.threads * record.window_s
    if record.outstanding_s > streams_s * (1 + LITTLE_SHARE):
        yield (
            f"operations were in flight for {record.outstanding_s:.2f} s in all, but the window has only "
            f"{streams_s:.2f} s for all threads of the clients"
        )
    slowest_s = max(times.max_ms * units.NS_PER_MS / units.NS_PER_S, record.under_way_longest_s or 0.0)
    across_s = slowest_s * record.clients * record.threads
    answered_s = times.count * times.mean_ms * units.NS_PER_MS / units.NS_PER_S
    apart_s = abs(answered_s - record.outstanding_s)
    if apart_s > LITTLE_SHARE * record.outstanding_s + across_s:
        share = wording.share(apart_s / max(record.outstanding_s, units.NS_PER_MS / units.NS_PER_S))
        yield f"the sum of the response times and the time of operations in flight differ by {share} (Little's law)"
