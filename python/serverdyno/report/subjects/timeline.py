"""Second by second: what each configuration did in every mix, ramps included.

A mean over a window hides a server that stops for a second in each ten; here it is seen. Operations, not Mbit/s: what
was moved is counted at the end of an operation that may have begun seconds before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from serverdyno import wording
from serverdyno.plan.model import Mix
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.parts import groups, style_of
from serverdyno.report.source import Source
from serverdyno.store.records import MixRecord

TITLE = "Second by second, each mix"
MOST_PANELS = 6
"""Mixes of one figure: as many as a page holds."""
MOST_POINTS = 400
"""Of a line. Longer mixes are drawn in steps of whole seconds, each at the second with the fewest operations, so that
a stop of one second is seen whatever the length."""

WHOLE_BASIS = " Each point is one test, at the middle of its window; a slope along a line is drift."
MOST_PANELS_OF_TEST = 8

Records = Mapping[tuple[str, int], Sequence[MixRecord]]


def figures(source: Source, results: Results, basis: str) -> list[Figure]:
    """A panel a mix; its lines are means over the repetitions."""
    records: dict[tuple[str, int], list[MixRecord]] = defaultdict(list)
    for record in results.used:
        if record.by_second:
            records[record.configuration, record.mix].append(record)
    found = []
    for suffix, group in groups(results):
        panels = [
            panel for mix in source.head.mixes if (panel := _panel(records, results, group, mix)) is not None
        ]
        portions = [panels[start : start + MOST_PANELS] for start in range(0, len(panels), MOST_PANELS)]
        for number, portion in enumerate(portions, 1):
            key = f"seconds{suffix}" if len(portions) == 1 else f"seconds{suffix}-{number}"
            title = TITLE if len(portions) == 1 else f"{TITLE} ({number} of {len(portions)})"
            under = f"{basis} Shaded: the ramps, which don't count.{_steps(source.head.mixes)}"
            found.append(Figure(key, 0, title, under, "lines", "Second of the mix", tuple(portion)))
    return found


def whole_test(results: Results, basis: str) -> list[Figure]:
    """Every test where it stood in time: what drifted over the experiment shows as a slope."""
    began = min((record.started_unix_s for record in results.used), default=0.0)
    found = []
    for suffix, group in groups(results):
        records = [record for result in group for record in results.records(result.name)]
        levels = sorted({results.axis.level(record) for record in records})[:MOST_PANELS_OF_TEST]
        panels = tuple(_of_level(results, group, level, began) for level in levels)
        if len(records) > len(group) and panels:
            title = "The whole test on one timeline, by load level"
            x_title = "Minutes since the first test"
            found.append(
                Figure(f"test{suffix}", 0, title, basis + WHOLE_BASIS, "lines", x_title, panels, free_x=True)
            )
    return found


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
            if results.axis.level(record) == level
        )
        if points:
            series.append(Series(result.name, style_of(results, result.name), points))
    unit = results.terms.unit
    return Panel(wording.plural(level, results.axis.noun), unit[0].upper() + unit[1:], tuple(series))


def _steps(mixes: Sequence[Mix]) -> str:
    longest = max(_step(mix) for mix in mixes)
    return "" if longest == 1 else f" Steps of {longest} s, each at its second with the fewest operations."


def _step(mix: Mix) -> int:
    """Seconds for each point."""
    return -(-int(mix.length_s) // MOST_POINTS)


def _panel(
    records: Records, results: Results, group: Sequence[ConfigurationResult], mix: Mix
) -> Panel | None:
    series = tuple(
        Series(result.name, style_of(results, result.name), points)
        for result in group
        if (points := _points(records.get((result.name, mix.index), ()), mix))
    )
    if not series:
        return None
    unit = f"{results.terms.operations}/s"
    threads = f" of {mix.threads:,} threads" if mix.threads > 1 else ""
    title = f"{results.axis.words(results.axis.level(mix))}{threads}"
    return Panel(title, unit[0].upper() + unit[1:], series, shaded=_ramps(mix), plain=True)


def _ramps(mix: Mix) -> tuple[tuple[float, float], ...]:
    """Before and after the window."""
    ends = ((0.0, mix.ramp_up_s), (mix.length_s - mix.ramp_down_s, mix.length_s))
    return tuple(ramp for ramp in ends if ramp[1] > ramp[0])


def _points(records: Sequence[MixRecord], mix: Mix) -> tuple[Point, ...]:
    """Of whole seconds: a last part of one would look like a fall."""
    whole_seconds = int(mix.length_s)
    if not records or whole_seconds < 2:
        return ()
    # A second without a row had no operation that ended in it.
    done = [0] * whole_seconds
    for record in records:
        for row in record.by_second:
            if row.second < whole_seconds:
                done[row.second] += row.operations
    step = _step(mix)
    lowest = (
        min(range(start, min(start + step, whole_seconds)), key=done.__getitem__)
        for start in range(0, whole_seconds, step)
    )
    return tuple(Point(second + 0.5, done[second] / len(records)) for second in lowest)
