"""Second by second: what each configuration did in the mix of its peak, ramps included.

A mean over a window hides a server that stops for a second in each ten; here it is seen. Operations, not Mbit/s: what
was moved is counted at the end of an operation that may have begun seconds before.
"""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno.plan.model import Mix
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.sections.drawings import groups
from serverdyno.report.source import Source
from serverdyno.store.records import MixRecord

TITLE = "Second by second, each configuration in the mix of its peak"


def figures(source: Source, results: Results, basis: str) -> list[Figure]:
    """One panel a group of configurations; its lines are means over the repetitions."""
    found = []
    for suffix, group in groups(results):
        series = tuple(
            line for style, result in enumerate(group) if (line := _line(source, results, style, result))
        )
        if series:
            unit = f"{results.terms.operations}/s"
            panel = Panel(
                "", unit[0].upper() + unit[1:], series, shaded=_ramps(source.head.mixes), plain=True
            )
            under = f"{basis} Shaded: the ramps, which don't count."
            found.append(Figure(f"seconds{suffix}", 0, TITLE, under, "lines", "Second of the mix", (panel,)))
    return found


def _ramps(mixes: Sequence[Mix]) -> tuple[tuple[float, float], ...]:
    """Before and after the window; all mixes of a suite have the same."""
    mix = mixes[0]
    ends = ((0.0, mix.ramp_up_s), (mix.length_s - mix.ramp_down_s, mix.length_s))
    return tuple(ramp for ramp in ends if ramp[1] > ramp[0])


def _line(source: Source, results: Results, style: int, result: ConfigurationResult) -> Series | None:
    if result.peak is None:
        return None
    records = [
        record
        for record in results.used
        if record.configuration == result.name and record.mix == result.peak.mix and record.by_second
    ]
    whole_seconds = int(source.head.mixes[0].length_s)  # a last part of a second would look like a fall
    if not records or whole_seconds < 2:
        return None
    points = tuple(Point(second + 0.5, _mean(records, second)) for second in range(whole_seconds))
    clients = f"{result.peak.clients:,} client{'' if result.peak.clients == 1 else 's'}"
    return Series(f"{result.name}, {clients}", style, points)


def _mean(records: Sequence[MixRecord], second: int) -> float:
    """A second without a row had no operation that ended in it."""
    done = sum(row.operations for record in records for row in record.by_second if row.second == second)
    return done / len(records)
