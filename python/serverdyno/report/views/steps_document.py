"""The steps in the JSON document: unrounded times, and comparisons. Part of `document.py`."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from serverdyno.analysis.curve import Spread, spread
from serverdyno.analysis.improvement import Verdict
from serverdyno.report.figures.steps import Step, figures_of, mean_requests


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
    """Speed of `other` against `base`, in percent. `verdict`: corrected for all steps and pairs."""

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
    """One step. `leader`: null if no configuration is proven faster than all others."""

    suite: str
    step: str
    state: str
    leader: str | None
    configurations: tuple[StepTimes, ...]
    comparisons: tuple[StepComparison, ...]


def step_figures(step: Step) -> StepFigures:
    return StepFigures(
        suite=step.suite.name,
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
    """Return the figures of a step; None if the configuration has no record of it."""
    runs = list(step.times[name].values())
    elapsed, user, system = (
        spread([getattr(one, key) for one in runs])
        for key in ("window_s", "generator_cpu_user_s", "generator_cpu_system_s")
    )
    if elapsed is None or user is None or system is None:
        return None
    return StepTimes(
        configuration=name,
        elapsed_s=elapsed,
        user_s=user,
        system_s=system,
        bytes=fmean(figures_of(one, step.suite)["bytes"] for one in runs),
        requests=mean_requests(runs),
    )
