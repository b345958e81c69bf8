"""Evaluate a rule on tables: compute its number, or count how many of its comparisons hold.

The result does not depend on the claimed value. An empty cell raises `NotStatedError`. A rule that names something
absent from the tables, or a single cell if several match, raises `ClaimError`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise

from serverdyno.published.model import (
    Cells,
    Combined,
    Course,
    Decline,
    Difference,
    Improvement,
    Order,
    PairedImprovement,
    PairedOrder,
    Position,
    Quantity,
    Ratio,
    Same,
    Stated,
    Statement,
    Where,
)
from serverdyno.published.tables import Cell, ClaimError, Tables, number

Row = dict[str, Cell]


class NotStatedError(Exception):
    """A cell that the rule needs is empty."""


@dataclass(frozen=True, slots=True)
class Holds:
    """`count` of `total` comparisons hold; `failing` names the others."""

    count: int
    total: int
    failing: tuple[str, ...] = ()


@singledispatch
def quantity(rule: Quantity, tables: Tables) -> float:
    raise TypeError(f"{type(rule).__name__} is no quantity")


@quantity.register
def _(rule: Stated, tables: Tables) -> float:
    return rule.value


@quantity.register
def _(rule: Combined, tables: Tables) -> float:
    return _COMBINE[rule.kind]([quantity(part, tables) for part in rule.of])


@quantity.register
def _(rule: PairedImprovement, tables: Tables) -> float:
    extreme = max if rule.kind == "greatest_percent_improvement" else min
    return extreme(improvement(of, over) for _, of, over in _pairs(tables, rule, rule.of, rule.over))


@quantity.register
def _(rule: Improvement, tables: Tables) -> float:
    return improvement(quantity(rule.of, tables), quantity(rule.over, tables))


@quantity.register
def _(rule: Decline, tables: Tables) -> float:
    return -improvement(quantity(rule.end, tables), quantity(rule.start, tables))


@quantity.register
def _(rule: Ratio, tables: Tables) -> float:
    return ratio(quantity(rule.of, tables), quantity(rule.to, tables))


@quantity.register
def _(rule: Difference, tables: Tables) -> float:
    return quantity(rule.of, tables) - quantity(rule.minus, tables)


def statement(rule: Statement, tables: Tables) -> Holds:
    """Return how many of a statement's comparisons hold. `Same` is excluded, because it needs a tolerance."""
    if isinstance(rule, Order):
        of = quantity(rule.of, tables)
        others = [quantity(other, tables) for other in rule.than]
        holding = [of > other if rule.kind == "greater" else of < other for other in others]
        failing = [f"{other:,.10g}" for other, holds in zip(others, holding, strict=True) if not holds]
        return Holds(sum(holding), len(holding), tuple(failing))
    if isinstance(rule, PairedOrder):
        pairs = _pairs(tables, rule, rule.greater, rule.lower)
        failing = [words for words, greater, lower in pairs if greater <= lower]
        return Holds(len(pairs) - len(failing), len(pairs), tuple(failing))
    assert isinstance(rule, Course)
    return _course(rule, tables)


def both(rule: Same, tables: Tables) -> tuple[float, float]:
    """Return the two quantities that are said to be equal."""
    return quantity(rule.of, tables), quantity(rule.other, tables)


def improvement(of: float, over: float) -> float:
    return 100 * (ratio(of, over) - 1)


def ratio(of: float, to: float) -> float:
    """Return of / to. Raises NotStatedError if `to` is zero."""
    if to == 0:
        raise NotStatedError("the base of the figure is zero")
    return of / to


_COMBINE: dict[str, Callable[[Sequence[float]], float]] = {
    "product": math.prod,
    "sum_of": math.fsum,
    "mean_of": lambda values: math.fsum(values) / len(values),
    "lowest_of": min,
    "highest_of": max,
}


def rows_of(tables: Tables, table: str, columns: Sequence[str], where: Where) -> list[Row]:
    """Return the selected rows. Raises ClaimError if there is none, or a column is missing."""
    tables[table].require(columns)
    rows = tables[table].select(where)
    if not rows:
        raise ClaimError(f'table "{table}" has no row with {described(where)}')
    return rows


def described(where: Where) -> str:
    """Return a selection as text: `server = A, clients = 8`."""
    return ", ".join(
        f"{column} = {' or '.join(map(str, value)) if isinstance(value, tuple) else value}"
        for column, value in where.items()
    )


