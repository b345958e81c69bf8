"""Scaling over CPUs: what each further one brought, where a plan's configurations differ in nothing else.

The table and the law are `analysis.scaling`'s. Here is decided which configurations belong together: the same server
with the same settings, on different numbers of CPUs, whether the plan says so by `cpus` or by a setting of that name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno import wording
from serverdyno.analysis.scaling import Law, Step, Trouble, fit_law, speed_ups
from serverdyno.analysis.trust import LIMITS, Mark, limits
from serverdyno.plan.model import Configuration
from serverdyno.protocols.work import Terms
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Cell, Column, Figure, Finding, Panel, Point, Series, Table
from serverdyno.report.source import Source
from serverdyno.report.words.basis import letters, mark_notes

COUNT_SETTINGS = ("cpus", "processors")
MOST_GROUPS = 6
"""Lines of one figure, half of them what linear scaling would be."""


@dataclass(frozen=True, slots=True)
class Group:
    """One server on different numbers of CPUs. `left_out`: configurations without throughput."""

    name: str
    by_count: dict[int, ConfigurationResult]
    left_out: tuple[str, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The speed-up table, of the highest means."""
        return speed_ups({count: _peak(result) for count, result in self.by_count.items()})

    @property
    def law(self) -> Law | Trouble:
        """The law of the single runs, each read at the mix where the mean of its configuration has its peak."""
        counts, figures = [], []
        for count, result in self.by_count.items():
            assert result.throughput is not None  # `groups` took only those that have one
            for value in result.runs.throughput[:, result.throughput.peak_mix]:
                if value > 0:
                    counts.append(float(count))
                    figures.append(float(value))
        return fit_law(counts, figures)


def groups(source: Source, results: Results) -> list[Group]:
    """Those with at least two counts of CPUs, each count once."""
    alike: dict[str, list[tuple[int, ConfigurationResult]]] = defaultdict(list)
    for configuration, result in zip(source.head.configurations, results.configurations, strict=True):
        count = _count(configuration)
        if count:
            alike[_all_else(configuration)].append((count, result))
    found = []
    for members in alike.values():
        counts = [count for count, _ in members]
        if len(counts) < 2 or len(set(counts)) < len(counts):
            continue
        measured = {
            count: result for count, result in sorted(members, key=lambda pair: pair[0]) if _peak(result) > 0
        }
        left_out = tuple(result.name for count, result in members if count not in measured)
        if len(measured) > 1:
            found.append(Group(_common_name([result.name for _, result in members]), measured, left_out))
    return found[:MOST_GROUPS]


def _count(configuration: Configuration) -> int:
    for name in COUNT_SETTINGS:
        value = configuration.settings.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return len(configuration.cpus)


def _all_else(configuration: Configuration) -> str:
    """Everything but the number of CPUs, in a form that can be held against another's."""
    settings = {name: value for name, value in configuration.settings.items() if name not in COUNT_SETTINGS}
    return repr((configuration.server, sorted(settings.items()), configuration.url, configuration.bounds))


def _common_name(names: Sequence[str]) -> str:
    """The parts that all names begin with, `samba` of `samba-1-cpu` and `samba-2-cpus`; else the first name."""
    parts = [name.split("-") for name in names]
    common = []
    for column in zip(*parts, strict=False):
        if len(set(column)) > 1 or column[0].isdigit():
            break
        common.append(column[0])
    return "-".join(common) or names[0]


def _peak(result: ConfigurationResult) -> float:
    return result.throughput.peak.mean if result.throughput else 0.0


def table(found: Sequence[Group], terms: Terms, basis: str) -> Table:
    """One row a group and count."""
    columns = (
        Column("Server", numeric=False),
        Column("CPUs"),
        Column("Configuration", numeric=False),
        Column("Peak", terms.unit),
        Column("Speed-up", "over the fewest"),
        Column("Efficiency", "of linear"),
        Column("Change", "from the count before"),
        Column("Scaling", numeric=False),
    )
    rows = tuple(_row(group, step, terms) for group in found for step in group.steps)
    marks: frozenset[Mark] = frozenset().union(*(_marks(group) for group in found))
    notes = (
        "Negative: less throughput than with fewer CPUs, by the means alone; whether a difference is shown is in the "
        "table of improvements.",
        *mark_notes(marks),
    )
    return Table("scaling", 0, "Scaling over CPUs", basis, columns, rows, notes, key_columns=2)


