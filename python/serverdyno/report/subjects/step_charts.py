"""The charts of steps: elapsed times and speeds. Part of `steps.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from serverdyno.plan.model import Suite
from serverdyno.report.figures.steps import Step
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.source import Source

MOST_ROWS = 30
"""Maximum number of rows of one chart, so that it fits a sheet of paper."""
MOST_STEPS = 24


def elapsed(source: Source, suite: Suite, steps: Sequence[Step], place: int) -> tuple[Figure, ...]:
    """Return charts of each step's elapsed time, one bar per configuration; every step has its own scale.

    `place`: index of the suite among those with steps.
    """
    panels = [_panel(source, step) for step in steps if step.suite is suite]
    panels = [panel for panel in panels if panel.series]
    pages = list(_pages(panels, len(source.configuration_names) + 1))
    basis = "Means of the repetitions; error bars from the shortest to the longest time. Each step has its own scale."
    return tuple(
        Figure(
            f"elapsed-{place}-{number}",
            0,
            f"{suite.name}: elapsed time of each step"
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


def _panel(source: Source, step: Step) -> Panel:
    title = f"{step.name}, {step.state}" if step.state else step.name
    series = [
        Series(name, place, (_mean([one.window_s for one in runs.values()]),))
        for place, name in enumerate(source.configuration_names)
        if (runs := step.times[name])
    ]
    return Panel(title, "s", tuple(series))


def _mean(values: Sequence[float]) -> Point:
    ends = (min(values), max(values)) if len(values) > 1 else (None, None)
    return Point(0, fmean(values), *ends)


def speeds(source: Source, steps: Sequence[Step]) -> tuple[Figure, ...]:
    """Return charts of each configuration's speed relative to the first, step by step, with intervals."""
    found = []
    base, *others = source.configuration_names
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
                    "Speed is 1 / elapsed time. Error bars: 95 % intervals. Verdicts are corrected for all steps "
                    "and pairs, so a difference can be unproven although its interval excludes zero.",
                    "effects",
                    f"Faster than {base}, %",
                    (Panel("", "", tuple(rows[first : first + MOST_STEPS])),),
                )
            )
    return tuple(found)
