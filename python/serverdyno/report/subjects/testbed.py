"""The testbed diagram: the load generators, the networks, and the servers. `views/diagram` draws it.

It shows only facts from the plan and the disclosure, and leaves out what is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from serverdyno import wording
from serverdyno.plan import protocols
from serverdyno.plan.model import Configuration
from serverdyno.plan.spoken import protocol_of
from serverdyno.report.model import Box, Figure, Link, Section, Testbed
from serverdyno.report.source import Source

PLAIN_VOLUMES = "Data volumes: directories of "
"""Prefix of a driver's note on files that are in a directory, not in an image."""
NETWORK_NOTE = "Network: "
"""Prefix of a driver's notes on the network of its server."""
LOOPBACK = ("127.", "localhost", "::1")
MOST_NAMES = 4
SUBNET = "subnet "
"""Prefix of subnets in the disclosure of a testbed's network."""


def section(source: Source) -> Section:
    title = "The testbed: one server at a time, in the order of the runs"
    figure = Figure("testbed", 0, title, "", "diagram", "", (), testbed=testbed(source))
    return Section("testbed", "The testbed", figures=(figure,))


def testbed(source: Source) -> Testbed:
    """Return the testbed. Configurations with the same server, network and place share a box."""
    boxes: dict[tuple[tuple[str, ...], str, str, bool], list[str]] = defaultdict(list)
    for configuration in source.head.configurations:
        described = _described(source, configuration.name)
        lines = (_software(configuration, described), *_where(source, configuration), *_volumes(described))
        spoken = protocol_of(configuration, source.head.suite).title
        boxes[lines, spoken, _network(source, configuration, described), _outside(configuration)].append(
            configuration.name
        )
    return Testbed(
        machine=_machine(source),
        generators=_subnets(source) or (Box("Generator", _generator(source)),),
        links=tuple(
            Link(f"{spoken}, {network}", Box(_names(names), lines), outside)
            for (lines, spoken, network, outside), names in boxes.items()
        ),
    )


def _described(source: Source, name: str) -> Mapping[str, Any]:
    found = source.disclosure.get("servers", {})
    return found.get(name, {}) if isinstance(found, Mapping) else {}


def _machine(source: Source) -> tuple[str, ...]:
    """Return the title and facts of the frame around the generators: this machine, or the nodes' machines."""
    if (hosts := _hosts(source)) and all(_outside(each) for each in source.head.configurations):
        return ("Machines of the nodes", _names(hosts))
    host = source.disclosure.get("host", {})
    cpu, system = host.get("cpu"), host.get("system")
    lines = ["This machine"]
    if isinstance(cpu, Mapping) and cpu.get("model"):
        count = cpu.get("logical")
        lines.append(f"{cpu['model']}" + (f", {count} logical CPUs" if count else ""))
    if memory := source.memory_bytes:
        lines.append(f"{memory / 2**30:.3g} GiB of memory")
    if isinstance(system, Mapping) and system.get("kernel"):
        lines.append(f"Linux {system['kernel']}")
    return tuple(lines)


def _generator(source: Source) -> tuple[str, ...]:
    plan = source.head.plan.generator
    most = max(level.clients for level in source.head.levels)
    if names := fleet_names(source):
        each = f"{wording.plural(plan.threads, 'thread')} each"
        return (f"a fleet: {_names(names)}", each, f"up to {wording.plural(most, 'client')} together")
    where = f"on {wording.cpu_set(plan.cpus)}" if plan.cpus else "CPUs not recorded"
    return (wording.plural(plan.threads, "thread"), where, f"up to {wording.plural(most, 'client')}")


def _subnets(source: Source) -> tuple[Box, ...]:
    """Return the disclosed subnets of a testbed in network namespaces; empty without one."""
    found = [(name, facts) for name, facts in _network_facts(source).items() if name.startswith(SUBNET)]
    return tuple(
        Box(
            name.capitalize(),
            (
                f"{wording.plural(len(facts['hosts']), 'host')}: {_names(facts['hosts'])}",
                f"links of {_rate(facts.get('link_mbit_s'))}",
                f"server's leg {facts.get('server_leg')}, {_rate(facts.get('server_link_mbit_s'))}",
            ),
        )
        for name, facts in found
        if isinstance(facts, Mapping) and isinstance(facts.get("hosts"), list)
    )


