"""The server of one configuration, for as long as load goes to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from serverdyno import _native
from serverdyno.fleet.consent import consent_token, open_target
from serverdyno.fleet.processes import processes
from serverdyno.fleet.task import Task
from serverdyno.plan.model import Configuration, Mix
from serverdyno.plan.spoken import protocol_of
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.running import running
from serverdyno.store.head import ExperimentHead


@contextmanager
def under_test(
    head: ExperimentHead, configuration: Configuration, mixes: Sequence[Mix]
) -> Iterator[tuple[ServerDriver, Task]]:
    """The server, proven and open to load, and the task of loading it; it is stopped whatever happens.

    Raises DynoError, with nothing left running.
    """
    suite, bounds = head.suite, configuration.bounds
    protocol = protocol_of(configuration, suite)
    with running(
        configuration.server, configuration.settings, cpus=configuration.cpus, url=configuration.url
    ) as server:
        # Consent comes before the first request, and every request goes to the address that has consented.
        access = server.access()
        target = open_target(protocol, access, suite.settings(protocol), bounds, mixes)
        server.ask(target)
        task = Task(
            suite=suite,
            target=target,
            generator=head.plan.generator,
            cpus=tuple(head.plan.generator.cpus),
            bounds=bounds,
            load_file=suite.work.load_file(suite.settings(suite.work)),
        )
        with carried(task, access.password) as task:
            yield server, task


@contextmanager
def carried(task: Task, password: str | None) -> Iterator[Task]:
    """The task with the generator processes that its plan asks for; they end with it."""
    if task.generator.processes == 1:
        yield task
        return
    token = None if task.target.loopback else consent_token()
    secrets = {"consent_token": token, "password": password}
    files = task.suite.settings(task.suite.work)
    path = getattr(files, "load_file", None)
    with processes(task.generator.processes, task.target, secrets, path) as workers:
        workspaces = _native.Workspaces(workers.workspaces)
        yield replace(task, processes=workers, workspaces=workspaces)
