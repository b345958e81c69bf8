"""Check the nodes of an experiment: every node of the fleet must join, with equal version, build and settings.

An experiment keeps the nodes with which it began, because other nodes would generate its load differently.
`cluster.py` connects to the nodes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serverdyno import _native
from serverdyno.errors import ConsentError, DynoError, UserError
from serverdyno.fleet import cluster as backend
from serverdyno.fleet import facts
from serverdyno.fleet.cluster import FACTS_S, Cluster, DaskNode
from serverdyno.fleet.contract import FleetError, ask_each, openings
from serverdyno.fleet.fleet import Fleet, placed
from serverdyno.fleet.folder import FleetFolder
from serverdyno.fleet.lease import LEASE_S
from serverdyno.fleet.node_team import ServerNode
from serverdyno.fleet.processes import WORKSPACES_BITS
from serverdyno.plan.model import GeneratorPlan
from serverdyno.probes.host import MOMENTARY

PATIENCE_S = 20.0
"""Time for nodes to join and to report their facts. A restarted node joins within seconds."""
CHECK_FREE_S = 0.5
"""Time between two checks whether the nodes are free."""
SETTINGS = ("sysctls", "limits")
"""Facts of the machine that affect the load of a node."""


def all_nodes(cluster: Cluster, wanted: Sequence[str], patience_s: float | None = None) -> list[DaskNode]:
    """Return these nodes after checking their version, build and settings. Raises DynoError with all differences."""
    there = backend.wait_for(cluster, wanted, PATIENCE_S if patience_s is None else patience_s)
    if missing := [name for name in wanted if name not in there]:
        raise FleetError(
            f"{', '.join(missing)} of the {len(cluster.folder.nodes)} nodes of the fleet "
            f"{cluster.folder.name} have not joined",
            hint="Start each missing node on its machine: dyno node FOLDER. To see which nodes have joined: "
            "dyno fleet status "
            f"{cluster.folder.path}. To continue an experiment: dyno resume.",
        )
    told = free_again(cluster, there)
    if silent := [name for name, one in told.items() if one is None]:
        raise FleetError(f"nodes of the fleet {cluster.folder.name} that did not answer: {', '.join(silent)}")
    known = {name: one for name, one in told.items() if one is not None}
    if problems := [*differences(known)]:
        raise UserError(
            "\n".join(problems), hint="All nodes of a fleet need the same version and the same settings."
        )
    return [DaskNode(cluster, name, there[name], known[name]) for name in wanted]


def free_again(cluster: Cluster, there: dict[str, str]) -> dict[str, dict[str, Any] | None]:
    """Return the nodes' facts, after a short wait for nodes whose last controller was killed."""
    until = time.monotonic() + 2 * LEASE_S
    while True:
        told = cluster.facts(there, max(PATIENCE_S, FACTS_S))
        if time.monotonic() >= until or not any(one is not None and one["in_use"] for one in told.values()):
            return told
        time.sleep(CHECK_FREE_S)


