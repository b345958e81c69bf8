"""Records the disclosure of the machine and of each server, and refuses a resume if one of them has changed.

Runs on two machines, or with two versions of the server or of this program, are not repetitions of each other.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from serverdyno.errors import ServerError, UserError
from serverdyno.fleet.preflight import Preflight
from serverdyno.probes import noise_floor
from serverdyno.probes.host import MOMENTARY, host_facts
from serverdyno.servers.base import RunningServer
from serverdyno.servers.documents import document_root
from serverdyno.servers.registry import driver_type
from serverdyno.store.experiment import Experiment

VOLATILE = MOMENTARY | {
    "noise_floor",
    "software.commit",
    "software.data_plane_sha256",
    "software.documents_digest",
}
UNKNOWN_VERSION = "unknown"
HINT = (
    "Undo the change, or begin a new experiment: runs before and after the change can't be combined as "
    "repetitions."
)


def disclose_host(experiment: Experiment) -> None:
    """Record the facts about this machine. Raises UserError if an earlier part ran on another machine."""
    named = {configuration.server for configuration in experiment.configurations}
    from_disk = any(driver_type(name).settings_type.needs_documents for name in named)
    floor = noise_floor.load()
    facts = host_facts(document_root() if from_disk else None)
    facts["noise_floor"] = None if floor is None else floor.disclosed()
    facts = json.loads(json.dumps(facts))
    before = experiment.disclosure().get("host")
    if before is None:
        experiment.write_host(facts)
    elif changes := list(_changes(before, facts)):
        told = "\n".join(f"  {change}" for change in changes)
        raise UserError(f"this machine has changed since the experiment began:\n{told}", hint=HINT)


def disclose_fleet(experiment: Experiment, facts: Mapping[str, Any], network: Mapping[str, Any]) -> None:
    """Record the nodes, and their network in a testbed. Raises UserError if an earlier part had other nodes.

    Each run adds the node on which its server runs.
    """
    facts = json.loads(json.dumps({**facts, "network": network} if network else facts))
    before = experiment.disclosure().get("fleet")
    if before is None:
        experiment.write_fleet(facts)
        return
    was, now = (_by_name(each["nodes"]) for each in (before, facts))
    served, serving = (_by_name(each.get("serving", [])) for each in (before, facts))
    changes = [
        *_changes(before.get("network", {}), facts.get("network", {}), "network: "),
        *(f"node {name} is missing" for name in sorted(was.keys() - now.keys())),
        *(f"node {name} is new" for name in sorted(now.keys() - was.keys())),
        *(
            change
            for name in sorted(was.keys() & now.keys())
            for change in _changes(was[name], now[name], f"node {name}: ")
        ),
        *(
            change
            for name in sorted(served.keys() & serving.keys())
            for change in _changes(served[name], serving[name], f"node {name}: ")
        ),
    ]
    if changes:
        told = "\n".join(f"  {change}" for change in changes)
        raise UserError(f"the fleet has changed since the experiment began:\n{told}", hint=HINT)
    if serving.keys() - served.keys():
        experiment.write_fleet({**before, "serving": [*{**served, **serving}.values()]})


def _by_name(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {node["node"]: node for node in nodes}


def disclose_server(
    experiment: Experiment, configuration: str, server: RunningServer, seen: Preflight | None = None
) -> None:
    """Record the facts about a server.

    Raises ServerError if an earlier run of the configuration had another server. `seen`: the result of the check before
    load. The name that the server gives itself is recorded as its version if the version is not known otherwise.
    """
    described = dataclasses.asdict(server.describe())
    if seen is not None:
        described["notes"] = [*described["notes"], *seen.notes]
        if seen.server is not None and described["version"] == UNKNOWN_VERSION:
            described["version"] = seen.server
    before = experiment.disclosure()["servers"].get(configuration)
    if before is None:
        experiment.write_description(configuration, described)
    elif (before["version"], before["settings"]) != (described["version"], described["settings"]):
        raise ServerError(
            f"{configuration} has changed since the experiment began: it was {before['version']} with "
            f"{before['settings']}, and is now {described['version']} with {described['settings']}",
            hint=HINT,
        )


def _changes(before: Mapping[str, object], now: Mapping[str, object], group: str = "") -> Iterator[str]:
    """Yield `system.kernel was 6.1, is now 6.2` for every lasting fact that differs."""
    for key in sorted(before.keys() | now.keys()):
        name, was, is_now = f"{group}{key}", before.get(key), now.get(key)
        if isinstance(was, dict) and isinstance(is_now, dict):
            yield from _changes(was, is_now, f"{name}.")
        elif was != is_now and name not in VOLATILE and group != "noise_floor.":
            yield f"{name} was {was}, is now {is_now}"
