"""The status of a fleet for `dyno fleet status`. `membership.py` decides which nodes may take part in an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from serverdyno.fleet import certificates, clock
from serverdyno.fleet import cluster as backend
from serverdyno.fleet.cluster import DaskNode
from serverdyno.fleet.folder import CONTROLLER, FleetFolder
from serverdyno.fleet.membership import differences


def status_of(path: Path) -> dict[str, Any]:
    """Return a row per node, the reasons that exclude nodes, and the count of refused connections. Raises DynoError."""
    folder = FleetFolder.open(path)
    with backend.connected(folder) as cluster:
        there = cluster.members()
        told = {name: one for name, one in cluster.facts(there).items() if one is not None}
        rows = []
        for name in folder.nodes:
            if name not in told:
                rows.append({"node": name, "there": False})
                continue
            facts = told[name]
            node = DaskNode(cluster, name, there[name], facts)
            try:
                error_s = None if facts["in_use"] else clock.measured(node).error_s
            finally:
                node.end()
            rows.append(
                {
                    "node": name,
                    "there": True,
                    "clock_error_s": error_s,
                    "version": facts["build"]["version"],
                    **{
                        key: facts[key]
                        for key in ("host", "cpus", "links", "memory_available_bytes", "in_use")
                    },
                }
            )
        ours = {name: told[name] for name in folder.nodes if name in told}
        problems = [*differences(ours)] if ours else []
        return {
            "at": folder.at,
            "nodes": rows,
            "problems": [problem for problem in problems if "in use" not in problem],
            "refused_connections": cluster.refused_connections()
            + sum(one["refused_connections"] for one in told.values()),
            "certificates_end": certificates.ends(path / CONTROLLER),
        }