def _averaged(rows: list[Row], column: str, by: Sequence[str]) -> list[tuple[Row, float]]:
    """Return each row, or each group of rows with equal `by`, with its mean. Empty cells are left out."""
    filled = [(row, value) for row in rows if (value := number(row[column])) is not None]
    if not by:
        return filled
    groups: dict[tuple[Cell, ...], list[tuple[Row, float]]] = defaultdict(list)
    for row, value in filled:
        groups[tuple(row[key] for key in by)].append((row, value))
    return [(group[0][0], math.fsum(value for _, value in group) / len(group)) for group in groups.values()]


@quantity.register
def _(rule: Cells, tables: Tables) -> float:
    rows = rows_of(tables, rule.table, (rule.column, *rule.averaged_by), rule.where)
    if rule.kind == "value" and len(rows) > 1 and not rule.averaged_by:
        raise ClaimError(
            f'table "{rule.table}" has {len(rows)} rows with {described(rule.where)}, but only one is expected'
        )
    values = [value for _, value in _averaged(rows, rule.column, rule.averaged_by)]
    if rule.kind == "count":
        return float(sum(rule.above is None or value > rule.above for value in values))
    if not values:
        raise NotStatedError(f"{rule.column} is not stated for {described(rule.where)}")
    if rule.kind == "value" and len(values) > 1:
        raise ClaimError(
            f'table "{rule.table}" has {len(values)} values for {described(rule.where)}, but only one is expected'
        )
    return {
        "value": lambda: values[0],
        "highest": lambda: max(values),
        "lowest": lambda: min(values),
        "sum": lambda: math.fsum(values),
        "mean": lambda: math.fsum(values) / len(values),
    }[rule.kind]()


@quantity.register
def _(rule: Position, tables: Tables) -> float:
    rows = rows_of(tables, rule.table, (rule.column, rule.at, *rule.averaged_by), rule.where)
    points = _averaged(rows, rule.column, rule.averaged_by)
    if not points:
        raise NotStatedError(f"{rule.column} is not stated for {described(rule.where)}")
    extreme = (max if rule.kind == "position_of_highest" else min)(value for _, value in points)
    places = {number(row[rule.at]) for row, value in points if value == extreme}
    place = places.pop()
    if places or place is None:
        raise ClaimError(
            f"several rows with {described(rule.where)} have the same extreme value of {rule.column}"
        )
    return place


def _pairs(
    tables: Tables, rule: PairedImprovement | PairedOrder, first: Where, second: Where
) -> list[tuple[str, float, float]]:
    """Return the pairs of rows of two selections with equal `pairs_by`: the pair's name and both numbers."""
    sides: list[dict[tuple[Cell, ...], float]] = []
    for where in (first, second):
        side: dict[tuple[Cell, ...], float] = {}
        for row in rows_of(tables, rule.table, (rule.column, *rule.pairs_by), {**rule.where, **where}):
            value = number(row[rule.column])
            key = tuple(row[column] for column in rule.pairs_by)
            if key in side:
                raise ClaimError(f'table "{rule.table}" has two rows with {described(where)} for {key}')
            if value is not None:
                side[key] = value
        sides.append(side)
    pairs = [(", ".join(map(str, key)), sides[0][key], sides[1][key]) for key in sides[0] if key in sides[1]]
    if not pairs:
        raise NotStatedError(f"the table has no pair of {described(first)} and {described(second)}")
    return pairs


def _course(rule: Course, tables: Tables) -> Holds:
    rows = rows_of(tables, rule.table, (rule.column, rule.along, *rule.averaged_by), rule.where)
    points = sorted(
        (place, value)
        for row, value in _averaged(rows, rule.column, rule.averaged_by)
        if (place := number(row[rule.along])) is not None
    )
    if len({place for place, _ in points}) < len(points):
        raise ClaimError(f"several rows with {described(rule.where)} have the same {rule.along}")
    steps = list(pairwise(points))
    if not steps:
        raise NotStatedError(f"{described(rule.where)} has only one row, so there is no rise or fall")
    failing = [
        f"{rule.along} {first[0]:g} to {then[0]:g}"
        for first, then in steps
        if not (then[1] > first[1] if rule.kind == "rising" else then[1] < first[1])
    ]
    return Holds(len(steps) - len(failing), len(steps), tuple(failing))
