"""The table and the drawing of crossed factors: what each does on average over the settings of the others."""

from __future__ import annotations

from serverdyno import wording
from serverdyno.analysis.factorial import Effect
from serverdyno.report.figures.factorial import Crossed
from serverdyno.report.model import Cell, Column, Figure, Panel, Point, Series, Table
from serverdyno.report.words.factorial import why


def table(found: Crossed, basis: str) -> Table:
    """One row an effect."""
    columns = (
        Column("Factor", numeric=False),
        Column("Level", numeric=False),
        Column("Against", numeric=False),
        Column("Effect"),
        Column("95 % interval"),
        Column("Verdict", numeric=False),
    )
    rows = tuple(
        (
            Cell(f"{effect.factor} x {effect.other}" if effect.other else effect.factor),
            Cell("interaction" if effect.other else effect.level),
            Cell(wording.NOTHING if effect.other else effect.base),
            Cell(wording.change(effect.percent), strong=effect.proven),
            Cell(wording.change_span(effect.low_percent, effect.high_percent)),
            Cell("proven" if effect.proven else effect.verdict.value),
        )
        for effect in found.effects
    )
    notes = (
        "Effect: the ratio of the averages over all load levels, in the mean over the settings of the other factors. "
        "Interaction: half the ratio of one factor's effect at the two levels of the other. Verdicts hold for all "
        "effects together (Holm 1979); each interval stands alone.",
        *(
            f"{_name(effect)} is not comparable: {why(effect)}."
            for effect in found.effects
            if effect.obstacles
        ),
    )
    return Table("effects", 0, "Main effects and interactions", basis, columns, rows, notes)


def figures(found: Crossed, basis: str) -> tuple[Figure, ...]:
    """Each effect with its interval."""
    if not found.effects:
        return ()
    points = tuple(
        Series(_name(effect), 0, (Point(0, effect.percent, effect.low_percent, effect.high_percent),))
        for effect in found.effects
    )
    panels = (Panel("", "", points),)
    line = f"{basis} Rules: 95 % intervals."
    return (
        Figure(
            "effects", 0, "Main effects and interactions", line, "effects", "Effect on the average, %", panels
        ),
    )


def _name(effect: Effect) -> str:
    return f"{effect.factor} x {effect.other}" if effect.other else f"{effect.factor} {effect.level}"
