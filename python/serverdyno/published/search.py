"""Which other figure of the same report would give a printed value that its own rule doesn't give.

A table of a few hundred figures gives thousands of ratios, and some ratio is near any number. So the search is bounded:

* It tries, in this order (the nearest explanation first), and never more than two changes at a time:
  1. the average where the peak is named, and the reverse, in every quantity of the rule at once; for the greatest of
     many improvements, the improvement of the peaks or of the averages;
  2. one configuration value changed wherever the rule has it (another server, another number of processors);
  3. one configuration value changed in one quantity alone;
  4. the first and the second, or the first and the third, together.
* It stops before the step at which chance becomes likely. Let the claim miss its rule's value by a factor f (1.25 if it
  misses by less). All candidates up to and including a step would together accept some share of the values within that
  factor, above and below, on a logarithmic scale: the share of wrong values that would be "explained" by chance. Steps
  are taken only while that share is at most 5 percent. The coarser the printed value, the sooner the search ends; of
  `more than 10` nothing can be found.
* Positions (a number of clients) and counts are not searched: few different values, met by chance too often.

How often a wrong value is explained all the same is measured in `docs/published.md` and bounded by a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from serverdyno.published import evaluate
from serverdyno.published.model import (
    Cells,
    Improvement,
    PairedImprovement,
    Position,
    Quantity,
    Scalar,
    Stated,
)
from serverdyno.published.printed import Printed
from serverdyno.published.tables import ClaimError, Tables

MOST_CHANCE = 0.05
LEAST_FACTOR = 1.25
MOST_CANDIDATES = 2000
"""In one step; a step with more is not taken."""
LENGTHS = ("clients", "threads")
"""Columns along which a curve runs: not a configuration, but where on the curve."""

Leaf = Cells | PairedImprovement
Changed = tuple[str, Quantity]
Change = Callable[[Leaf, int], Quantity]
Curve = Literal["mean", "highest"]


@dataclass(frozen=True, slots=True)
class Found:
    """Another figure that gives what is printed: in words, and its value."""

    words: str
    value: float


def another_figure(rule: Quantity, tables: Tables, printed: Printed, computed: float) -> Found | None:
    """The nearest other figure that gives the printed value; None where there is none, or chance is too likely."""
    if not _searchable(rule, printed, computed):
        return None
    reach = math.log(max(LEAST_FACTOR, computed / printed.value, printed.value / computed))
    accepted: list[tuple[float, float]] = []
    for step in (_aggregates, _everywhere, _in_one, _both):
        candidates = _evaluated(step(rule, tables), tables, computed)
        if len(candidates) > MOST_CANDIDATES:
            return None
        accepted += [_interval(value, printed, computed, reach) for _, value in candidates]
        if _union(accepted) / (2 * reach) > MOST_CHANCE:
            return None
        for words, value in candidates:
            if printed.admits(value):
                return Found(words, value)
    return None


def _searchable(rule: Quantity, printed: Printed, computed: float) -> bool:
    named = [leaf for leaf in leaves(rule) if not isinstance(leaf, Stated)]
    counted = any(isinstance(leaf, Position) or getattr(leaf, "kind", "") == "count" for leaf in named)
    bounded = math.isfinite(printed.lowest) and math.isfinite(printed.highest)
    return bool(named) and not counted and bounded and printed.value > 0 and computed > 0


def leaves(rule: BaseModel) -> Iterator[BaseModel]:
    """The quantities of a rule that hold no others: those that name cells, and numbers of the text."""
    if isinstance(rule, Cells | PairedImprovement | Position | Stated):
        yield rule
        return
    for name in type(rule).model_fields:
        parts = getattr(rule, name)
        for part in parts if isinstance(parts, tuple) else (parts,):
            if isinstance(part, BaseModel):
                yield from leaves(part)


def _rewritten(rule: Any, change: Change, counter: list[int]) -> Any:
    """The rule with `change` done to every leaf; it is told the leaf's number."""
    if isinstance(rule, Cells | PairedImprovement):
        counter[0] += 1
        return change(rule, counter[0] - 1)
    if isinstance(rule, Position | Stated):
        return rule
    changed: dict[str, Any] = {}
    for name in type(rule).model_fields:
        part = getattr(rule, name)
        if isinstance(part, BaseModel):
            changed[name] = _rewritten(part, change, counter)
        elif isinstance(part, tuple) and part and isinstance(part[0], BaseModel):
            changed[name] = tuple(_rewritten(inner, change, counter) for inner in part)
    return rule.model_copy(update=changed)


def _rewrite(rule: Quantity, change: Change) -> Quantity:
    rewritten: Quantity = _rewritten(rule, change, [0])
    return rewritten


def _evaluated(changed: Iterator[Changed], tables: Tables, computed: float) -> list[tuple[str, float]]:
    """The candidates that the tables have, with their values; those that change nothing are none."""
    found: list[tuple[str, float]] = []
    for words, rule in changed:
        try:
            value = evaluate.quantity(rule, tables)
        except (ClaimError, evaluate.NotStatedError):
            continue
        if value > 0 and not math.isclose(value, computed, rel_tol=1e-12):
            found.append((words, value))
        if len(found) > MOST_CANDIDATES:
            break
    return found


