"""Experiments of short load levels on objects, which a test creates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from serverdyno.plan.model import GeneratorPlan, Plan, ServerPlan, Suite
from serverdyno.plan.protocols.objects import ObjectsSettings, Size
from serverdyno.run.create import create_experiment


def tiny(clients: list[int], length_s: float = 0.6, **settings: Any) -> Suite:
    """Return a suite of one short level per number of clients."""
    objects = ObjectsSettings(size=Size(fixed=2000), objects=8, **settings)
    return Suite(
        name="tiny",
        source="a test",
        workload="objects",
        clients=clients,
        length_s=length_s,
        leave_after_errors=None,
        sections={"objects": objects},
    )


def created(
    folder: Path, url: str, clients: list[int], processes: int = 1, length_s: float = 0.6, **settings: Any
) -> None:
    """Create an experiment that loads a bucket."""
    suite = tiny(clients, length_s, **settings)
    plan = Plan(
        name="tiny",
        suite="tiny",
        repetitions=1,
        generator=GeneratorPlan(processes=processes),
        servers=[ServerPlan(server="external", name="bucket", url=url)],
    )
    with create_experiment(folder, "# made by a test\n", plan, [suite]):
        pass
