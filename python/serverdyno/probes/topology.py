"""Which CPUs share a core or a memory node, as reported by the kernel. `fleet/placement.py` assigns CPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Topology:
    """The core and the memory node of each CPU. A CPU without information has its own core and node 0."""

    core: dict[int, str]
    node: dict[int, int]

    @classmethod
    def read(cls, cpus: Iterable[int], root: Path = CPUS) -> Topology:
        """Return the topology of these CPUs of this machine."""
        core, node = {}, {}
        for cpu in cpus:
            directory = root / f"cpu{cpu}"
            try:
                core[cpu] = (directory / "topology" / "thread_siblings_list").read_text().strip()
            except OSError:
                core[cpu] = str(cpu)
            nodes = sorted(directory.glob("node[0-9]*"))
            node[cpu] = int(nodes[0].name.removeprefix("node")) if nodes else 0
        return cls(core, node)

    def spread(self, candidates: Collection[int]) -> list[int]:
        """Return the CPUs in the order in which they are assigned to a server.

        The order is node by node, starting with the node that has the most candidates. In each node, one CPU of every
        core precedes the second CPU of any core.
        """
        nodes: dict[int, list[int]] = {}
        for cpu in sorted(candidates):
            nodes.setdefault(self.node.get(cpu, 0), []).append(cpu)
        ordered: list[int] = []
        for _, cpus in sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0])):
            turn: dict[str, int] = {}
            turns = []
            for cpu in cpus:
                core = self.core.get(cpu, str(cpu))
                turns.append((turn.setdefault(core, 0), cpu))
                turn[core] += 1
            ordered += [cpu for _, cpu in sorted(turns)]
        return ordered

    def siblings(self, cpus: Collection[int]) -> list[tuple[int, ...]]:
        """Return the CPUs that share a core, core by core."""
        cores: dict[str, list[int]] = {}
        for cpu in sorted(cpus):
            cores.setdefault(self.core.get(cpu, str(cpu)), []).append(cpu)
        return [tuple(found) for found in cores.values() if len(found) > 1]
