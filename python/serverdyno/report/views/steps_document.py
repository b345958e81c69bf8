"""The report of an experiment of tasks as one JSON document with a published schema: what is said, and times unrounded.

`docs/tasks-report.schema.json` is made from `TaskReportDocument`; a test keeps them alike. None (`null`) means: not
known.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from serverdyno.analysis.curve import Spread, spread
from serverdyno.analysis.improvement import Verdict
from serverdyno.report.figures.steps import Step, mean_requests
from serverdyno.report.model import StepsAnswer, TaskReport
from serverdyno.report.views.page_document import PageDocument

SCHEMA_NAME = "tasks-report.schema.json"


@dataclass(frozen=True, slots=True)
class TaskExperimentFacts:
    """What was run. `scale`: so many times the files; `finished_tasks`: of all runs."""

    name: str
    tasks: tuple[str, ...]
    created: str
    tool_version: str
    seed: int
    scale: float
    order: str
    repetitions: int
    minimum_effect_percent: float
    planned_tasks: int
    finished_tasks: int


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One step on one configuration. `bytes`, `requests`: means of the repetitions."""

    configuration: str
    elapsed_s: Spread
    user_s: Spread
    system_s: Spread
    bytes: float
    requests: dict[str, float]


@dataclass(frozen=True, slots=True)
class StepComparison:
    """The speed of `other` against `base`, in percent. `verdict`: holds with those of all steps and pairs."""

    base: str
    other: str
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    repetitions: int
    paired: bool
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One step. `leader` null: nobody is proven faster than all others."""

    task: str
    step: str
    state: str
    leader: str | None
    configurations: tuple[StepTimes, ...]
    comparisons: tuple[StepComparison, ...]


@dataclass(init=False)
class TaskReportDocument(PageDocument):
    """A report of tasks of Serverdyno. `warnings` come before all figures."""

    experiment: TaskExperimentFacts
    answer: StepsAnswer
    steps: tuple[StepFigures, ...]

    def __init__(self, report: TaskReport) -> None:
        super().__init__(report)
        assert isinstance(report.answer, StepsAnswer)  # made so
        self.experiment = _experiment(report)
        self.answer = report.answer
        self.steps = tuple(_step(step) for step in report.steps)


def _experiment(report: TaskReport) -> TaskExperimentFacts:
    head = report.source.head
    return TaskExperimentFacts(
        name=head.plan.name,
        tasks=tuple(head.tasks),
        created=head.created.isoformat(),
        tool_version=head.tool_version,
        seed=head.plan.seed,
        scale=head.plan.scale,
        order=head.plan.order,
        repetitions=head.plan.repetitions,
        minimum_effect_percent=head.plan.minimum_effect_percent,
        planned_tasks=len(head.order) * len(head.tasks),
        finished_tasks=len(report.source.records),
    )


def _step(step: Step) -> StepFigures:
    return StepFigures(
        task=step.task,
        step=step.name,
        state=step.state,
        leader=None if step.lead is None else step.lead.winner,
        configurations=tuple(times for name in step.times if (times := _times(step, name)) is not None),
        comparisons=tuple(
            StepComparison(
                base=gap.base,
                other=gap.other,
                percent=gap.improvement.percent,
                low_percent=gap.improvement.low_percent,
                high_percent=gap.improvement.high_percent,
                repetitions=gap.improvement.repetitions,
                paired=gap.improvement.paired,
                verdict=gap.improvement.verdict,
            )
            for gap in step.gaps
        ),
    )


def _times(step: Step, name: str) -> StepTimes | None:
    """None: the configuration has no record of the step."""
    runs = list(step.times[name].values())
    elapsed, user, system = (
        spread([getattr(one, key) for one in runs]) for key in ("elapsed_s", "user_s", "system_s")
    )
    if elapsed is None or user is None or system is None:
        return None
    return StepTimes(
        configuration=name,
        elapsed_s=elapsed,
        user_s=user,
        system_s=system,
        bytes=fmean(one.bytes for one in runs),
        requests=mean_requests(runs),
    )
