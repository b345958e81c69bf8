"""The head of an experiment, `experiment.json`: what is run, in which order, by which version of the tool.

Written once, before the first run. It is all that `resume` needs; `plan.toml` beside it is the user's text.
"""

from __future__ import annotations

import re
from typing import Self

from pydantic import AwareDatetime, Field, model_validator

from serverdyno.plan.model import Configuration, Mix, Plan, RunKey, Suite
from serverdyno.protocols.model import Model

FORMAT_VERSION = 3

_FOLDER_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


class ExperimentHead(Model):
    """An experiment as decided. `scale`, `seed` and `suite` are those in force, whatever the plan says."""

    format_version: int = FORMAT_VERSION
    tool_version: str
    created: AwareDatetime
    seed: int
    scale: float = Field(gt=0, le=1)
    plan: Plan
    suite: Suite
    configurations: list[Configuration] = Field(min_length=1)
    mixes: list[Mix] = Field(min_length=1)
    order: list[RunKey] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Names become folders, and experiments come from strangers: no name may lead out of the folder."""
        names = [configuration.name for configuration in self.configurations]
        if bad := [name for name in names if not _FOLDER_NAME.fullmatch(name)]:
            raise ValueError(f"not a configuration name: {bad[0]!r}")
        if strange := {key.configuration for key in self.order} - set(names):
            raise ValueError(f"runs of an unknown configuration: {', '.join(sorted(strange))}")
        if len({key.number for key in self.order}) < len(self.order):
            raise ValueError("two runs with the same number")
        return self