def _network_facts(source: Source) -> Mapping[str, Any]:
    fleet = source.disclosure.get("fleet")
    network = fleet.get("network") if isinstance(fleet, Mapping) else None
    return network if isinstance(network, Mapping) else {}


def _rate(mbit_s: Any) -> str:
    return f"{mbit_s:g} Mbit/s" if isinstance(mbit_s, float | int) else "no limit"


def fleet_names(source: Source) -> list[str]:
    """Return the names of the nodes that generated the load; empty if only this machine did."""
    return _of_nodes(source, "node")


def _hosts(source: Source) -> list[str]:
    """Return the host names of a fleet's nodes; empty if the nodes are network namespaces on this machine."""
    return [] if _network_facts(source) else list(dict.fromkeys(_of_nodes(source, "host")))


def _of_nodes(source: Source, fact: str) -> list[str]:
    fleet = source.disclosure.get("fleet")
    nodes = fleet.get("nodes") if isinstance(fleet, Mapping) else None
    rows = nodes if isinstance(nodes, list) else []
    return [f"{node[fact]}" for node in rows if isinstance(node, Mapping) and fact in node]


def _names(names: list[str]) -> str:
    if len(names) <= MOST_NAMES:
        return wording.listing(names)
    return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES:,} more"


def _software(configuration: Configuration, described: Mapping[str, Any]) -> str:
    return f"{described.get('version') or configuration.server}"


def _where(source: Source, configuration: Configuration) -> tuple[str, ...]:
    if configuration.url is not None:
        return ("CPUs chosen by the user",)
    if configuration.node is not None:
        nodes = "node" if len(configuration.nodes) == 1 else "nodes"
        return (f"on {nodes} {wording.listing(configuration.nodes)}",)
    if not configuration.cpus:
        return ("CPUs not recorded",)
    lines = [f"on {wording.cpu_set(configuration.cpus)}"]
    if shared := source.cpus_shared_with_generator(configuration):
        lines.append(f"shares {wording.cpu_set(shared)} with the generator")
    return tuple(lines)


def _volumes(described: Mapping[str, Any]) -> tuple[str, ...]:
    settings = described.get("settings")
    count = settings.get("volumes") if isinstance(settings, Mapping) else None
    return (wording.plural(count, "volume"),) if isinstance(count, int) else ()


def disclosed_place(source: Source, name: str) -> str:
    """Return the file system of a server's files as its driver told it; empty if it did not."""
    notes = _described(source, name).get("notes")
    told = (
        (f"{note}" for note in notes if f"{note}".startswith(PLAIN_VOLUMES))
        if isinstance(notes, list)
        else ()
    )
    return next((note.removeprefix(PLAIN_VOLUMES).removesuffix(".") for note in told), "")


def _network(source: Source, configuration: Configuration, described: Mapping[str, Any]) -> str:
    if configuration.url is not None:
        return urlsplit(configuration.url).netloc.rpartition("@")[2] or configuration.url
    if configuration.node is not None:
        return _address_of_node(source, configuration.node)
    server = _network_facts(source).get("server")
    if isinstance(server, Mapping) and server.get("address"):
        return f"{server['address']}"
    notes = described.get("notes")
    for note in notes if isinstance(notes, list) else ():
        if f"{note}".startswith(NETWORK_NOTE):
            return "a network namespace" if "namespace" in f"{note}" else "loopback"
    return "loopback"


def _address_of_node(source: Source, node: str) -> str:
    """Return the disclosed address of a server on a node."""
    fleet = source.disclosure.get("fleet")
    serving = fleet.get("serving") if isinstance(fleet, Mapping) else None
    for each in serving if isinstance(serving, list) else ():
        if isinstance(each, Mapping) and each.get("node") == node:
            return f"{each.get('address')}"
    return "network not recorded"


def _outside(configuration: Configuration) -> bool:
    """Return whether the server is on another machine or on a node of the fleet."""
    if configuration.node is not None:
        return True
    if configuration.url is None:
        return False
    parts = urlsplit(configuration.url)
    return protocols.has_host(parts.scheme) and not (parts.hostname or "").startswith(LOOPBACK)
