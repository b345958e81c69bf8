"""Where an experiment takes place: on this machine as it is, or on the testbed of its plan. Not for: nodes that a plan
names by their fleet, which are elsewhere in any case.
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
    """`fleet`: the folder of the testbed's nodes; None: those of the plan, if any. `address`: where servers of ours
    listen; None: on loopback. `network`: what is disclosed of that of the testbed; empty: there is none.
    """

    fleet: Path | None = None
    address: str | None = None
    network: Mapping[str, Any] = field(default_factory=dict)

    def generator(self, planned: GeneratorPlan) -> GeneratorPlan:
        """Return where the load is made."""
        return (
            planned
            if self.fleet is None
            else planned.model_copy(update={"fleet": str(self.fleet), "cpus": []})
        )


HERE = Site()


@contextmanager
def site_of(plan: Plan, progress: Progress) -> Iterator[Site]:
    """The site of a plan, for as long as the block lasts. Raises DynoError where a testbed can't be made."""
    if plan.testbed is None:
        yield HERE
        return
    # Its modules are of the extra for fleets.
    from serverdyno.fleet.testbed.standing import standing  # noqa: PLC0415

    hosts = len(plan.testbed.host_names())
    progress.stage(f"making a testbed of {hosts} hosts in network namespaces")
    with standing(plan.testbed) as made:
        yield Site(made.fleet.path, made.address, made.disclosed)
