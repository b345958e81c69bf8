"""The server of one configuration, for as long as load goes to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from serverdyno.fleet import local
from serverdyno.fleet.consent import open_target
from serverdyno.plan.model import Configuration, Mix
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.running import running
from serverdyno.store.head import ExperimentHead


@contextmanager
def under_test(
    head: ExperimentHead, configuration: Configuration, mixes: Sequence[Mix]
) -> Iterator[tuple[ServerDriver, local.Task]]:
    """The server, proven and open to load, and the task of loading it; it is stopped whatever happens.

    Raises DynoError, with nothing left running.
    """
    if configuration.url is not None:
        # Consent comes before the first request, and the readiness check is one.
        open_target(configuration.url, configuration.bounds, mixes)
    with running(
        configuration.server, configuration.settings, cpus=configuration.cpus, url=configuration.url
    ) as server:
        target = open_target(server.url, configuration.bounds, mixes)
        generator = head.plan.generator
        yield (
            server,
            local.Task(head.suite, target, generator, tuple(generator.cpus), configuration.bounds),
        )
