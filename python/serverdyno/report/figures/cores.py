"""On which cores and NUMA nodes the CPUs of a server lie, by the disclosure of the machine.

Not for: which CPUs a server gets (`fleet/placement.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from serverdyno.plan.model import Configuration
from serverdyno.report.source import Source


@dataclass(frozen=True, slots=True)
class Cores:
    """`count`: cores with at least one of the CPUs. `hyperthreads`: CPUs that share a core, a tuple for each core.
    `nodes`: NUMA nodes. None: not disclosed, as by versions before this one.
    """

    count: int | None
    hyperthreads: tuple[tuple[int, ...], ...]
    nodes: tuple[int, ...] | None


UNKNOWN = Cores(None, (), None)
Cpus = Annotated[str, Field(pattern=r"^(\d{1,9}(-\d{1,9})?(,|$))*$")]
"""A list as the kernel writes it: `0-3,8`."""


class _Disclosed(BaseModel):
    """What a folder says of the machine's CPUs, which need not be ours."""

    thread_siblings: list[Cpus] = []
    numa_node_cpus: dict[int, Cpus | None] = {}


def cores_of(source: Source, configuration: Configuration) -> Cores:
    """Return where the CPUs of a configuration lie; of a server on a node of a fleet that is not known."""
    if configuration.node is not None or not configuration.cpus:
        return UNKNOWN
    try:
        disclosed = _Disclosed.model_validate(source.disclosure.get("host", {}).get("cpu", {}))
    except ValidationError:
        return UNKNOWN
    cores = [_among(configuration.cpus, listed) for listed in disclosed.thread_siblings]
    nodes = [node for node, listed in disclosed.numa_node_cpus.items() if _among(configuration.cpus, listed)]
    return Cores(
        sum(1 for shared in cores if shared) or None,
        tuple(shared for shared in cores if len(shared) > 1),
        tuple(sorted(nodes)) or None,
    )


def _among(cpus: Iterable[int], listed: Cpus | None) -> tuple[int, ...]:
    """Return those of the CPUs that a list has."""
    ranges = [part.partition("-") for part in (listed or "").split(",") if part]
    return tuple(
        sorted(
            cpu for cpu in cpus if any(int(first) <= cpu <= int(last or first) for first, _, last in ranges)
        )
    )
