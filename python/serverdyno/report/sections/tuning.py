"""Tunings one by one and together, where a plan's configurations form such a design: baseline, one change each, all.

The design is read from the settings. The first configuration is the baseline; another of the same server that differs
from it in one setting is a single change; one that differs in all of them is all together; those between that each
add one more are piled up. Effects and their verdicts are `analysis.ablation`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from serverdyno import wording
from serverdyno.analysis.ablation import Effect, Role, Tunings, ablation
from serverdyno.analysis.improvement import Improvement
from serverdyno.analysis.trust import limits
from serverdyno.plan.model import Configuration
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Figure, Finding, Panel, Point, Series, Table
from serverdyno.report.source import Source
from serverdyno.report.words import verdicts

FEWEST_CHANGES = 2
Changes = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Design:
    """Names of configurations; `changes`: what each of them changes, in words."""

    baseline: str
    single: tuple[str, ...]
    piled_up: tuple[str, ...]
    together: str
    changes: dict[str, str]


def design(source: Source) -> Design | None:
    """None where the configurations form none: fewer than two single changes, or nothing with all of them."""
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
    """Names in the order in which changes were added; none where they don't lie one in another, or aren't of these."""
    ordered = sorted(between, key=lambda name: len(between[name]))
    sets = [*(between[name] for name in ordered), whole]
    grows = all(fewer < more for fewer, more in pairwise(sets))
    return tuple(ordered) if grows else ()


def effects(source: Source, results: Results, found: Design) -> tuple[Effect, ...]:
    """Of the overall average and of the peak."""
    runs = {result.name: result.runs for result in results.configurations}
    tunings = Tunings(
        baseline=runs[found.baseline],
        single={name: runs[name] for name in found.single},
        piled_up=[(name, runs[name]) for name in found.piled_up],
        together=runs[found.together],
    )
    least = source.head.plan.minimum_effect_percent
    return ablation(tunings, paired=source.paired, minimum_percent=least, together=found.together)


def table(design: Design, effects: Sequence[Effect], basis: str) -> Table:
    """One row an effect and figure."""
    columns = (
        Column("Configuration", numeric=False),
        Column("Compared", numeric=False),
        Column("Figure", numeric=False),
        Column("Improvement"),
        Column("95 % interval"),
        Column("Verdict", numeric=False),
        Column("n", "runs"),
    )
    rows = tuple(_row(design, effect, found) for effect in effects for found in effect.found)
    correction = _correction(effects)
    corrected = f" Verdicts are corrected for {correction}; intervals stand alone." if correction else ""
    notes = (f"Baseline: {design.baseline}.{corrected}",)
    return Table("tuning", 0, "Tunings one by one and together", basis, columns, rows, notes, key_columns=2)


def _correction(effects: Sequence[Effect]) -> str:
    return verdicts.correction([found for effect in effects for found in effect.found])


def _row(design: Design, effect: Effect, found: Improvement) -> tuple[Cell, ...]:
    return (
        Cell(effect.name, design.changes[effect.name]),
        Cell(effect.role.value),
        Cell(found.figure.value),
        Cell(wording.change(found.percent), strong=True),
        Cell(wording.change_span(found.low_percent, found.high_percent)),
        Cell(found.verdict.value),
        Cell(f"{found.repetitions}"),
    )


def figure(effects: Sequence[Effect], basis: str) -> list[Figure]:
    """Each effect on the overall average with its interval; nothing where no effect could be computed."""
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
        return []
    title = "What each change and all together do to the overall average"
    line = f"{basis} Bars: 95 % intervals, where there are two repetitions."
    panels = (Panel("", "", points),)
    return [Figure("tuning", 0, title, line, "effects", "Improvement of the overall average, %", panels)]


def findings(
    results: Results, design: Design, effects: Sequence[Effect], tables: dict[str, str]
) -> list[Finding]:
    """The largest single change of the overall average."""
    single = [
        (effect, effect.found[0])
        for effect in effects
        if effect.role is Role.ONE_CHANGE and effect.found[0].percent is not None
    ]
    if not single:
        return []
    largest, found = max(single, key=lambda each: abs(each[1].percent or 0.0))
    claim = (
        f"Of {wording.plural(len(single), 'single change')}, {largest.name} ({design.changes[largest.name]}) moved the "
        f"overall average most: {wording.change(found.percent)}, {found.verdict.value}."
    )
    if limited := [result.name for result in results.configurations if limits(result.marks)]:
        claim += f" Something else than the server limits {wording.listing(limited)}: see the marks."
    correction = _correction(effects)
    corrected = f"verdicts corrected for {correction}; " if correction else ""
    return [Finding("Tuning", claim, f"Against {design.baseline}; {corrected}{tables['tuning']}.")]
