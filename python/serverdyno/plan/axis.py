"""The axis of a suite: the quantity that grows from level to level, and its names in records, tables and charts.

The axis is the number of clients of closed load, or the offered rate of open load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args

from serverdyno import wording

AxisName = Literal["clients", "rate"]


class Loaded(Protocol):
    """The fields of a planned or recorded level that an axis needs."""

    @property
    def clients(self) -> int: ...

    @property
    def rate_per_s(self) -> int | None:
        """The offered rate; None if each client waits for its answer before its next operation."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The names of a quantity that grows from level to level.

    `noun` and `nouns`: singular and plural; `level_suffix`: suffix of a level's name; `column`: name in records;
    `title`: label of a chart's axis; `heading`: a table's heading, with its unit.
    """

    name: AxisName
    noun: str
    nouns: str
    level_suffix: str
    column: str
    title: str
    heading: tuple[str, str]
    load: Callable[[Loaded], int]

    def level_name(self, load: int) -> str:
        """Return the name of a level in records, such as `8_client`."""
        return f"{load}_{self.level_suffix}"

    def words(self, load: int) -> str:
        """Return a load as text for a sentence: `8 clients` or `1,000 requests/s offered`."""
        return wording.plural(load, self.noun, self.nouns)

    def words_of(self, loads: Sequence[int], among: Sequence[int]) -> str:
        """Return growing loads as text: `1 and 16 to 144 clients`. `among`: the loads of all levels, for the spans."""
        return f"{wording.numbers(loads, among)} {self.noun if list(loads) == [1] else self.nouns}"


CLIENTS = Axis(
    "clients",
    "client",
    "clients",
    "client",
    "clients",
    "Clients",
    ("Clients", ""),
    lambda level: level.clients,
)
RATE = Axis(
    "rate",
    "request/s offered",
    "requests/s offered",
    "per_s",
    "rate_per_s",
    "Offered rate, requests/s",
    ("Offered rate", "requests/s"),
    lambda level: level.rate_per_s or 0,
)
_AXES: dict[AxisName, Axis] = {axis.name: axis for axis in (CLIENTS, RATE)}
assert set(_AXES) == set(get_args(AxisName))


def axis_of(name: AxisName, operation: str = "request") -> Axis:
    """Return the axis with this name. `operation` names what arrives at the offered rate."""
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
