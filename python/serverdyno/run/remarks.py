"""Remarks about an experiment that users should read before it starts.

`plan/validate.py` finds problems that prevent it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serverdyno.plan.model import Configuration, Level, Suite
from serverdyno.run.time_left import requests_before
from serverdyno.units import format_duration_s

SLOW_S = 10
"""Shortest preparation that users are told about."""
WORKERS = "workers"
THREADS_OF_WORKERS = {"apache"}
"""Servers whose `workers` are mostly waiting threads.

Other servers have event loops, and one loop per CPU is enough.
"""


def slow_preparations(
    suites: Sequence[Suite], levels: Sequence[Level], configurations: Sequence[Configuration]
) -> Iterator[tuple[str, str]]:
    """Yield a sentence and a hint for each configuration whose rate limit causes a long preparation."""
    requests = requests_before(suites, levels)
    for configuration in configurations:
        if configuration.bounds is None:
            continue
        rate_per_s = configuration.bounds.max_rate_per_s
        if requests / rate_per_s >= SLOW_S:
            yield (
                f"{configuration.name}: the upload of the objects before the load takes at least "
                f"{format_duration_s(requests / rate_per_s)}, because its {requests:,} requests are limited to "
                f"{rate_per_s:g} requests/s",
                "Use fewer --objects or --clients, or a higher --max-rate if the server's owner agrees.",
            )


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
