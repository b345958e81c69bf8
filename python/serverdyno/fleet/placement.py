"""Which CPUs make the load and which serve it, so that neither takes from the other unseen."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from serverdyno.plan.model import GeneratorPlan


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

    Where the generator names none, it gets the first ones that no server names; servers get all the others.
    """
    available = sorted(os.sched_getaffinity(0))
    chosen = tuple(generator.cpus) or _first(available, generator.threads, set(named_by_servers))
    rest = tuple(cpu for cpu in available if cpu not in chosen)
    return Placement(chosen, rest or tuple(available))


def _first(available: list[int], threads: int, taken: set[int]) -> tuple[int, ...]:
    free = [cpu for cpu in available if cpu not in taken] or available
    leave_for_server = 0 if taken else 1
    return tuple(free[: max(1, min(threads, len(free) - leave_for_server))])
