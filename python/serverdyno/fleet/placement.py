"""Choose the CPUs of the generator and of the server, so that neither takes CPU time from the other unnoticed."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from serverdyno.errors import UserError
from serverdyno.plan.model import GeneratorPlan
from serverdyno.probes.topology import Topology


@dataclass(frozen=True, slots=True)
class Placement:
    """CPU numbers. The two sets overlap only if there are too few CPUs, or if the plan demands it."""

    generator: tuple[int, ...]
    server: tuple[int, ...]

    @property
    def shared(self) -> bool:
        """Whether generator and server take CPU time from each other."""
        return not set(self.generator).isdisjoint(self.server)


def place(generator: GeneratorPlan, named_by_servers: Collection[int] = ()) -> Placement:
    """Return the generator's CPUs, and the CPUs of every server for which the plan names none.

    If the plan names no CPUs for the generator, it gets the first CPUs that no server names, one per thread; servers
    get all others. Raises UserError if there are fewer CPUs than threads, because the threads would then compete for
    CPU time.
    """
    available = sorted(os.sched_getaffinity(0))
    threads = generator.threads * generator.processes
    chosen = tuple(generator.cpus) or _first(available, threads, set(named_by_servers))
    if len(chosen) < threads:
        raise UserError(
            f"the generator's {threads} threads would have to share {len(chosen)} CPU(s)",
            hint="Use fewer threads or processes for the generator, or give it more CPUs (generator.cpus).",
        )
    rest = tuple(cpu for cpu in available if cpu not in chosen)
    return Placement(chosen, rest or tuple(available))


def of_processors(
    count: int, free: Collection[int], others: Collection[int], topology: Topology | None = None
) -> tuple[int, ...]:
    """Return `count` CPUs for a server.

    CPUs in `free`, which the generator does not use, precede the CPUs in `others`. CPUs of one memory node are
    adjacent. In a node, one CPU of every core precedes the second CPU of any core. Raises UserError if there are fewer
    CPUs.
    """
    every = sorted({*free, *others})
    if count > len(every):
        raise UserError(f"processors = {count}, but only {len(every)} CPU(s) are available for the server")
    known = topology or Topology.read(every)
    ordered = [*known.spread(free), *known.spread(set(others) - set(free))]
    return tuple(sorted(ordered[:count]))


def _first(available: list[int], threads: int, taken: set[int]) -> tuple[int, ...]:
    free = [cpu for cpu in available if cpu not in taken] or available
    return tuple(free[:threads])
