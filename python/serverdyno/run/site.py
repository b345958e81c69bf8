"""The site of an experiment: this machine, or the testbed of its plan.

A fleet that a plan names is not part of the site.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from serverdyno.plan.model import GeneratorPlan, Plan
from serverdyno.run.progress import Progress


@dataclass(frozen=True, slots=True)
class Site:
    """The site of the servers and the generator. `fleet`: folder of the testbed's nodes; None without a testbed.

    `address`: address at which our servers listen; None for loopback. `network`: disclosure of the testbed's network;
    empty without a testbed.
    """

    fleet: Path | None = None
    address: str | None = None
    network: Mapping[str, Any] = field(default_factory=dict)

    def generator(self, planned: GeneratorPlan) -> GeneratorPlan:
        return (
            planned
            if self.fleet is None
            else planned.model_copy(update={"fleet": str(self.fleet), "cpus": []})
        )


HERE = Site()


@contextmanager
def site_of(plan: Plan, progress: Progress) -> Iterator[Site]:
    """Yield the plan's site for the duration of the block. Raises DynoError if a testbed can't be created."""
    if plan.testbed is None:
        yield HERE
        return
    # The modules of a testbed belong to the extra for fleets.
    from serverdyno.fleet.testbed.standing import standing  # noqa: PLC0415

    hosts = len(plan.testbed.host_names())
    progress.stage(f"creating a testbed of {hosts} hosts in network namespaces")
    with standing(plan.testbed) as made:
        yield Site(made.fleet.path, made.address, made.disclosed)
