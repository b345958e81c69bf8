"""Scaling over CPUs: configurations that differ only in their number of CPUs, and the gain of each CPU.

`analysis.scaling` computes speed-ups and the law. This module groups the configurations: the same server and settings
with different numbers of CPUs, given by `cpus` or by a setting of that name. `fleet/placement.py` assigns CPUs to
servers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from serverdyno import wording
from serverdyno.analysis.scaling import Law, Step, Trouble, fit_law, speed_ups
from serverdyno.analysis.trust import LIMITS, Mark, limits
from serverdyno.plan.model import Configuration
from serverdyno.plan.protocols.work import Terms
from serverdyno.report.basis import basis, letters, mark_notes
from serverdyno.report.figures.results import ConfigurationResult, Results
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
from serverdyno.report.parts import NAME, spread_point
from serverdyno.report.source import Source

COUNT_SETTINGS = ("cpus", "processors")
MOST_GROUPS = 6
"""Maximum number of groups in one figure; each has an additional line for linear scaling."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores and NUMA nodes of a configuration's CPUs.

    `count`: cores with at least one of the CPUs. `hyperthreads`: the CPUs that share a core, one tuple per core.
    `nodes`: NUMA nodes. None: not disclosed, as in earlier versions.
    """

    count: int | None
    hyperthreads: tuple[tuple[int, ...], ...]
    nodes: tuple[int, ...] | None


UNKNOWN = Cores(None, (), None)
Cpus = Annotated[str, Field(pattern=r"^(\d{1,9}(-\d{1,9})?(,|$))*$")]
"""A CPU list in the kernel's format: `0-3,8`."""


class _Disclosed(BaseModel):
    """The CPU topology of the machine that measured, as stored. It may differ from this machine's."""

    thread_siblings: list[Cpus] = []
    numa_node_cpus: dict[int, Cpus | None] = {}


def cores_of(source: Source, configuration: Configuration) -> Cores:
    """Return the cores and NUMA nodes of a configuration's CPUs; unknown for a server on a node of a fleet."""
    if configuration.node is not None or not configuration.cpus:
        return UNKNOWN
    try:
        disclosed = _Disclosed.model_validate(source.disclosure.get("host", {}).get("cpu", {}))
    except ValidationError:
        return UNKNOWN
    cores = [_among(configuration.cpus, listed) for listed in disclosed.thread_siblings]
    nodes = [node for node, listed in disclosed.numa_node_cpus.items() if _among(configuration.cpus, listed)]
    return Cores(
        sum(1 for shared in cores if shared) or None,
        tuple(shared for shared in cores if len(shared) > 1),
        tuple(sorted(nodes)) or None,
    )


def _among(cpus: Iterable[int], listed: Cpus | None) -> tuple[int, ...]:
    ranges = [part.partition("-") for part in (listed or "").split(",") if part]
    return tuple(
        sorted(
            cpu for cpu in cpus if any(int(first) <= cpu <= int(last or first) for first, _, last in ranges)
        )
    )


@dataclass(frozen=True, slots=True)
class Group:
    """One server with different numbers of CPUs. `left_out`: configurations without throughput."""

    name: str
    by_count: dict[int, ConfigurationResult]
    left_out: tuple[str, ...]
    shared: dict[int, tuple[int, ...]]
    """The CPUs shared with the generator, by the number of the server's CPUs; numbers without any are absent."""
    cores: dict[int, Cores]
    """The cores and NUMA nodes, by the number of the server's CPUs."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the speed-ups of the peaks."""
        return speed_ups({count: _peak(result) for count, result in self.by_count.items()})

    @property
    def law(self) -> Law | Trouble:
        counts, figures = [], []
        for count, result in self.by_count.items():
            assert result.throughput is not None  # `groups` takes only results with throughput
            for value in result.runs.throughput[:, result.throughput.peak_level]:
                if value > 0:
                    counts.append(float(count))
                    figures.append(float(value))
        return fit_law(counts, figures)

    @property
    def marks(self) -> frozenset[Mark]:
        peaks = (result.peak for result in self.by_count.values())
        return frozenset().union(*(peak.marks for peak in peaks if peak is not None))


def applies(results: Results) -> bool:
    return results.source.closed_load and bool(groups(results))


