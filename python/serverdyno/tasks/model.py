"""The model of a plan of tasks. Reading and checking is `load.py`."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field, model_validator

from serverdyno.plan.model import Name, Order, ServerPlan, titled
from serverdyno.plan.protocols.model import Model
from serverdyno.tasks.bonnie import Bonnie

MOST_TASKS = 20


class TaskPlan(Model):
    """Tasks x configurations x repetitions. A plan has `tasks` where others have a `suite`."""

    name: Name = Field(description="Name of the plan and of the experiment's folder.")
    title: str = Field(default="", description="Title of the report. Default: the name.")
    tasks: list[str] = Field(
        min_length=1,
        max_length=MOST_TASKS,
        description="What is done in each run, in order: `bonnie`, a name that `dyno scenario` lists, or the path of a "
        "scenario file, relative to the plan's folder and ending with `.toml`.",
    )
    bonnie: Bonnie = Field(default_factory=Bonnie, description="The parameters of Bonnie.")
    scale: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="So many times Bonnie's file, the files of scenarios, and the bytes of their single files. Every "
        "figure shows the scale.",
    )
    repetitions: int = Field(
        default=3, ge=1, le=1000, description="How often each configuration is measured."
    )
    order: Order = Field(
        default="interleaved",
        description="interleaved: A B, B A, ...; sequential: A A, B B; random: each round shuffled.",
    )
    seed: int = Field(
        default=1,
        ge=0,
        lt=2**32,
        description="Seed of contents, of the places of seeks and of a random order.",
    )
    minimum_effect_percent: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="The least difference that would matter; verdicts are about it.",
    )
    drop_caches: bool = Field(
        default=False,
        description="Drop this machine's page cache before each step of a scenario (needs root). The server's files "
        "are in it, too, where the server runs here.",
    )
    published: Name | None = Field(
        default=None, description="A published report whose tables stand next to these results."
    )
    servers: list[ServerPlan] = Field(min_length=1, description="What is measured.")

    @model_validator(mode="before")
    @classmethod
    def _has_a_title(cls, data: Any) -> Any:
        return titled(data) if isinstance(data, dict) else data

    @property
    def scaled_bonnie(self) -> Bonnie:
        """Bonnie with a file of so many times the size, of 1 MB at least; it seeks as often."""
        size_mib = max(1, math.ceil(self.bonnie.size_mib * self.scale))
        return self.bonnie.model_copy(update={"size_mib": size_mib})
