"""Throughput over time: each configuration's throughput in every second of every level, ramps included.

A mean over a window hides a server that stops for one second in ten. The unit is operations, not Mbit/s, because bytes
are counted at the end of an operation that may have begun seconds before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from serverdyno import wording
from serverdyno.plan.model import Level
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Figure, Panel, Part, Point, Section, Series
from serverdyno.report.parts import capital, groups, named, style_of
from serverdyno.store.records import LevelRecord

TITLE = "Throughput in each second of each load level"
MOST_PANELS = 6
"""Maximum number of panels of one figure, so that it fits one page."""
MOST_POINTS = 400
"""Maximum number of points of a line.

Longer levels are drawn in steps of whole seconds. Each step shows its second with the fewest operations, so that a stop
of one second is always visible.
"""

WHOLE_BASIS = (
    " Each point is one load level of one run, at the middle of its window. A sloping line shows drift."
)
MOST_PANELS_OF_TEST = 8

Records = Mapping[tuple[str, int], Sequence[LevelRecord]]


def applies(results: Results) -> bool:
    """Return whether the report has this section; for outages, `outages.py` shows the timeline."""
    return bool(results.source.head.levels) and results.source.cut is None


def build(results: Results) -> Part:
    return Part((section(results, appendix=True),))


def section(results: Results, *, appendix: bool) -> Section:
    title, drawn = (
        "The whole experiment, and each load level second by second",
        (*_whole_test(results), *_seconds(results)),
    )
    return Section("timeline", title, figures=drawn, appendix=appendix)


def _seconds(results: Results) -> Iterator[Figure]:
    """Yield charts with a panel per load level, whose lines are means over the repetitions."""
    levels = results.source.head.levels
    records: dict[tuple[str, int], list[LevelRecord]] = defaultdict(list)
    for record in results.used:
        if record.by_second:
            records[record.configuration, record.level].append(record)
    for suffix, group in groups(results):
        panels = [panel for level in levels if (panel := _panel(records, results, group, level)) is not None]
        portions = [panels[start : start + MOST_PANELS] for start in range(0, len(panels), MOST_PANELS)]
        for number, portion in enumerate(portions, 1):
            key = f"seconds{suffix}" if len(portions) == 1 else f"seconds{suffix}-{number}"
            title = TITLE if len(portions) == 1 else f"{TITLE} ({number} of {len(portions)})"
            under = f"{basis(results, Over.MEAN_ALONE)} Shaded: the ramps, which no figure counts.{_steps(levels)}"
            yield Figure(key, 0, title, under, "lines", "Second of the load level", tuple(portion))


def _whole_test(results: Results) -> Iterator[Figure]:
    """Yield charts of all levels by the time at which they ran; a drift over the experiment appears as a slope."""
    began = min((record.started_unix_s for record in results.used), default=0.0)
    for suffix, group in groups(results):
        records = [record for result in group for record in results.records(result.name)]
        levels = sorted({results.axis.load(record) for record in records})[:MOST_PANELS_OF_TEST]
        panels = tuple(_of_level(results, group, level, began) for level in levels)
        if len(records) > len(group) and panels:
            title = "Throughput of all runs on one timeline, by load level"
            x_title = "Minutes since the first load level"
            under = basis(results, Over.EACH) + WHOLE_BASIS
            yield Figure(f"test{suffix}", 0, title, under, "lines", x_title, panels, free_x=True)


def _of_level(
    results: Results,
    group: Sequence[ConfigurationResult],
    level: int,
    began: float,
) -> Panel:
    series = []
    for result in group:
        points = tuple(
            Point(
                (record.started_unix_s - began + record.ramp_up_s + record.window_s / 2) / 60,
                results.terms.throughput(record),
                label=f"repetition {record.repetition}",
            )
            for record in sorted(results.records(result.name), key=lambda record: record.started_unix_s)
            if results.axis.load(record) == level
        )
        if points:
            series.append(Series(result.name, style_of(results, result.name), points))
    unit = results.terms.unit
    return Panel(wording.plural(level, results.axis.noun), capital(unit), tuple(series))


def _steps(levels: Sequence[Level]) -> str:
    longest = max(_step(level) for level in levels)
    return "" if longest == 1 else f" Each point is the second with the fewest operations among {longest} s."


def _step(level: Level) -> int:
    """Return the number of seconds per point."""
    return -(-int(level.length_s) // MOST_POINTS)


def _panel(
    records: Records, results: Results, group: Sequence[ConfigurationResult], level: Level
) -> Panel | None:
    series = tuple(
        Series(result.name, style_of(results, result.name), points)
        for result in group
        if (points := _points(records.get((result.name, level.index), ()), level))
    )
    if not series:
        return None
    unit = f"{results.terms.operations}/s"
    threads = f" of {level.threads:,} threads" if level.threads > 1 else ""
    title = f"{results.axis.words(results.axis.load(level))}{threads}"
    return Panel(title, capital(unit), series, shaded=_ramps(level), plain=True)


def _ramps(level: Level) -> tuple[tuple[float, float], ...]:
    ends = ((0.0, level.ramp_up_s), (level.length_s - level.ramp_down_s, level.length_s))
    return tuple(ramp for ramp in ends if ramp[1] > ramp[0])


def _points(records: Sequence[LevelRecord], level: Level) -> tuple[Point, ...]:
    """Return the points of a line, without an incomplete last second, which would look like a fall."""
    whole_seconds = int(level.length_s)
    if not records or whole_seconds < 2:
        return ()
    # A second without a row had no completed operation.
    done = [0] * whole_seconds
    for record in records:
        for row in record.by_second:
            if row.second < whole_seconds:
                done[row.second] += row.operations
    step = _step(level)
    lowest = (
        min(range(start, min(start + step, whole_seconds)), key=done.__getitem__)
        for start in range(0, whole_seconds, step)
    )
    return tuple(Point(second + 0.5, done[second] / len(records)) for second in lowest)


def drifting(results: Results) -> list[str]:
    """Return a caveat on load levels that were not steady, largest change first."""
    levels = [
        (level, repetition, drift) for level in results.levels for repetition, drift in level.drifts.items()
    ]
    if not levels:
        return []
    levels.sort(key=lambda level: -abs(math.log1p(level[2])))
    which = named(
        [
            f"{level.configuration} with {level.at} in repetition {repetition} ({wording.change(drift * 100)})"
            for level, repetition, drift in levels
        ]
    )
    return [
        f"Throughput was not steady at {wording.plural(len(levels), 'load level')}, marked D. Change from "
        f"the first half of the window to the second: {which}. Figures there depend on the length of the "
        "load level. Longer levels or a longer ramp up show the speed that the server can sustain."
    ]
