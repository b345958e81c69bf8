"""The charts of an experiment of tasks: elapsed times and speeds, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from serverdyno.report.figures.steps import Step, TaskSource
from serverdyno.report.model import Figure, Panel, Point, Series

MOST_ROWS = 30
"""Of one chart, so that it fits a sheet of paper."""
MOST_STEPS = 24


def elapsed(source: TaskSource, task: str, steps: Sequence[Step]) -> tuple[Figure, ...]:
    """The elapsed time of each step of a task, one bar a configuration; a step has a scale of its own."""
    panels = [_panel(source, step) for step in steps if step.task == task]
    panels = [panel for panel in panels if panel.series]
    pages = list(_pages(panels, len(source.names) + 1))
    basis = (
        "Means of the repetitions; lines from the shortest to the longest. Each step has a scale of its own."
    )
    return tuple(
        Figure(
            f"elapsed-{source.head.tasks.index(task) + 1}-{number}",
            0,
            f"{task}: elapsed time of each step"
            + (f", part {number} of {len(pages)}" if len(pages) > 1 else ""),
            basis,
            "bars",
            "Seconds",
            tuple(page),
        )
        for number, page in enumerate(pages, start=1)
    )


def _pages(panels: Sequence[Panel], rows: int) -> Iterator[Sequence[Panel]]:
    most = max(1, MOST_ROWS // rows)
    for first in range(0, len(panels), most):
        yield panels[first : first + most]


def _panel(source: TaskSource, step: Step) -> Panel:
    title = f"{step.name}, {step.state}" if step.state else step.name
    series = [
        Series(name, place, (_mean([one.elapsed_s for one in runs.values()]),))
        for place, name in enumerate(source.names)
        if (runs := step.times[name])
    ]
    return Panel(title, "s", tuple(series))


def _mean(values: Sequence[float]) -> Point:
    ends = (min(values), max(values)) if len(values) > 1 else (None, None)
    return Point(0, fmean(values), *ends)


def speeds(source: TaskSource, steps: Sequence[Step]) -> tuple[Figure, ...]:
    """How much faster each configuration is than the first, in each step, with the interval that a verdict rests on."""
    found = []
    base, *others = source.names
    for place, other in enumerate(others, start=1):
        rows = [
            Series(step.label, 0, (Point(0, told.percent, told.low_percent, told.high_percent),))
            for step in steps
            for gap in step.gaps
            if (gap.base, gap.other) == (base, other) and (told := gap.improvement).percent is not None
        ]
        for first in range(0, len(rows), MOST_STEPS):
            found.append(
                Figure(
                    f"speed-{place}-{first // MOST_STEPS + 1}",
                    0,
                    f"Speed of {other} against {base}, step by step",
                    "Speed is 1 / elapsed time. Rules: 95 % intervals. One without zero may still be unproven, since "
                    "verdicts hold for all steps and pairs together.",
                    "effects",
                    f"Faster than {base}, %",
                    (Panel("", "", tuple(rows[first : first + MOST_STEPS])),),
                )
            )
    return tuple(found)