def differences(told: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the reasons that exclude nodes: another version or build, or settings that differ from the first node's."""
    here = facts.build()
    first_name, first = next(iter(told.items()))
    for name, one in told.items():
        if one["build"]["version"] != here["version"]:
            yield f"node {name} has version {one['build']['version']}, this machine has {here['version']}"
        elif other := [part for part in here if one["build"].get(part) != here[part]]:
            yield f"node {name} has a different build of version {here['version']}: {', '.join(other)} differ"
        for group in SETTINGS:
            ours, theirs = first["machine"][group], one["machine"][group]
            for key in sorted(ours.keys() | theirs.keys()):
                if key != "open_files_soft" and ours.get(key) != theirs.get(key):
                    yield (
                        f"{key} is {theirs.get(key)} on node {name}, but {ours.get(key)} on node {first_name}"
                    )
        if one["in_use"]:
            yield f"node {name} is in use by another controller"


def disclosed(folder: FleetFolder, nodes: list[DaskNode]) -> dict[str, Any]:
    """Return the facts of a fleet that an experiment records, without secrets and facts that change from run to run."""
    return {
        "fleet": folder.name,
        "nodes": [disclosed_node(node) for node in nodes],
    }


def disclosed_node(node: DaskNode) -> dict[str, Any]:
    return {
        "node": node.short_name,
        "host": node.facts["host"],
        "cpus": node.facts["cpus"],
        "links": node.facts["links"],
        "build": node.facts["build"],
        "machine": _lasting(node.facts["machine"]),
    }


def _lasting(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that do not change from moment to moment."""
    return {
        group: {name: fact for name, fact in facts.items() if f"{group}.{name}" not in MOMENTARY}
        if isinstance(facts, Mapping)
        else facts
        for group, facts in machine.items()
        if group not in MOMENTARY
    }


@contextmanager
def fleet_at(  # noqa: PLR0913 (what a load needs)
    path: Path,
    generator: GeneratorPlan,
    target: _native.Target,
    secret: dict[str, str | None],
    apart: Collection[str] = (),
    *,
    load_file: str | None = None,
) -> Iterator[Fleet]:
    """Yield the fleet in a folder. Each of its nodes has opened the target.

    `generator` gives the threads and weights of the nodes. `apart` names nodes that run servers and generate no load.
    `load_file` is packed. Raises DynoError.
    """
    folder = FleetFolder.open(path)
    with backend.connected(folder) as cluster:
        nodes = all_nodes(cluster, load_nodes(folder, apart))
        try:
            check_reach(target, nodes)
            workspaces = secrets.randbits(WORKSPACES_BITS)
            _open(nodes, target, openings(len(nodes), target, secret, workspaces, load_file))
            places = placed(nodes, weights(nodes, generator.weights), _cpus(nodes, generator.threads))
            yield Fleet(places, workspaces, disclosed(folder, nodes))
        finally:
            for node in nodes:
                node.end()


def load_nodes(folder: FleetFolder, apart: Collection[str]) -> list[str]:
    """Return the names of the nodes that generate load.

    Raises UserError if servers are on unknown nodes, or on all nodes.
    """
    check_known(folder, apart)
    if not (names := [name for name in folder.nodes if name not in apart]):
        raise UserError(
            f"every node of the fleet {folder.name} runs a server, so none is left to generate the load"
        )
    return names


def check_known(folder: FleetFolder, serving: Collection[str]) -> None:
    """Raise UserError if servers are on nodes that the fleet does not have."""
    if strangers := sorted(set(serving) - set(folder.nodes)):
        raise UserError(
            f"the plan has servers on {', '.join(strangers)}, which the fleet {folder.name} does not have",
            hint=f"Its nodes: {', '.join(folder.nodes)}.",
        )


@contextmanager
def server_nodes(path: Path, names: Sequence[str]) -> Iterator[dict[str, ServerNode]]:
    """Yield a fleet's nodes for servers, by name. Raises DynoError."""
    folder = FleetFolder.open(path)
    check_known(folder, names)
    with backend.connected(folder) as cluster:
        nodes = all_nodes(cluster, names)
        try:
            yield {node.short_name: ServerNode(node, node.host, disclosed_node(node)) for node in nodes}
        finally:
            for node in nodes:
                node.end()


def check_reach(target: _native.Target, nodes: list[DaskNode]) -> None:
    """Raise UserError if a target on loopback would be another machine or network namespace for a node."""
    here = facts.place()
    far = [
        node.short_name
        for node in nodes
        if any(node.facts["place"][part] != here[part] for part in ("boot", "network"))
    ]
    if target.loopback and far:
        raise UserError(
            f"{target.url} is a loopback address, so {', '.join(far)} would load a different machine or network",
            hint="Use the server's address in the nodes' network.",
        )


def _open(nodes: list[DaskNode], target: _native.Target, wanted: list[dict[str, Any]]) -> None:
    """Let each node check by itself that the target consents to load.

    Raises one error that contains the errors of all nodes.
    """
    _, problems = ask_each(nodes, "open", wanted)
    if not problems:
        return
    text = "\n".join(f"{node.name} can't open {target.url}: {error}" for node, error in problems)
    if any(isinstance(error, PermissionError) for _, error in problems):
        raise ConsentError(
            text, hint="Each node asks for consent itself, at the address that it resolves from the name."
        )
    raise DynoError(text, hint="Check that the node can reach the server.")


def weights(nodes: Sequence[DaskNode], stated: Mapping[str, int]) -> list[int]:
    """Return each node's weight: the one in the plan, or the node's number of CPUs.

    Raises UserError if the plan lacks a node.
    """
    names = [node.short_name for node in nodes]
    if not stated:
        return [len(node.facts["cpus"]) for node in nodes]
    if sorted(stated) != sorted(names):
        raise UserError(
            f"generator.weights names {', '.join(sorted(stated))}, but {', '.join(sorted(names))} generate the "
            "load",
            hint="Give a weight to each of these nodes, or to none.",
        )
    return [stated[name] for name in names]


def _cpus(nodes: list[DaskNode], threads: int) -> list[tuple[int, ...]]:
    """Return each node's CPUs: the first ones if it is the only node on its machine; otherwise none (not pinned)."""
    boots = [node.facts["place"]["boot"] for node in nodes]
    chosen = []
    for node, boot in zip(nodes, boots, strict=True):
        own = tuple(node.facts["cpus"][:threads])
        if len(own) < threads:
            raise UserError(
                f"{node.name} has only {len(own)} CPUs for the {threads} threads of its generator"
            )
        chosen.append(own if boots.count(boot) == 1 and not node.on_this_machine else ())
    return chosen
