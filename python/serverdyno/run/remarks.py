"""What a user should know of an experiment before it takes time, and that keeps nobody from running it.

Not for problems of a plan, which refuse it: see `plan/validate.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serverdyno.plan.model import Configuration

WORKERS = "workers"
THREADS_OF_WORKERS = {"apache"}
"""Servers whose `workers` are threads that wait for clients, and not one event loop for each CPU."""


def remarks(configurations: Sequence[Configuration]) -> Iterator[str]:
    """Yield a sentence for each configuration whose worker processes outnumber the CPUs that it may use."""
    for configuration in configurations:
        workers = configuration.settings.get(WORKERS)
        if configuration.server in THREADS_OF_WORKERS or not isinstance(workers, int):
            continue
        if configuration.cpus and workers > len(configuration.cpus):
            cpus = ", ".join(map(str, configuration.cpus))
            many = "CPU" if len(configuration.cpus) == 1 else "CPUs"
            yield (
                f"{configuration.name}: {workers} workers share {len(configuration.cpus)} {many} ({cpus}), so more "
                "workers can't make it faster; the generator has the other CPUs"
            )
