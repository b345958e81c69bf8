"""Tunings one by one and together, where a plan's configurations form such a design: baseline, one change each, all.

The design is read from the settings. The first configuration is the baseline; another of the same server that differs
from it in one setting is a single change; one that differs in all of them is all together; those between that each
add one more are piled up. Effects and their verdicts are `analysis.ablation`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from serverdyno.analysis.ablation import Effect, Tunings, ablation
from serverdyno.plan.model import Configuration
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import sides
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


def effects(source: Source, results: Results, found: Design) -> tuple[Effect, ...]:
    """Of the overall average and of the peak."""
    by_name = {side.name: side for side in sides(results)}
    tunings = Tunings(
        baseline=by_name[found.baseline],
        single=[by_name[name] for name in found.single],
        piled_up=[by_name[name] for name in found.piled_up],
        together=by_name[found.together],
    )
    return ablation(
        tunings,
        paired=source.paired,
        margins=source.margins,
    )
