"""The model of open load: operations that arrive at a given rate. The data plane decides when each one arrives."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from serverdyno.plan.objective import parse_objective
from serverdyno.plan.protocols.model import Model
from serverdyno.plan.protocols.options import Option

Law = Literal["poisson", "uniform"]
MAX_RATE_PER_S = 10_000_000


class OpenLoad(Model):
    """Operations that arrive at a given rate, even if earlier operations have no answer yet.

    The suite's `clients` is then a single number of connections, each with the suite's threads.
    """

    rate_per_s: Annotated[
        list[Annotated[int, Field(ge=1, le=MAX_RATE_PER_S)]],
        Option(("--rate",), listed=True, ranges="doubling"),
    ] = Field(
        default=[],
        description="Growing numbers of operations per second, sent on schedule even if answers are late, "
        "with one load level per number. With an objective: the lowest and the highest rate to "
        "try.",
    )
    percent_of_peak: list[Annotated[int, Field(ge=1, le=200)]] = Field(
        default=[],
        description="Instead of `rate_per_s`: growing percentages of the lowest peak of all configurations. "
        "Before the runs, a closed load of `length_s` measures each peak.",
    )
    objective: Annotated[str | None, Option()] = Field(
        default=None,
        description="Search for the highest rate that meets this objective: p99<50ms, or p99<50ms,failed<0.1%.",
    )
    precision_percent: float = Field(
        default=10.0,
        ge=1,
        le=100,
        description="Required precision: the search ends when the 95 % interval of the capacity is at most "
        "+- this percentage.",
    )
    most_trials: Annotated[int, Option(("--trials",))] = Field(
        default=30,
        ge=5,
        le=500,
        description="Maximum number of trials per search; each takes the length of a load level.",
    )
    law: Annotated[Law, Option(("--arrivals",))] = Field(
        default="poisson",
        description="Spacing of operations with a rate. poisson: random, like requests of independent "
        "users. uniform: at even intervals.",
    )
    queue: int = Field(
        default=1_000_000,
        ge=0,
        le=100_000_000,
        description="Maximum number of operations waiting for a connection. Further operations are "
        "dropped and counted.",
    )

    @model_validator(mode="after")
    def _has_rates(self) -> Self:
        if bool(self.rate_per_s) == bool(self.percent_of_peak):
            raise ValueError("needs either rate_per_s or percent_of_peak")
        return self

    @field_validator("objective")
    @classmethod
    def _can_be_read(cls, text: str | None) -> str | None:
        if text is not None:
            parse_objective(text)
        return text
