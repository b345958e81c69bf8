"""Remarks about an experiment that users should read before it starts, but that do not prevent it.

`plan/validate.py` finds the problems that do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serverdyno.plan.model import Configuration

WORKERS = "workers"
THREADS_OF_WORKERS = {"apache"}
"""Servers whose `workers` are threads that mostly wait, not event loops, of which one per CPU is enough."""


def remarks(configurations: Sequence[Configuration]) -> Iterator[str]:
    """Yield a sentence for each configuration with more worker processes than CPUs."""
    for configuration in configurations:
        workers = configuration.settings.get(WORKERS)
        if configuration.server in THREADS_OF_WORKERS or not isinstance(workers, int):
            continue
        if configuration.cpus and workers > len(configuration.cpus):
            cpus = ", ".join(map(str, configuration.cpus))
            many = "CPU" if len(configuration.cpus) == 1 else "CPUs"
            yield (
                f"{configuration.name}: {workers} workers share {len(configuration.cpus)} {many} ({cpus}), "
                "so more workers can't make the server faster. The generator has the other CPUs"
            )