def _aggregates(rule: Quantity, tables: Tables) -> Iterator[Changed]:
    """The average where the peak is named, and the reverse; for a cell of a curve, both over its curve."""
    kinds: tuple[tuple[Curve, str], ...] = (
        ("mean", "the average over the curve"),
        ("highest", "the peak of the curve"),
    )
    for kind, words in kinds:

        def change(leaf: Leaf, _: int, kind: Curve = kind) -> Quantity:
            if isinstance(leaf, PairedImprovement):
                return _of_curves(leaf, kind)
            if leaf.kind not in ("value", "highest", "mean"):
                return leaf
            where = {column: value for column, value in leaf.where.items() if column not in LENGTHS}
            if leaf.kind == "value" and len(where) == len(leaf.where):
                return leaf  # not a point of a curve
            return leaf.model_copy(update={"kind": kind, "where": where})

        changed = _rewrite(rule, change)
        if changed != rule:
            yield words, changed


def _of_curves(leaf: PairedImprovement, kind: Curve) -> Improvement:
    """One improvement, of the peaks or the averages, instead of the extreme of many."""
    of, over = (
        Cells(kind=kind, table=leaf.table, column=leaf.column, where={**leaf.where, **side})
        for side in (leaf.of, leaf.over)
    )
    return Improvement(kind="percent_improvement", of=of, over=over)


def _everywhere(rule: Quantity, tables: Tables) -> Iterator[Changed]:
    """One column = value changed wherever the rule has it."""
    for (column, value), table in _selections(rule).items():
        for other in _others(tables, table, column, value):
            yield f"{column} = {other} instead of {value}", _rewrite(rule, _moving(column, value, other))


def _in_one(rule: Quantity, tables: Tables) -> Iterator[Changed]:
    """One column = value changed in one of several quantities."""
    named = [leaf for leaf in leaves(rule) if isinstance(leaf, Cells | PairedImprovement)]
    if len(named) < 2:
        return
    among = "one of the two" if len(named) == 2 else f"one of {len(named)} quantities"
    for index, leaf in enumerate(named):
        for column, value in _scalars(leaf).items():
            for other in _others(tables, leaf.table, column, value):
                changed = _rewrite(rule, _moving(column, value, other, index))
                yield f"{column} = {other} instead of {value} in {among}", changed


def _moving(column: str, value: Scalar, to: Scalar, only: int | None = None) -> Change:
    """The change of `column` from `value` to `to`, in every leaf or in that of one number."""

    def change(leaf: Leaf, index: int) -> Quantity:
        if only not in (None, index):
            return leaf
        names = ("where",) if isinstance(leaf, Cells) else ("where", "of", "over")
        update = {
            name: {**where, column: to}
            for name in names
            if (where := getattr(leaf, name)).get(column) == value
        }
        return leaf.model_copy(update=update) if update else leaf

    return change


def _both(rule: Quantity, tables: Tables) -> Iterator[Changed]:
    for first_words, first in _aggregates(rule, tables):
        for step in (_everywhere, _in_one):
            for words, changed in step(first, tables):
                yield f"{first_words}, and {words}", changed


def _scalars(leaf: Leaf) -> dict[str, Scalar]:
    wheres = (leaf.where,) if isinstance(leaf, Cells) else (leaf.where, leaf.of, leaf.over)
    return {
        column: value for where in wheres for column, value in where.items() if not isinstance(value, tuple)
    }


def _selections(rule: Quantity) -> dict[tuple[str, Scalar], str]:
    """Every column = value of a rule, with a table that has it."""
    return {
        pair: leaf.table
        for leaf in leaves(rule)
        if isinstance(leaf, Cells | PairedImprovement)
        for pair in _scalars(leaf).items()
    }


def _others(tables: Tables, table: str, column: str, value: Scalar) -> list[Scalar]:
    """The other values of a column; of numbers the nearest first."""
    values = tables[table].values(column)
    others = [other for other in values if other is not None and str(other) != str(value)]
    try:
        return sorted(others, key=lambda other: abs(float(other) - float(value)))
    except ValueError:
        return others


def _interval(value: float, printed: Printed, computed: float, reach: float) -> tuple[float, float]:
    """The printed values, as logarithms about the computed one, that a candidate would accept."""
    below, above = printed.highest - printed.value, printed.value - printed.lowest
    low, high = max(value - below, value * 1e-6), value + above
    first, last = math.log(low / computed), math.log(high / computed)
    return max(first, -reach), min(max(last, -reach), reach)


def _union(intervals: list[tuple[float, float]]) -> float:
    """The length that intervals cover together."""
    covered, end = 0.0, -math.inf
    for low, high in sorted(intervals):
        covered += max(0.0, high - max(low, end))
        end = max(end, high)
    return covered