def build(results: Results) -> Part:
    found = groups(results)
    section = Section(
        "scaling",
        "Scaling over CPUs",
        text=tuple(_law(group, results.terms) for group in found),
        figures=(_chart(found, results),),
        tables=(_table(found, results),),
    )
    return Part((section,), lambda tables: [_finding(group, tables) for group in found])


def groups(results: Results, fewest: int = 2) -> list[Group]:
    """Return the groups that have at least `fewest` different numbers of CPUs."""
    source = results.source
    alike: dict[str, list[tuple[int, ConfigurationResult]]] = defaultdict(list)
    for configuration, result in zip(source.head.configurations, results.configurations, strict=True):
        count = _count(configuration)
        if count:
            alike[all_but_cpus(configuration)].append((count, result))
    shared_by = {
        configuration.name: tuple(source.cpus_shared_with_generator(configuration))
        for configuration in source.head.configurations
    }
    cores_by = {
        configuration.name: cores_of(source, configuration) for configuration in source.head.configurations
    }
    found = []
    for members in alike.values():
        counts = [count for count, _ in members]
        if len(counts) < fewest or len(set(counts)) < len(counts):
            continue
        measured = {
            count: result for count, result in sorted(members, key=lambda pair: pair[0]) if _peak(result) > 0
        }
        left_out = tuple(result.name for count, result in members if count not in measured)
        if len(measured) >= fewest:
            shared = {count: cpus for count, result in measured.items() if (cpus := shared_by[result.name])}
            name = _common_name([result.name for _, result in members])
            cores = {count: cores_by[result.name] for count, result in measured.items()}
            found.append(Group(name, measured, left_out, shared, cores))
    return found[:MOST_GROUPS]


def _count(configuration: Configuration) -> int:
    for name in COUNT_SETTINGS:
        value = configuration.settings.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return len(configuration.cpus)


def all_but_cpus(configuration: Configuration) -> str:
    """Return everything except the number of CPUs, as a text that can be compared."""
    settings = {name: value for name, value in configuration.settings.items() if name not in COUNT_SETTINGS}
    return repr((configuration.server, sorted(settings.items()), configuration.url, configuration.bounds))


def _common_name(names: Sequence[str]) -> str:
    """Return the common prefix (`samba` for `samba-1-cpu` and `samba-2-cpus`); without one, the first name."""
    parts = [name.split("-") for name in names]
    common = []
    for column in zip(*parts, strict=False):
        if len(set(column)) > 1 or column[0].isdigit():
            break
        common.append(column[0])
    if len(common) > 1 and common[-1] in COUNT_SETTINGS:  # the factor's name in `nginx-processors-2`
        common.pop()
    return "-".join(common) or names[0]


def _peak(result: ConfigurationResult) -> float:
    return result.throughput.peak.mean if result.throughput else 0.0


def _table(found: Sequence[Group], results: Results) -> Table:
    terms = results.terms
    columns = (
        Column("Server", numeric=False),
        Column("CPUs"),
        NAME,
        Column("Peak", terms.unit),
        Column("Speed-up", "over the fewest CPUs"),
        Column("Efficiency", "share of linear scaling"),
        Column("Change", "from the previous number"),
        Column("Scaling", numeric=False),
        Column("Cores"),
        Column("NUMA nodes", numeric=False),
    )
    rows = tuple(_row(group, step, terms) for group in found for step in group.steps)
    marks: frozenset[Mark] = frozenset().union(*(group.marks for group in found))
    notes = (
        "Negative: the mean throughput is lower than with fewer CPUs. The table of improvements shows whether "
        "the difference is proven.",
        *mark_notes(marks),
    )
    return Table("scaling", 0, "Scaling over CPUs", basis(results), columns, rows, notes, key_columns=2)


def _row(group: Group, step: Step, terms: Terms) -> tuple[Cell, ...]:
    result = group.by_count[step.count]
    marks = result.peak.marks if result.peak else frozenset()
    cores = group.cores[step.count]
    return (
        Cell(group.name),
        Cell(wording.whole(step.count)),
        Cell(result.name),
        Cell(terms.written(step.throughput), marks=letters(marks)),
        Cell(wording.places(step.speed_up, 2)),
        Cell(wording.share(step.efficiency)),
        Cell(wording.change(None if step.change is None else 100 * step.change)),
        Cell("negative" if step.negative else "", strong=step.negative),
        Cell(wording.whole(cores.count)),
        Cell(wording.NOTHING if cores.nodes is None else wording.listing(list(map(str, cores.nodes)))),
    )


