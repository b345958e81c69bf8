"""Tunings one by one and together, where a plan's configurations form such a design: baseline, one change each, all.

The design is read from the settings. The first configuration is the baseline; another of the same server that differs
from it in one setting is a single change; one that differs in all of them is all together; those between that each
add one more are piled up. Effects, corrected verdicts and the interaction are `analysis.ablation`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from serverdyno import wording
from serverdyno.analysis.ablation import Ablation, Effect, Interplay, Role, Tunings, ablation
from serverdyno.analysis.holm import counted
from serverdyno.analysis.improvement import Figure as Compared
from serverdyno.analysis.trust import limits
from serverdyno.plan.model import Configuration
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Cell, Column, Figure, Finding, Panel, Point, Series, Table
from serverdyno.report.source import Source

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


def effects(source: Source, results: Results, found: Design) -> list[Ablation]:
    """Of the peak and of the overall average."""
    runs = {result.name: result.runs for result in results.configurations}
    tunings = Tunings(
        baseline=runs[found.baseline],
        single={name: runs[name] for name in found.single},
        piled_up=[(name, runs[name]) for name in found.piled_up],
        together=runs[found.together],
    )
    least = source.head.plan.minimum_effect_percent
    return [
        ablation(tunings, figure, paired=source.paired, minimum_percent=least, together=found.together)
        for figure in Compared
    ]


def table(found: Design, ablations: Sequence[Ablation], basis: str) -> Table:
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
    rows = tuple(
        _row(found, each, effect)
        for effects_of in zip(*(each.effects for each in ablations), strict=True)
        for each, effect in zip(ablations, effects_of, strict=True)
    )
    corrected = any(counted([each.found for each in ablated.effects]) > 1 for ablated in ablations)
    holm = (
        " Verdicts that rest on an interval are corrected for all such rows of a figure (Holm 1979); intervals stand "
        "alone."
    )
    notes = (f"Baseline: {found.baseline}.{holm if corrected else ''}",)
    return Table("tuning", 0, "Tunings one by one and together", basis, columns, rows, notes, key_columns=2)


def _row(found: Design, ablated: Ablation, effect: Effect) -> tuple[Cell, ...]:
    of_it = effect.found
    return (
        Cell(effect.name, found.changes[effect.name]),
        Cell(effect.role.value),
        Cell(ablated.figure.value),
        Cell(wording.change(of_it.percent), strong=True),
        Cell(wording.change_span(of_it.low_percent, of_it.high_percent)),
        Cell(effect.verdict.value),
        Cell(f"{of_it.repetitions}"),
    )


def figure(ablations: Sequence[Ablation], basis: str) -> list[Figure]:
    """Each effect on the peak with its interval; nothing where no effect could be computed."""
    ablated = ablations[0]
    points = tuple(
        Series(
            f"{effect.name}: step" if effect.role is Role.STEP else effect.name,
            0,
            (Point(0, of_it.percent, of_it.low_percent, of_it.high_percent),),
        )
        for effect in ablated.effects
        if (of_it := effect.found).percent is not None
    )
    if not points:
        return []
    title = "What each change and all together do to the peak"
    line = f"{basis} Bars: 95 % intervals, where there are three repetitions."
    return [
        Figure("tuning", 0, title, line, "effects", "Improvement of the peak, %", (Panel("", "", points),))
    ]


def text(ablations: Sequence[Ablation]) -> tuple[str, ...]:
    """Whether the changes add up, in a sentence for each figure."""
    return tuple(said for each in ablations if (said := _interplay(each)))


def _interplay(ablated: Ablation) -> str:
    found = ablated.interaction
    if found is None:
        return ""
    interval = (
        ""
        if found.low_percent is None
        else f", 95 % interval {wording.change_span(found.low_percent, found.high_percent)}"
    )
    return (
        f"In {ablated.figure.value} the single changes, multiplied, promise {wording.change(found.promised_percent)}; "
        f"all together bring {wording.change(found.together_percent)}. That differs by {wording.change(found.percent)}"
        f"{interval}: {found.interplay.value}."
    )


def findings(
    results: Results, found: Design, ablations: Sequence[Ablation], tables: dict[str, str]
) -> list[Finding]:
    """The largest single change of the peak, and whether all together are more or less than singly."""
    peaks = ablations[0]
    single = [
        each for each in peaks.effects if each.role is Role.ONE_CHANGE and each.found.percent is not None
    ]
    if not single:
        return []
    largest = max(single, key=lambda each: abs(each.found.percent or 0.0))
    claim = (
        f"Of {wording.plural(len(single), 'single change')}, {largest.name} ({found.changes[largest.name]}) moved the "
        f"peak most: {wording.change(largest.found.percent)}, {largest.verdict.value}."
    )
    if peaks.interaction is not None and peaks.interaction.interplay is not Interplay.TOO_FEW_REPETITIONS:
        claim += f" All: {peaks.interaction.interplay.value} ({wording.change(peaks.interaction.percent)})."
    if limited := [result.name for result in results.configurations if limits(result.marks)]:
        claim += f" Something else than the server limits {wording.listing(limited)}: see the marks."
    count = counted([each.found for each in peaks.effects])
    holm = f"verdicts corrected for {count:,} comparisons (Holm); " if count > 1 else ""
    return [Finding("Tuning", claim, f"Against {found.baseline}; {holm}{tables['tuning']}.")]
