"""The cost of a load level: CPU time of server and generator, memory, and CPU time taken by other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from serverdyno.analysis import curve, trust
from serverdyno.report.figures import histograms
from serverdyno.report.figures.generator import cpus_busy, generator_cpu_share, run_delay_share, taken_cpus
from serverdyno.store.records import LevelRecord


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a load level. None: not measured, or no successful request.

    CPU time is in microseconds per successful request. `*_cpus_busy` is CPU seconds per second of the server, of other
    programs, and of the hypervisor (steal). `taken_share` relates the last two to the CPUs of the generator or the
    server, whichever has fewer. `run_delay_share` is the share of the window in which the generator's threads waited
    for a CPU; `io_wait_share`, the share in which some process waited for a disk. All shares, CPUs and memory are the
    largest of any repetition.
    """

    server_cpu_us: curve.Spread | None
    server_cpus_busy: float | None
    others_cpus_busy: float | None
    steal_cpus_busy: float | None
    server_rss_bytes: int | None
    generator_cpu_us: curve.Spread | None
    generator_cpu_share: float
    generator_threads: int
    run_delay_share: float | None
    taken_share: float | None
    io_wait_share: float | None
    loop_lag: histograms.Times | None


def cost(records: Sequence[LevelRecord], fewest_cpus: int) -> Cost:
    """Return the cost of a level over its repetitions. `fewest_cpus`: the smaller CPU count of generator and server."""
    measured = [record for record in records if record.server_cpu_s is not None]
    resident = [record.server_rss_bytes for record in records if record.server_rss_bytes is not None]
    return Cost(
        server_cpu_us=_per_request_us(measured, [record.server_cpu_s or 0.0 for record in measured]),
        server_cpus_busy=most(cpus_busy(record.server_cpu_s, record) for record in records),
        others_cpus_busy=most(cpus_busy(record.others_cpu_s, record) for record in records),
        steal_cpus_busy=most(cpus_busy(record.steal_cpu_s, record) for record in records),
        server_rss_bytes=max(resident, default=None),
        generator_cpu_us=_per_request_us(records, [record.generator_cpu_s for record in records]),
        generator_cpu_share=max(generator_cpu_share(record) for record in records),
        generator_threads=records[0].generator_threads,
        run_delay_share=most(run_delay_share(record) for record in records),
        taken_share=most(trust.taken_share(taken_cpus(record), fewest_cpus) for record in records),
        io_wait_share=most(cpus_busy(record.io_wait_s, record) for record in records),
        loop_lag=histograms.times([record.loop_lag_hdr for record in records]),
    )


def most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _per_request_us(records: Sequence[LevelRecord], cpu_s: Sequence[float]) -> curve.Spread | None:
    """Return CPU time per operation. The mean is pooled (all time / all operations); the spread is over repetitions."""
    known = [
        (seconds, record.operations)
        for record, seconds in zip(records, cpu_s, strict=True)
        if record.operations
    ]
    spread = curve.spread([seconds * 1e6 / operations for seconds, operations in known])
    if spread is None:
        return None
    total_s, operations = (sum(each) for each in zip(*known, strict=True))
    return replace(spread, mean=total_s * 1e6 / operations)
