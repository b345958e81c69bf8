"""Figures of levels that end when their work is done: the time of each configuration, and which is faster.

Sentences are in `report/subjects/steps.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from serverdyno.analysis import bonnie_rows, steps
from serverdyno.analysis.bonnie_rows import Rate
from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.improvement import Margins
from serverdyno.analysis.steps import Gap, Lead
from serverdyno.plan.model import Suite
from serverdyno.plan.protocols.bonnie import BONNIE, PHASES, BonnieSettings
from serverdyno.plan.protocols.files import FILES
from serverdyno.report.source import Source
from serverdyno.store.records import LevelRecord, step_figures

REPEATED = "(sent again without an answer in time)"
"""Key of the number of requests that an NFS client sent again over UDP, among the counts of requests by kind."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a suite, or one phase of Bonnie.

    `times`: the records by configuration and repetition. `lead`: None if no configuration is proven faster than all
    others.
    """

    suite: Suite
    level: int
    name: str
    state: str
    figure: int | None
    times: Mapping[str, Mapping[int, LevelRecord]]
    gaps: tuple[Gap, ...] = ()
    lead: Lead | None = None

    @property
    def is_of_bonnie(self) -> bool:
        return self.suite.workload == BONNIE

    @property
    def label(self) -> str:
        """Return the step's name in sentences: `Bonnie's rewrite`, `ls -l, cold`."""
        if self.is_of_bonnie:
            return f"Bonnie's {self.name}"
        return f"{self.name}, {self.state}" if self.state else self.name


def suites_of(source: Source) -> list[Suite]:
    return [suite for suite in source.head.suites if suite.ends_when_done]


def settings_of(suite: Suite) -> BonnieSettings | None:
    """Return Bonnie's parameters at the current scale; None for other suites."""
    return suite.settings(FILES).bonnie


def compared(source: Source) -> tuple[Step, ...]:
    """Return every step in order with its verdict; empty if all levels are timed."""
    return tuple(judged(_steps(source), paired=source.paired, margins=source.margins_of_steps))


def judged(
    found: Sequence[Step], *, paired: bool, margins: Margins, between: Contrast | None = None
) -> list[Step]:
    """Return the steps with their verdicts, computed by `analysis.steps.gaps`."""
    elapsed = [
        {name: {run: each.window_s for run, each in step.times[name].items()} for name in step.times}
        for step in found
    ]
    of_steps = steps.gaps(elapsed, paired=paired, margins=margins, between=between)
    return [
        replace(each, gaps=gaps, lead=steps.lead(gaps)) for each, gaps in zip(found, of_steps, strict=True)
    ]


def _steps(source: Source) -> list[Step]:
    by_level: dict[int, dict[str, dict[int, LevelRecord]]] = {}
    for record in source.records:
        if record.step is not None and record.void is None:
            of_level = by_level.setdefault(record.level, {name: {} for name in source.configuration_names})
            of_level[record.configuration][record.repetition] = record
    return [
        Step(
            source.head.suite_of(level),
            level.index,
            level.step or "",
            level.state,
            level.figure,
            by_level[level.index],
        )
        for level in source.head.levels
        if level.index in by_level
    ]


def groups(steps: Iterable[Step], suite: Suite, configuration: str) -> dict[int, list[LevelRecord]]:
    """Return one configuration's records of a suite's steps in order, by repetition."""
    found: dict[int, list[LevelRecord]] = {}
    for step in steps:
        if step.suite is suite:
            for repetition, record in step.times[configuration].items():
                found.setdefault(repetition, []).append(record)
    return found


def totals(steps: Sequence[Step], source: Source) -> list[dict[str, dict[int, float]]]:
    """Return the total time of each suite's steps, by configuration and repetition."""
    return [
        {
            name: {
                run: sum(one.window_s for one in records)
                for run, records in groups(steps, suite, name).items()
            }
            for name in source.configuration_names
        }
        for suite in suites_of(source)
    ]


def runs_of_bonnie(steps: Iterable[Step], suite: Suite, configuration: str) -> dict[int, list[LevelRecord]]:
    """Return the records of each repetition that has all of Bonnie's phases, in order."""
    found = groups(steps, suite, configuration)
    return {run: records for run, records in found.items() if [one.step for one in records] == [*PHASES]}


def figures_of(record: LevelRecord, suite: Suite) -> dict[str, Any]:
    """Return the figures of one step of one run, by their names in tables and JSON."""
    return step_figures(record, of_bonnie=suite.workload == BONNIE)


def requests_of(record: LevelRecord) -> dict[str, int]:
    return {row.request: row.count for row in record.requests}


def repeated_requests(steps: Sequence[Step], configuration: str) -> tuple[int, int]:
    """Return the number of repeated requests and of all requests over UDP, summed over steps and repetitions."""
    found = [requests_of(one) for step in steps for one in step.times[configuration].values()]
    asked = sum(count for one in found for name, count in one.items() if not name.startswith("("))
    return sum(one.get(REPEATED, 0) for one in found), asked


def mean_requests(runs: Sequence[LevelRecord]) -> dict[str, float]:
    """Return the mean number of requests of one step by name."""
    found = [requests_of(one) for one in runs]
    kinds = dict.fromkeys(kind for one in found for kind in one)
    return {kind: fmean(one.get(kind, 0) for one in found) for kind in kinds}


def bonnie_rates(suite: Suite, runs: Sequence[Sequence[LevelRecord]]) -> dict[str, Rate]:
    """Return Bonnie's rates from the mean times of several runs, each with its phases' records in order."""
    bonnie, clients = settings_of(suite), suite.clients[0]
    assert bonnie is not None  # only called for suites of Bonnie
    phases = [
        bonnie_rows.Phase(
            phase=of_phase[0].step or "",
            elapsed_s=fmean(one.window_s for one in of_phase),
            user_s=fmean(one.generator_cpu_user_s for one in of_phase),
            system_s=fmean(one.generator_cpu_system_s for one in of_phase),
        )
        for of_phase in zip(*runs, strict=True)
    ]
    return bonnie_rows.rates(phases, clients * bonnie.size_bytes, clients * bonnie.seeks)
