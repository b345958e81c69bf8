"""The server of one configuration, from its start to its stop."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from serverdyno import _native
from serverdyno.fleet.consent import bounds_of_ours, open_target, token_for
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.node_team import NodeTeam, team_on
from serverdyno.fleet.processes import processes
from serverdyno.fleet.serving import NodeServer, served_by
from serverdyno.plan.model import Configuration, Level
from serverdyno.plan.protocols.access import Access
from serverdyno.plan.protocols.look import look_s
from serverdyno.plan.spoken import protocol_of
from serverdyno.plan.validate import is_loopback
from serverdyno.run.site import HERE, Site
from serverdyno.servers import waiting
from serverdyno.servers.base import RunningServer
from serverdyno.servers.running import running
from serverdyno.store.head import ExperimentHead

NODE_LOOK_S = 1.0
"""Time between two checks that a node's server runs. Each check costs the node about 1 ms of CPU time."""


@contextmanager
def under_test(
    head: ExperimentHead, configuration: Configuration, levels: Sequence[Level], site: Site = HERE
) -> Iterator[tuple[RunningServer, LoadSetup]]:
    """Yield the verified server and the setup for the load of the levels' suite; always stop the server.

    Raises DynoError, with nothing left running.
    """
    with (
        served(head, configuration, site) as server,
        opened(head, configuration, server, levels, site) as setup,
    ):
        yield server, setup


@contextmanager
def opened(
    head: ExperimentHead,
    configuration: Configuration,
    server: RunningServer,
    levels: Sequence[Level],
    site: Site = HERE,
) -> Iterator[LoadSetup]:
    """Yield the setup for one suite's load on a running server. `levels`: the suite's levels. Raises DynoError."""
    suite = head.suite_of(levels[0])
    protocol = protocol_of(configuration, suite)
    # The server consents before the first request, and every request goes to the address that consented.
    access = protocol.with_secrets(server.access(), suite.settings(protocol))
    is_ours_elsewhere = access.consent_token is not None and not is_loopback(access.url)
    bounds = bounds_of_ours(levels) if is_ours_elsewhere else configuration.bounds
    target = open_target(
        protocol, access, suite.settings(protocol), bounds, levels, timeout_s=look_s(suite.timeout_s)
    )
    server.ask(target)
    setup = LoadSetup(
        suite=suite,
        target=target,
        generator=site.generator(head.plan.generator),
        cpus=tuple(head.plan.generator.cpus),
        bounds=bounds,
        load_file=suite.work.load_file(suite.settings(suite.work)),
    )
    apart = {node for each in head.configurations for node in each.nodes}
    with carried(setup, access, apart) as setup:
        if setup.fleet is not None and isinstance(server, NodeServer | NodeTeam):
            setup.fleet.serve_from(server.places)
        yield setup


@contextmanager
def served(head: ExperimentHead, configuration: Configuration, site: Site) -> Iterator[RunningServer]:
    """Yield the server of a configuration, on this machine or on the plan's nodes."""
    if configuration.node is None:
        with running(
            configuration.server,
            configuration.settings,
            cpus=configuration.cpus,
            url=configuration.url,
            address=site.address,
        ) as server:
            yield server
        return
    from serverdyno.fleet.membership import server_nodes  # noqa: PLC0415 (of the extra)

    fleet = head.plan.generator.fleet
    assert fleet is not None, "the plan's check ensures this"
    with server_nodes(Path(fleet), configuration.nodes) as nodes:
        front = nodes[configuration.node]
        address = configuration.address or front.address
        if configuration.back_nodes:
            from serverdyno.servers.team import TeamSettings  # noqa: PLC0415 (it imports every web server)

            placed = {**nodes, configuration.node: replace(front, address=address)}
            settings = TeamSettings.model_validate(configuration.settings)
            with team_on(configuration, placed, settings) as team, _watched(team):
                yield team
            return
        with served_by(front.node, configuration, address, front.machine) as alone, _watched(alone):
            yield alone


def _watched(server: NodeServer | NodeTeam) -> AbstractContextManager[None]:
    """Return a context in which every wait ends if the server ends or its node is lost."""
    return waiting.ended_by(waiting.every(NODE_LOOK_S, server.check))


@contextmanager
def carried(setup: LoadSetup, access: Access, apart: Collection[str] = ()) -> Iterator[LoadSetup]:
    """Yield the setup with the fleet or generator processes of its plan, which end with the block.

    `apart`: nodes of the fleet that run servers, not load.
    """
    if setup.generator.processes == 1 and setup.generator.fleet is None:
        yield setup
        return
    token = token_for(access, loopback=setup.target.loopback)
    secrets: dict[str, Any] = {
        "consent_token": token,
        "password": access.password,
        "ticket": access.ticket,
        "identity": access.identity and list(access.identity),
        "access_key": access.access_key and list(access.access_key),
    }
    work = setup.suite.work
    load_file = work.packed_load_file(setup.suite.settings(work))
    if setup.generator.fleet is not None:
        # The modules of a fleet belong to an extra, which load from one machine does not need.
        from serverdyno.fleet.membership import fleet_at  # noqa: PLC0415

        folder = Path(setup.generator.fleet)
        made = fleet_at(folder, setup.generator, setup.target, secrets, apart, load_file=load_file)
    else:
        made = processes(setup.generator.processes, setup.target, secrets, load_file, setup.cpus)
    with made as fleet:
        yield replace(setup, fleet=fleet, workspaces=_native.Workspaces(fleet.workspaces))
