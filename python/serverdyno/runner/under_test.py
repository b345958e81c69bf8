"""The server of one configuration, for as long as load goes to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from serverdyno import _native
from serverdyno.fleet.consent import consent_token, open_target
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.processes import processes
from serverdyno.plan.model import Configuration, Mix
from serverdyno.plan.spoken import protocol_of
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.running import running
from serverdyno.store.head import ExperimentHead


@contextmanager
def under_test(
    head: ExperimentHead, configuration: Configuration, mixes: Sequence[Mix]
) -> Iterator[tuple[ServerDriver, LoadSetup]]:
    """The server, proven and open to load, and what load on it needs; it is stopped whatever happens.

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
        setup = LoadSetup(
            suite=suite,
            target=target,
            generator=head.plan.generator,
            cpus=tuple(head.plan.generator.cpus),
            bounds=bounds,
            load_file=suite.work.load_file(suite.settings(suite.work)),
        )
        with carried(setup, access.password) as setup:
            yield server, setup


@contextmanager
def carried(setup: LoadSetup, password: str | None) -> Iterator[LoadSetup]:
    """The setup, with the fleet or the generator processes that its plan asks for; they end with it."""
    if setup.generator.processes == 1 and setup.generator.fleet is None:
        yield setup
        return
    token = None if setup.target.loopback else consent_token()
    secrets = {"consent_token": token, "password": password}
    files = setup.suite.settings(setup.suite.work)
    path = getattr(files, "load_file", None)
    if setup.generator.fleet is not None:
        # Its modules are of an extra, and no load of this machine alone needs them.
        from serverdyno.fleet.membership import fleet_at  # noqa: PLC0415

        made = fleet_at(Path(setup.generator.fleet), setup.generator.threads, setup.target, secrets, path)
    else:
        made = processes(setup.generator.processes, setup.target, secrets, path, setup.cpus)
    with made as fleet:
        yield replace(setup, fleet=fleet, workspaces=_native.Workspaces(fleet.workspaces))