def _marks(group: Group) -> frozenset[Mark]:
    peaks = (result.peak for result in group.by_count.values())
    return frozenset().union(*(peak.marks for peak in peaks if peak is not None))


def _row(group: Group, step: Step, terms: Terms) -> tuple[Cell, ...]:
    result = group.by_count[step.count]
    marks = result.peak.marks if result.peak else frozenset()
    return (
        Cell(group.name),
        Cell(f"{step.count}"),
        Cell(result.name),
        Cell(terms.written(step.throughput), marks=letters(marks)),
        Cell(f"{step.speed_up:.2f}"),
        Cell(wording.share(step.efficiency)),
        Cell(wording.change(None if step.change is None else 100 * step.change)),
        Cell("negative" if step.negative else "", strong=step.negative),
    )


def figure(found: Sequence[Group], terms: Terms, basis: str) -> Figure:
    """The peak against the number of CPUs, and what linear scaling would be."""
    series = []
    for place, group in enumerate(found):
        spreads = [
            (count, result.throughput.peak) for count, result in group.by_count.items() if result.throughput
        ]
        points = tuple(
            Point(count, spread.mean, *((spread.minimum, spread.maximum) if spread.n > 1 else (None, None)))
            for count, spread in spreads
        )
        first, each = spreads[0][0], spreads[0][1].mean / spreads[0][0]
        assert first == min(group.by_count)  # they are in order
        series.append(Series(group.name, 2 * place % MOST_GROUPS, points))
        linear = tuple(Point(count, count * each) for count, _ in spreads)
        series.append(Series(f"{group.name}, linear", (2 * place + 1) % MOST_GROUPS, linear))
    panel = Panel("", terms.unit, tuple(series))
    return Figure("scaling", 0, "Peak against the number of CPUs", basis, "lines", "CPUs", (panel,))


def law_text(group: Group, terms: Terms) -> str:
    """What the Universal Scalability Law says of a group, or why it says nothing."""
    law = group.law
    if isinstance(law, Trouble):
        return (
            f"{group.name}: the Universal Scalability Law (Gunther 2007) is not fitted to {law.value}, so nothing is "
            "said of more CPUs."
        )
    fit = f"R squared {wording.significant(law.r_squared)}, error {wording.share(law.relative_error)} of the mean"
    if law.trouble is not None:
        return f"{group.name}: {law.trouble.value} ({fit}), so nothing is predicted."
    sigma, kappa = (
        f"{wording.significant(each.value)} ({wording.significant(each.low)} to "
        f"{'no upper end' if each.high is None else wording.significant(each.high)})"
        for each in (law.sigma, law.kappa)
    )
    most = (
        "The figures allow that there is no maximum, or it lies too far beyond them."
        if law.peak_count is None
        else f"The throughput is highest at about {wording.significant(law.peak_count.value)} CPUs."
    )
    return (
        f"{group.name} by the Universal Scalability Law (Gunther 2007), with 95 % intervals: contention {sigma}, "
        f"coherency {kappa}, one CPU {terms.written(law.lam.value)} {terms.unit}; {fit}. {most}"
    )


def findings(found: Sequence[Group], tables: dict[str, str]) -> list[Finding]:
    """One of each group: from the fewest CPUs to the most, and where more brought less."""
    return [_finding(group, tables) for group in found]


def _finding(group: Group, tables: dict[str, str]) -> Finding:
    steps = group.steps
    fewest, most = steps[0], steps[-1]
    claim = (
        f"{group.name} with {most.count} CPUs has {most.speed_up:.2f} times the peak that it has with {fewest.count}: "
        f"{wording.share(most.efficiency)} of linear scaling."
    )
    if negative := [f"{step.count}" for step in steps if step.negative]:
        claim += (
            f" Scaling was negative at {wording.listing(negative)} CPUs: less than with the count before."
        )
    words = {LIMITS[mark] for mark in limits(_marks(group))}
    if words:
        claim += f" A peak is {wording.listing(sorted(words))}, so the server may scale better."
    if group.left_out:
        claim += f" Without throughput, so left out: {wording.listing(group.left_out)}."
    return Finding("Scaling", claim, f"Highest means; {tables['scaling']}.")
