"""What is said of tunings: which single change did most, and what the verdicts are corrected for."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.analysis.ablation import Effect, Role
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import limits_of_average
from serverdyno.report.figures.tuning import Design
from serverdyno.report.model import Finding
from serverdyno.report.subjects import differences


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
    if limited := [result.name for result in results.configurations if limits_of_average(result)]:
        claim += f" Something else than the server limits {wording.listing(limited)}: see the marks."
    made_for = correction(effects)
    corrected = f"verdicts corrected for {made_for}; " if made_for else ""
    return [Finding("Tuning", claim, f"Against {design.baseline}; {corrected}{tables['tuning']}.")]


def correction(effects: Sequence[Effect]) -> str:
    """What the verdicts are corrected for; nothing where they are not."""
    return differences.correction([found for effect in effects for found in effect.found])