def _chart(found: Sequence[Group], results: Results) -> Figure:
    series = []
    for place, group in enumerate(found):
        spreads = [
            (count, result.throughput.peak) for count, result in group.by_count.items() if result.throughput
        ]
        points = tuple(spread_point(count, spread) for count, spread in spreads)
        first, each = spreads[0][0], spreads[0][1].mean / spreads[0][0]
        assert first == min(group.by_count)  # the spreads are in order of counts
        series.append(Series(group.name, 2 * place % MOST_GROUPS, points))
        linear = tuple(Point(count, count * each) for count, _ in spreads)
        series.append(Series(f"{group.name}, linear", (2 * place + 1) % MOST_GROUPS, linear))
    panel, title = Panel("", results.terms.unit, tuple(series)), "Peak against the number of CPUs"
    return Figure("scaling", 0, title, basis(results), "lines", "CPUs", (panel,))


def _law(group: Group, terms: Terms) -> str:
    """Return the fit of the Universal Scalability Law to a group and its prediction, or why there is none."""
    law = group.law
    if isinstance(law, Trouble):
        return (
            f"{group.name}: {law.value} were measured. The Universal Scalability Law (Gunther 2007) is not fitted, "
            "so there is no prediction for more CPUs."
        )
    fit = f"R squared {wording.significant(law.r_squared)}, error {wording.share(law.relative_error)} of the mean"
    if law.trouble is not None:
        return f"{group.name}: {law.trouble.value} ({fit}), so there is no prediction for more CPUs."
    sigma, kappa = (
        f"{wording.significant(each.value)} ({wording.significant(each.low)} to "
        f"{'no upper bound' if each.high is None else wording.significant(each.high)})"
        for each in (law.sigma, law.kappa)
    )
    most = (
        "The figures show no maximum, or one far beyond the tested numbers of CPUs."
        if law.peak_count is None
        else f"By this law, throughput is highest at about {wording.significant(law.peak_count.value)} CPUs."
    )
    return (
        f"{group.name} by the Universal Scalability Law (Gunther 2007), with 95 % intervals: contention {sigma}, "
        f"coherency {kappa}, throughput of one CPU {terms.written(law.lam.value)} {terms.unit}; {fit}. {most}"
    )


def _finding(group: Group, tables: Labels) -> Finding:
    steps = group.steps
    fewest, most = steps[0], steps[-1]
    claim = (
        f"{group.name} with {most.count} CPUs has {most.speed_up:.2f} times its peak with {fewest.count}: "
        f"{wording.share(most.efficiency)} of linear scaling."
    )
    if negative := [f"{step.count}" for step in steps if step.negative]:
        claim += f" Scaling was negative at {wording.listing(negative)} CPUs: less throughput than with fewer CPUs."
    for count, cpus in group.shared.items():
        listed = wording.listing(list(map(str, cpus)))
        claim += (
            f" With {count} CPUs, the generator also ran on CPU {listed} and took CPU time from the server."
        )
    claim += _of_cores(group)
    words = {LIMITS[mark] for mark in limits(group.marks)}
    if words:
        claim += f" At least one peak is {wording.listing(sorted(words))}, so the server may scale better."
    if group.left_out:
        claim += f" Left out, because they have no throughput: {wording.listing(group.left_out)}."
    return Finding(
        "Scaling", claim, f"Computed from the highest mean of each configuration; {tables['scaling']}."
    )


def _of_cores(group: Group) -> str:
    """Return which CPUs share a core, and which counts span several NUMA nodes; both limit scaling."""
    said = ""
    for count, cores in group.cores.items():
        if cores.hyperthreads:
            pairs = (wording.listing(list(map(str, cpus))) for cpus in cores.hyperthreads)
            said += (
                f" The {count} CPUs are {wording.plural(cores.count or 0, 'core')}; hyperthreads of one core: CPUs "
                f"{'; CPUs '.join(pairs)}."
            )
        if cores.nodes is not None and len(cores.nodes) > 1:
            said += f" The {count} CPUs are on NUMA nodes {wording.listing(list(map(str, cores.nodes)))}."
    return said
