"""Which CPUs make the load and which serve it, so that neither takes from the other unseen."""

from __future__ import annotations

import os
from dataclasses import dataclass

from serverdyno.plan.model import Configuration, GeneratorPlan


@dataclass(frozen=True, slots=True)
class Placement:
    """CPU numbers. The two overlap only where this process may use a single CPU, or where the plan says so."""

    generator: tuple[int, ...]
    server: tuple[int, ...]

    @property
    def shared(self) -> bool:
        """Whether generator and server take CPU time from each other."""
        return not set(self.generator).isdisjoint(self.server)


def place(generator: GeneratorPlan, configuration: Configuration | None = None) -> Placement:
    """The CPUs that the plan names; where it names none, the first ones for the generator, the rest for the server."""
    available = sorted(os.sched_getaffinity(0))
    named_by_server = configuration.cpus if configuration else ()
    chosen = tuple(generator.cpus) or _first(available, generator.threads, set(named_by_server))
    rest = tuple(cpu for cpu in available if cpu not in chosen)
    return Placement(chosen, named_by_server or rest or tuple(available))


def _first(available: list[int], threads: int, taken: set[int]) -> tuple[int, ...]:
    free = [cpu for cpu in available if cpu not in taken] or available
    leave_for_server = 0 if taken else 1
    return tuple(free[: max(1, min(threads, len(free) - leave_for_server))])
