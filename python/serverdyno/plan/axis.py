"""What grows from mix to mix of a suite, and how it is called in records, tables and charts.

Clients of a closed load, the offered rate of an open one. Not for: how a suite's mixes are made, see `expand.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args

from serverdyno import wording

AxisName = Literal["clients", "rate"]


class Loaded(Protocol):
    """A mix, planned or recorded, as far as an axis is concerned."""

    @property
    def clients(self) -> int:
        """How many clients it has."""

    @property
    def rate_per_s(self) -> int | None:
        """At which rate operations come; None: as clients get their answers."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`noun`, `nouns`: one of what grows, and more; `mix_suffix`: of a mix's name; `column`: its name as a column;
    `title`: as the label of a chart's axis; `heading`: of a column for people, with its unit.
    """

    name: AxisName
    noun: str
    nouns: str
    mix_suffix: str
    column: str
    title: str
    heading: tuple[str, str]
    level: Callable[[Loaded], int]

    def mix_name(self, level: int) -> str:
        """`8_client`: the name of a mix in records."""
        return f"{level}_{self.mix_suffix}"

    def words(self, level: int) -> str:
        """`8 clients`, `1,000 requests/s offered`: a level in a sentence."""
        return wording.plural(level, self.noun, self.nouns)


CLIENTS = Axis(
    "clients", "client", "clients", "client", "clients", "Clients", ("Clients", ""), lambda mix: mix.clients
)
RATE = Axis(
    "rate",
    "request/s offered",
    "requests/s offered",
    "per_s",
    "rate_per_s",
    "Offered rate, requests/s",
    ("Offered rate", "requests/s"),
    lambda mix: mix.rate_per_s or 0,
)
_AXES: dict[AxisName, Axis] = {axis.name: axis for axis in (CLIENTS, RATE)}
assert set(_AXES) == set(get_args(AxisName))


def axis_of(name: AxisName, operation: str = "request") -> Axis:
    """Return the axis called `name`. `operation`: what comes at a rate."""
    axis = _AXES[name]
    if axis is not RATE or operation == "request":
        return axis
    unit = f"{operation}s/s"
    return replace(
        axis,
        noun=f"{operation}/s offered",
        nouns=f"{unit} offered",
        title=f"Offered rate, {unit}",
        heading=("Offered rate", unit),
    )
