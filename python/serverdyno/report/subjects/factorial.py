"""Plans that cross factors of one server: main effects on the overall average, and interactions of two factors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from serverdyno import wording
from serverdyno.analysis.factorial import Effect, complete, effects
from serverdyno.plan.model import Configuration
from serverdyno.report.basis import basis
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.model import (
    Cell,
    Column,
    Figure,
    Finding,
    Labels,
    Panel,
    Part,
    Point,
    Section,
    Series,
    Table,
)
from serverdyno.report.subjects.differences import reason

FEWEST_FACTORS = 2


def applies(results: Results) -> bool:
    return results.source.closed_load and bool(_crossed(results))


def build(results: Results) -> Part:
    found = _crossed(results)
    section = Section(
        "effects", "Main effects", figures=(_chart(found, results),), tables=(_table(found, results),)
    )
    return Part((section,), partial(_findings, found))


def _crossed(results: Results) -> tuple[Effect, ...]:
    """Return the effects; empty unless the configurations are all combinations of two or more factors of one server."""
    source = results.source
    configurations = source.head.configurations
    first = configurations[0]
    if any(
        (each.server, each.url, each.cpus) != (first.server, first.url, first.cpus) for each in configurations
    ):
        return ()
    cells = [_settings(configuration) for configuration in configurations]
    factors = [
        name for name in dict.fromkeys(name for cell in cells for name in cell) if _varies(name, cells)
    ]
    keys = [tuple(cell.get(name, "default") for name in factors) for cell in cells]
    levels = [list(dict.fromkeys(key[place] for key in keys)) for place in range(len(factors))]
    if len(factors) < FEWEST_FACTORS or not complete(levels, keys):
        return ()
    return effects(
        factors,
        dict(zip(keys, sides(results), strict=True)),
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
    )


def _main(found: Sequence[Effect]) -> list[Effect]:
    return [effect for effect in found if not effect.other]


def _interactions(found: Sequence[Effect]) -> list[Effect]:
    return [effect for effect in found if effect.other]


def _settings(configuration: Configuration) -> dict[str, str]:
    words = {True: "on", False: "off"}
    return {
        name: words[value] if isinstance(value, bool) else f"{value}"
        for name, value in configuration.settings.items()
    }


def _varies(name: str, cells: list[dict[str, str]]) -> bool:
    return len({cell.get(name) for cell in cells}) > 1


def _table(found: Sequence[Effect], results: Results) -> Table:
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
        for effect in found
    )
    notes = (
        "Effect: the average throughput with a level of the factor, divided by the average with its first level "
        "(column Against), and averaged over the levels of the other factors. Interaction: the square root of the "
        "ratio of one factor's effects at the two levels of the other. Verdicts are corrected for all effects (Holm "
        "1979); intervals are not.",
        *(f"{_name(effect)} is not comparable: {_why(effect)}." for effect in found if effect.obstacles),
    )
    return Table("effects", 0, "Main effects and interactions", basis(results), columns, rows, notes)


def _chart(found: Sequence[Effect], results: Results) -> Figure:
    points = tuple(
        Series(_name(effect), 0, (Point(0, effect.percent, effect.low_percent, effect.high_percent),))
        for effect in found
    )
    title, line = "Main effects and interactions", f"{basis(results)} Error bars: 95 % intervals."
    panels = (Panel("", "", points),)
    return Figure("effects", 0, title, line, "effects", "Effect on the average, %", panels)


def _name(effect: Effect) -> str:
    return f"{effect.factor} x {effect.other}" if effect.other else f"{effect.factor} {effect.level}"


def verdict(results: Results) -> str:
    """Return `Effects on the average rate: workers 2 instead of 1: +40 %; sendfile: no proven difference`."""
    found = _crossed(results)
    what = "rate" if results.terms.throughput_counts_operations else "throughput"
    if any(effect.proven or effect.obstacles for effect in _main(found)):
        return f"Effects on the average {what}: {'; '.join(_part(effect) for effect in _main(found))}."
    names = wording.listing([effect.factor for effect in _main(found)])
    return f"No winner: no proven effect on the average {what} from {names}."


def margin(results: Results) -> str:
    """Return the interval of each effect, and which effects depend on each other."""
    found = _crossed(results)
    said = "; ".join(_in_full(effect) for effect in _main(found)) + "."
    depends = [effect for effect in _interactions(found) if effect.proven]
    if depends:
        pairs = wording.listing([f"{effect.factor} and {effect.other}" for effect in depends])
        said += f" The effects of {pairs} depend on each other: look at the individual combinations."
    return said


def _part(effect: Effect) -> str:
    if effect.obstacles:
        return f"{_change(effect)}: not comparable"
    if not effect.proven:
        return f"{_change(effect)}: no proven difference"
    bound = ("at least " if effect.percent > 0 else "at most ") if effect.at_least else ""
    return f"{_change(effect)}: {bound}{wording.change(effect.stated_percent)}"


def _in_full(effect: Effect) -> str:
    """Return the effect with its interval. If it is not comparable, add the reason and the measured change."""
    if effect.obstacles:
        return f"{_part(effect)}, since {_why(effect)}; measured {wording.change(effect.percent)} ({_interval(effect)})"
    measured = f"measured {wording.change(effect.percent)}, " if effect.at_least and effect.proven else ""
    return f"{_part(effect)} ({measured}{_interval(effect)})"


def _why(effect: Effect) -> str:
    return wording.listing([reason(each) for each in effect.obstacles])


def _change(effect: Effect) -> str:
    return f"{effect.factor} {effect.level} instead of {effect.base}"


def _interval(effect: Effect) -> str:
    return f"95 % interval {wording.change_span(effect.low_percent, effect.high_percent)}"


def _findings(found: Sequence[Effect], tables: Labels) -> list[Finding]:
    """Return one finding for each main effect and each proven interaction."""
    said = [
        Finding("Main effect", f"{_in_full(effect)}.", f"Mean over all other factors; {tables['effects']}.")
        for effect in _main(found)
    ]
    return said + [
        Finding(
            "Interaction",
            f"The effect of {effect.factor} depends on {effect.other}: their interaction is "
            f"{wording.change(effect.percent)} ({_interval(effect)}).",
            f"Interaction: the square root of the ratio of the two effects; {tables['effects']}.",
        )
        for effect in _interactions(found)
        if effect.proven
    ]
