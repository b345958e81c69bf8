"""Tuning designs: a baseline, single changes, and all changes together, with the effect of each.

The design is recognised from the settings. The first configuration is the baseline. A configuration of the same server
that differs in one setting is a single change, and one with all changes is "all together". Configurations between
these, each with one change more, are cumulative. `analysis.ablation` computes the effects and their verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from serverdyno import wording
from serverdyno.analysis.ablation import Effect, Role, Tunings, ablation
from serverdyno.analysis.improvement import Improvement
from serverdyno.plan.model import Configuration
from serverdyno.report.basis import basis
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import limits_of_average, sides
from serverdyno.report.model import (
    Cell,
    Column,
    Figure,
    Finding,
    Labels,
    Panel,
    Part,
    Point,
    Section,
    Series,
    Table,
)
from serverdyno.report.parts import NAME
from serverdyno.report.source import Source
from serverdyno.report.subjects import differences
from serverdyno.report.subjects.differences import reason

FEWEST_CHANGES = 2
Changes = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Design:
    """A design, as names of configurations. `changes`: the changes of each configuration, in words."""

    baseline: str
    single: tuple[str, ...]
    piled_up: tuple[str, ...]
    together: str
    changes: dict[str, str]


def applies(results: Results) -> bool:
    return results.source.closed_load and _design(results.source) is not None


def build(results: Results) -> Part:
    design = _design(results.source)
    assert design is not None
    found = _effects(results, design)
    title, figures = "Tunings individually and together", tuple(_chart(found, results))
    section = Section("tuning", title, figures=figures, tables=(_table(design, found, results),))
    return Part((section,), partial(_findings, results, design, found))


def _design(source: Source) -> Design | None:
    """Return the design; None with fewer than two single changes, or if no configuration has all changes."""
    base, *others = source.head.configurations
    changed = {other.name: _changes(base, other) for other in others if _comparable(base, other)}
    single: dict[str, tuple[str, str]] = {}
    for name, changes in changed.items():
        if len(changes) == 1:
            single[name] = next(iter(changes))
    whole = frozenset(single.values())
    settings = [setting for setting, _ in single.values()]
    if len(single) < FEWEST_CHANGES or len(set(settings)) < len(settings):
        return None
    together = next((name for name, changes in changed.items() if changes == whole), None)
    if together is None:
        return None
    return Design(
        baseline=base.name,
        single=tuple(single),
        piled_up=_chain(
            {name: changes for name, changes in changed.items() if 1 < len(changes) < len(whole)}, whole
        ),
        together=together,
        changes={
            name: ", ".join(f"{key} = {value}" for key, value in sorted(changed[name])) for name in changed
        },
    )


def _comparable(base: Configuration, other: Configuration) -> bool:
    return (base.server, base.cpus, base.url) == (other.server, other.cpus, other.url)


def _changes(base: Configuration, other: Configuration) -> Changes:
    names = {*base.settings, *other.settings}
    missing = "the driver's default"
    return frozenset(
        (name, f"{other.settings.get(name, missing)}")
        for name in names
        if base.settings.get(name, missing) != other.settings.get(name, missing)
    )


def _chain(between: dict[str, Changes], whole: Changes) -> tuple[str, ...]:
    """Return the names in the order in which changes were added; empty if a configuration lacks an earlier change."""
    ordered = sorted(between, key=lambda name: len(between[name]))
    sets = [*(between[name] for name in ordered), whole]
    grows = all(fewer < more for fewer, more in pairwise(sets))
    return tuple(ordered) if grows else ()


def _effects(results: Results, found: Design) -> tuple[Effect, ...]:
    by_name = {side.name: side for side in sides(results)}
    tunings = Tunings(
        baseline=by_name[found.baseline],
        single=[by_name[name] for name in found.single],
        piled_up=[by_name[name] for name in found.piled_up],
        together=by_name[found.together],
    )
    return ablation(tunings, paired=results.source.paired, margins=results.source.margins)


def _table(design: Design, effects: Sequence[Effect], results: Results) -> Table:
    columns = (
        NAME,
        Column("Compared", numeric=False),
        Column("Figure", numeric=False),
        Column("Improvement"),
        Column("95 % interval"),
        Column("Verdict", numeric=False),
        Column("n", "runs"),
    )
    rows = tuple(_row(design, effect, found) for effect in effects for found in effect.found)
    made_for = _correction(effects)
    corrected = f" Verdicts are corrected for {made_for}; intervals are not." if made_for else ""
    notes = (f"Baseline: {design.baseline}. Second line of a configuration: its changes.{corrected}",)
    title, under = "Tunings individually and together", basis(results)
    return Table("tuning", 0, title, under, columns, rows, notes, key_columns=2)


def _row(design: Design, effect: Effect, found: Improvement) -> tuple[Cell, ...]:
    return (
        Cell(effect.name, design.changes[effect.name]),
        Cell(effect.role.value),
        Cell(found.figure.value),
        Cell(wording.change(found.percent), strong=True),
        Cell(wording.change_span(found.low_percent, found.high_percent)),
        Cell(
            found.verdict.value,
            "; ".join(reason(each) for each in effect.comparison.obstacles.get(found.figure, ())),
        ),
        Cell(wording.whole(found.repetitions)),
    )


def _chart(effects: Sequence[Effect], results: Results) -> Iterator[Figure]:
    """Yield a chart of each effect on the overall average with its interval; none if no effect could be computed."""
    points = tuple(
        Series(
            f"{effect.name}: step" if effect.role is Role.STEP else effect.name,
            0,
            (Point(0, of_it.percent, of_it.low_percent, of_it.high_percent),),
        )
        for effect in effects
        if (of_it := effect.found[0]).percent is not None
    )
    if not points:
        return
    title = "Effect of each change and of all together on the overall average"
    line = f"{basis(results)} Error bars: 95 % intervals, if there are at least two repetitions."
    panels = (Panel("", "", points),)
    yield Figure("tuning", 0, title, line, "effects", "Improvement of the overall average, %", panels)


def _findings(results: Results, design: Design, effects: Sequence[Effect], tables: Labels) -> list[Finding]:
    single = [
        (effect, effect.found[0])
        for effect in effects
        if effect.role is Role.ONE_CHANGE and effect.found[0].percent is not None
    ]
    if not single:
        return []
    largest, found = max(single, key=lambda each: abs(each[1].percent or 0.0))
    claim = (
        f"Of {wording.plural(len(single), 'single change')}, {largest.name} ({design.changes[largest.name]}) changed "
        f"the overall average most: {wording.change(found.percent)}, {found.verdict.value}."
    )
    if limited := [result.name for result in results.configurations if limits_of_average(result)]:
        claim += f" Something other than the server limited {wording.listing(limited)}: see the marks."
    made_for = _correction(effects)
    corrected = f"verdicts corrected for {made_for}; " if made_for else ""
    return [Finding("Tuning", claim, f"Against {design.baseline}; {corrected}{tables['tuning']}.")]


def _correction(effects: Sequence[Effect]) -> str:
    """Return the comparisons that the verdicts are corrected for; empty if they are not corrected."""
    return differences.correction([found for effect in effects for found in effect.found])
