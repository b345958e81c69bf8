"""What a mix cost its machine: CPU time of server and generator, memory, and what others took meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from serverdyno.analysis import curve, trust
from serverdyno.report.figures import histograms
from serverdyno.report.figures.generator import cpus_busy, generator_cpu_share, run_delay_share, taken_cpus
from serverdyno.store.records import MixRecord


@dataclass(frozen=True, slots=True)
class Cost:
    """What a mix cost. CPU time in microseconds per successful request; None: not measured, or no request.

    `*_cpus_busy`: CPU seconds per second, of the server, of others, and taken by the hypervisor (steal); of the latter
    two `taken_share`, of the generator's or the server's CPUs, the fewer. `run_delay_share`: of the window, in which
    the generator's threads waited for a CPU. `io_wait_share`: of the window, in which some process waited for a disk.
    These, shares and memory: the largest of any repetition.
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


def cost(records: Sequence[MixRecord], fewest_cpus: int) -> Cost:
    """Of the repetitions of one mix. `fewest_cpus`: of the generator or of the server, whichever has fewer."""
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
    """The largest that is known; None when none is."""
    return max((value for value in values if value is not None), default=None)


def _per_request_us(records: Sequence[MixRecord], cpu_s: Sequence[float]) -> curve.Spread | None:
    """Return CPU time per operation: the mean is pooled, all time over all operations; the rest is by repetition."""
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
