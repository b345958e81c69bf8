"""Which CPUs make the load and which serve it, so that neither takes from the other unseen."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from serverdyno.errors import UserError
from serverdyno.plan.model import GeneratorPlan
from serverdyno.probes.topology import Topology


@dataclass(frozen=True, slots=True)
class Placement:
    """CPU numbers. The two overlap only where there are too few CPUs, or where the plan says so."""

    generator: tuple[int, ...]
    server: tuple[int, ...]

    @property
    def shared(self) -> bool:
        """Whether generator and server take CPU time from each other."""
        return not set(self.generator).isdisjoint(self.server)


def place(generator: GeneratorPlan, named_by_servers: Collection[int] = ()) -> Placement:
    """The generator's CPUs, and those of every server that names none.

    Where the generator names none, it gets the first ones that no server names, one for each of its threads; servers
    get all the others. Raises UserError where there are fewer CPUs than threads: they would take each other's time.
    """
    available = sorted(os.sched_getaffinity(0))
    threads = generator.threads * generator.processes
    chosen = tuple(generator.cpus) or _first(available, threads, set(named_by_servers))
    if len(chosen) < threads:
        raise UserError(
            f"the generator's {threads} threads would share {len(chosen)} CPU(s)",
            hint="Give the generator fewer threads or processes, or name more CPUs for it.",
        )
    rest = tuple(cpu for cpu in available if cpu not in chosen)
    return Placement(chosen, rest or tuple(available))


def of_processors(
    count: int, free: Collection[int], others: Collection[int], topology: Topology | None = None
) -> tuple[int, ...]:
    """The CPUs of a server that is confined to so many.

    They are of `free`, which the generator does not have, as long as that is enough, and then of `others`, too. One of
    every core comes first, all of one node of memory. Raises UserError where there are fewer CPUs.
    """
    every = sorted({*free, *others})
    if count > len(every):
        raise UserError(f"processors: {count}, but the server can have only {len(every)} CPU(s) here")
    known = topology or Topology.read(every)
    ordered = [*known.spread(free), *known.spread(set(others) - set(free))]
    return tuple(sorted(ordered[:count]))


def _first(available: list[int], threads: int, taken: set[int]) -> tuple[int, ...]:
    free = [cpu for cpu in available if cpu not in taken] or available
    return tuple(free[:threads])
