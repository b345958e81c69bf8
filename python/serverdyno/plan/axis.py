"""What grows from mix to mix of a suite, and how it is called in records, tables and charts.

Clients are the one axis today. Not for: how a suite's mixes are made, see `expand.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

AxisName = Literal["clients"]


class Loaded(Protocol):
    """A mix, planned or recorded, as far as an axis is concerned."""

    @property
    def clients(self) -> int:
        """How many clients it has."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`noun`: one of what grows; `column`: its name as a column; `title`: as the label of a chart's axis."""

    name: AxisName
    noun: str
    column: str
    title: str
    level: Callable[[Loaded], int]

    def mix_name(self, level: int) -> str:
        """`8_client`: the name of a mix in records."""
        return f"{level}_{self.noun}"


CLIENTS = Axis("clients", "client", "clients", "Clients", lambda mix: mix.clients)
_AXES: dict[AxisName, Axis] = {CLIENTS.name: CLIENTS}
assert set(_AXES) == set(get_args(AxisName))


def axis_of(name: AxisName) -> Axis:
    """Return the axis called `name`."""
    return _AXES[name]
