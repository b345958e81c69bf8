"""The table and the drawing of tunings, one by one and together."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.analysis.ablation import Effect, Role
from serverdyno.analysis.improvement import Improvement
from serverdyno.report.figures.tuning import Design
from serverdyno.report.model import Cell, Column, Figure, Panel, Point, Series, Table
from serverdyno.report.subjects.differences import reason
from serverdyno.report.words.tuning import correction


def table(design: Design, effects: Sequence[Effect], basis: str) -> Table:
    """One row an effect and figure."""
    columns = (
        Column("Configuration", numeric=False),
        Column("Compared", numeric=False),
        Column("Figure", numeric=False),
        Column("Improvement"),
        Column("95 % interval"),
        Column("Verdict", numeric=False),
        Column("n", "runs"),
    )
    rows = tuple(_row(design, effect, found) for effect in effects for found in effect.found)
    made_for = correction(effects)
    corrected = f" Verdicts are corrected for {made_for}; intervals stand alone." if made_for else ""
    notes = (f"Baseline: {design.baseline}.{corrected}",)
    return Table("tuning", 0, "Tunings one by one and together", basis, columns, rows, notes, key_columns=2)


def _row(design: Design, effect: Effect, found: Improvement) -> tuple[Cell, ...]:
    return (
        Cell(effect.name, design.changes[effect.name]),
        Cell(effect.role.value),
        Cell(found.figure.value),
        Cell(wording.change(found.percent), strong=True),
        Cell(wording.change_span(found.low_percent, found.high_percent)),
        Cell(
            found.verdict.value,
            "; ".join(reason(each) for each in effect.comparison.obstacles.get(found.figure, ())),
        ),
        Cell(f"{found.repetitions}"),
    )


def figure(effects: Sequence[Effect], basis: str) -> list[Figure]:
    """Each effect on the overall average with its interval; nothing where no effect could be computed."""
    points = tuple(
        Series(
            f"{effect.name}: step" if effect.role is Role.STEP else effect.name,
            0,
            (Point(0, of_it.percent, of_it.low_percent, of_it.high_percent),),
        )
        for effect in effects
        if (of_it := effect.found[0]).percent is not None
    )
    if not points:
        return []
    title = "What each change and all together do to the overall average"
    line = f"{basis} Bars: 95 % intervals, where there are two repetitions."
    panels = (Panel("", "", points),)
    return [Figure("tuning", 0, title, line, "effects", "Improvement of the overall average, %", panels)]
