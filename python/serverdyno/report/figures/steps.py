"""The steps of an experiment of tasks: what each configuration took for each, and who is faster. Computed, not said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from serverdyno.analysis import bonnie_rows, steps
from serverdyno.analysis.bonnie_rows import Rate
from serverdyno.analysis.improvement import Margins
from serverdyno.analysis.steps import Gap, Lead
from serverdyno.plan.model import RunKey
from serverdyno.tasks.bonnie import BONNIE
from serverdyno.tasks.experiment import Failure, StepRecord, TaskHead, TaskRecord

STABLE = "COMMIT"
"""The request by which an NFS client asks that data be on the disk; SMB's is FLUSH."""
FLUSHES = (STABLE, "FLUSH")
REPEATED = "(sent again without an answer in time)"
"""What an NFS client sent once more over UDP. Names in brackets stand among the requests and are none of their own."""


@dataclass(frozen=True, slots=True)
class TaskSource:
    """What a report of tasks is made from. `damaged`: what could not be read, a sentence each."""

    head: TaskHead
    records: Mapping[tuple[RunKey, str], TaskRecord]
    failures: Mapping[RunKey, Failure]
    disclosure: Mapping[str, Any] = field(default_factory=dict)
    plan_text: str = ""
    damaged: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The configurations, in the order of the plan."""
        return [configuration.name for configuration in self.head.configurations]

    def records_of(self, configuration: str) -> list[TaskRecord]:
        """Return the records of one configuration, of all tasks and repetitions."""
        return [record for (run, _), record in self.records.items() if run.configuration == configuration]

    def of_task(self, task: str, configuration: str) -> dict[int, TaskRecord]:
        """Return the records by repetition."""
        return {
            run.repetition: record
            for (run, name), record in self.records.items()
            if (name, run.configuration) == (task, configuration)
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One step or phase. `times`: of each configuration the records by repetition; `lead` None: nobody is proven faster
    than all others.
    """

    task: str
    name: str
    state: str
    figure: int | None
    times: Mapping[str, Mapping[int, StepRecord]]
    gaps: tuple[Gap, ...] = ()
    lead: Lead | None = None

    @property
    def label(self) -> str:
        """How sentences call it: `rewrite of Bonnie`, `ls -l, cold`."""
        if self.task == BONNIE:
            return f"Bonnie's {self.name}"
        return f"{self.name}, {self.state}" if self.state else self.name


@dataclass(frozen=True, slots=True)
class Flushes:
    """Of one configuration in all its tasks: what clients asked to be on the disk, and the syncs that the server made;
    None: not known. `because`: why not.
    """

    asked: int
    syncs: int | None
    because: str | None

    @property
    def none_made(self) -> bool:
        """Whether clients asked and the server made none."""
        return self.asked > 0 and self.syncs == 0


def compared(source: TaskSource) -> list[Step]:
    """Return every step in order, with who is faster in it."""
    head = source.head
    found = [step for task in head.tasks for step in _of_task(source, task)]
    elapsed = [
        {name: {run: each.elapsed_s for run, each in step.times[name].items()} for name in step.times}
        for step in found
    ]
    of_steps = steps.gaps(
        elapsed,
        paired=head.plan.order != "sequential",
        margins=Margins(head.plan.minimum_effect_percent),
    )
    return [
        Step(each.task, each.name, each.state, each.figure, each.times, gaps, steps.lead(gaps))
        for each, gaps in zip(found, of_steps, strict=True)
    ]


def _of_task(source: TaskSource, task: str) -> list[Step]:
    """Steps by their place; a record with other steps than the first is none of this task."""
    by_name = {name: source.of_task(task, name) for name in source.names}
    first = next((record for runs in by_name.values() for record in runs.values()), None)
    if first is None:
        return []
    shape = [(step.step, step.state) for step in first.steps]
    return [
        Step(
            task,
            each.step,
            each.state,
            each.figure,
            {
                name: {
                    run: record.steps[place]
                    for run, record in runs.items()
                    if [(step.step, step.state) for step in record.steps] == shape
                }
                for name, runs in by_name.items()
            },
        )
        for place, each in enumerate(first.steps)
    ]


def flushes(source: TaskSource, configuration: str) -> Flushes:
    """Return what became of flushes, of all tasks and repetitions together."""
    records = source.records_of(configuration)
    asked = sum(step.requests.get(name, 0) for one in records for step in one.steps for name in FLUSHES)
    unknown = next((one for one in records if one.syncs is None), None)
    if unknown is not None:
        return Flushes(asked, None, unknown.syncs_unknown_because)
    return Flushes(asked, sum(sum((one.syncs or {}).values()) for one in records), None)


def repeated_requests(source: TaskSource, configuration: str) -> tuple[int, int]:
    """Return how many requests over UDP were sent again, and how many there were, of all tasks and repetitions."""
    steps = [step for record in source.records_of(configuration) for step in record.steps]
    asked = sum(count for step in steps for name, count in step.requests.items() if not name.startswith("("))
    return sum(step.requests.get(REPEATED, 0) for step in steps), asked


def mean_requests(runs: Sequence[StepRecord]) -> dict[str, float]:
    """Return the requests of one step by name, each the mean of its repetitions."""
    kinds = dict.fromkeys(kind for one in runs for kind in one.requests)
    return {kind: fmean(one.requests.get(kind, 0) for one in runs) for kind in kinds}


def bonnie_rates(source: TaskSource, records: Sequence[TaskRecord]) -> dict[str, Rate]:
    """Return Bonnie's rates from the mean times of several runs."""
    bonnie = source.head.plan.scaled_bonnie
    phases = [
        bonnie_rows.Phase(
            phase=each.step,
            elapsed_s=fmean(record.steps[place].elapsed_s for record in records),
            user_s=fmean(record.steps[place].user_s for record in records),
            system_s=fmean(record.steps[place].system_s for record in records),
        )
        for place, each in enumerate(records[0].steps)
    ]
    return bonnie_rows.rates(phases, bonnie.all_bytes, bonnie.all_seeks)
