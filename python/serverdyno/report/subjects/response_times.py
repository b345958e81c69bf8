"""Response times at each load level, and p99 against the throughput.

With a client cache, the median mostly describes answers from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from serverdyno import wording
from serverdyno.analysis.trust import Mark
from serverdyno.report.basis import Over, basis, letters, mark_notes
from serverdyno.report.figures.histograms import QUANTILE_NAMES, QUANTILES, Times
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results
from serverdyno.report.model import Cell, Column, Figure, Panel, Part, Point, Section, Table
from serverdyno.report.parts import (
    NAME,
    TOO_FEW_SAMPLES,
    always,
    capital,
    groups,
    key_to_marks,
    level_column,
    level_figures,
    limited,
    lines_of,
)

RESPONSE_MARKS = {
    Mark.GENERATOR_LIMITED,
    Mark.RATE_BOUND,
    Mark.LINK_BOUND,
    Mark.NOISY,
    Mark.BEHIND,
    Mark.STARVED,
    Mark.STALLED,
}


applies = always


def build(results: Results) -> Part:
    # For open load, the charts are in the summary.
    figures = () if results.source.open else (*charts(results), *tail_against_throughput(results))
    return Part(
        (Section("response", "Response times", figures=figures, tables=(table(results),), folded=True),)
    )


def table(results: Results) -> Table:
    """Return the percentiles of the merged repetitions, one row per load level."""
    rows = [
        (Cell(level.configuration), Cell(wording.whole(level.load)), *_response_cells(level))
        for level in results.levels
    ]
    columns = (
        NAME,
        level_column(results.axis),
        Column("Mean", "ms"),
        *(Column(name, "ms") for name in QUANTILE_NAMES),
        Column("Largest", "ms"),
        Column("Responses"),
        Column("Generator's own queue", "ms"),
        Column("In flight at close", f"{results.terms.operations}; longest, ms"),
    )
    marks = results.marks & RESPONSE_MARKS
    notes = (
        "Percentiles combine the response times of all repetitions; ranges are over the repetitions.",
        TOO_FEW_SAMPLES,
        "Generator's own queue: connections x the generator's CPU time per operation / its threads. If the mean "
        "response time is near this value, the generator is at its limit, and the server answers faster than shown.",
        f"In flight at close: {results.terms.operations} that had not ended when the window closed, and the response "
        "time of the longest. No other figure includes them, so an operation longer than the window appears only "
        "in this column.",
        *mark_notes(marks),
    )
    return Table(
        "response",
        0,
        f"Response times of successful {results.terms.operations}",
        basis(results, Over.TOGETHER),
        columns,
        tuple(rows),
        notes,
    )


def _response_cells(level: LevelFigures) -> list[Cell]:
    mean, *others = _time_cells(level.response, level.response_of_runs)
    longest = wording.significant(level.under_way_longest_ms)
    return [
        replace(mean, marks=letters(level.marks & RESPONSE_MARKS)),
        *others,
        Cell(wording.significant(level.own_queue_ms)),
        Cell(wording.whole(level.under_way_at_close), longest if level.under_way_at_close else ""),
    ]


def _time_cells(times: Times | None, runs: Sequence[Times]) -> list[Cell]:
    if times is None:
        return [*(Cell(wording.NOTHING) for _ in range(len(QUANTILES) + 2)), Cell(wording.whole(0))]
    percentiles = [
        Cell(wording.significant(value), _time_range([run.percentiles_ms[place] for run in runs]))
        for place, value in enumerate(times.percentiles_ms)
    ]
    mean = Cell(wording.significant(times.mean_ms), _time_range([run.mean_ms for run in runs]))
    return [mean, *percentiles, Cell(wording.significant(times.max_ms)), Cell(wording.whole(times.count))]


def _time_range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(known) < len(values):
        return ""
    return f"{wording.significant(min(known))}–{wording.significant(max(known))}"  # noqa: RUF001


def charts(results: Results) -> Iterator[Figure]:
    """Yield charts of the percentiles against the load level, one panel each.

    With a client cache, the median is not drawn, because it mostly describes answers from the cache.
    """

    def panels(group: Sequence[ConfigurationResult]) -> Iterator[Panel]:
        for place, name in enumerate(QUANTILE_NAMES):
            if not (results.terms.below_cache and name == "p50"):
                lines = lines_of(results, group, _percentile_point(place))
                yield Panel(name, "Response time, ms", lines, logarithmic=True)

    title = f"Response time against {results.axis.column}"
    yield from level_figures(results, "response", title, Over.TOGETHER, panels)


def tail_against_throughput(results: Results) -> Iterator[Figure]:
    """Yield charts of p99 against the throughput of each load level."""
    title = "Response time p99 against throughput, from the lowest load level to the highest"
    for suffix, group in groups(results):
        panels = (
            Panel("", "p99, ms", lines_of(results, group, partial(_tail_point, results)), logarithmic=True),
        )
        if panels[0].series:
            under = basis(results, Over.MEAN) + key_to_marks(panels)
            unit = capital(results.terms.unit)
            yield Figure(f"latency{suffix}", 0, title, under, "lines", unit, panels, free_x=True)


def _tail_point(results: Results, level: LevelFigures) -> Point | None:
    tail = level.response and level.response.percentiles_ms[QUANTILE_NAMES.index("p99")]
    if not tail:
        return None
    point = limited(Point(level.throughput.mean, tail), level.marks)
    return replace(point, label=wording.plural(level.load, results.axis.noun))


def _percentile_point(place: int) -> Callable[[LevelFigures], Point | None]:
    def point(level: LevelFigures) -> Point | None:
        value = level.response.percentiles_ms[place] if level.response else None
        if not value:
            return None
        runs = [times.percentiles_ms[place] for times in level.response_of_runs]
        known = [run for run in runs if run]
        if len(known) < 2 or len(known) < len(runs):
            return Point(level.load, value)
        return Point(level.load, value, min(known), max(known))

    return point
