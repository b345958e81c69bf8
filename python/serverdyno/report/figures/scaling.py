"""Configurations that differ in nothing but the number of their CPUs: what each further one brought.

The table and the law are `analysis.scaling`'s. Here is decided which configurations belong together: the same server
with the same settings, on different numbers of CPUs, whether the plan says so by `cpus` or by a setting of that name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno.analysis.scaling import Law, Step, Trouble, fit_law, speed_ups
from serverdyno.analysis.trust import Mark
from serverdyno.plan.model import Configuration
from serverdyno.report.figures.cores import Cores, cores_of
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.source import Source

COUNT_SETTINGS = ("cpus", "processors")
MOST_GROUPS = 6
"""Lines of one figure, half of them what linear scaling would be."""


@dataclass(frozen=True, slots=True)
class Group:
    """One server on different numbers of CPUs. `left_out`: configurations without throughput."""

    name: str
    by_count: dict[int, ConfigurationResult]
    left_out: tuple[str, ...]
    shared: dict[int, tuple[int, ...]]
    """CPUs that the generator had, too, by the count of the server's; counts with none are not there."""
    cores: dict[int, Cores]
    """Where the CPUs lie, by their count."""

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

    @property
    def marks(self) -> frozenset[Mark]:
        """The marks of all peaks."""
        peaks = (result.peak for result in self.by_count.values())
        return frozenset().union(*(peak.marks for peak in peaks if peak is not None))


def groups(source: Source, results: Results) -> list[Group]:
    """Those with at least two counts of CPUs, each count once."""
    alike: dict[str, list[tuple[int, ConfigurationResult]]] = defaultdict(list)
    for configuration, result in zip(source.head.configurations, results.configurations, strict=True):
        count = _count(configuration)
        if count:
            alike[_all_else(configuration)].append((count, result))
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
        if len(counts) < 2 or len(set(counts)) < len(counts):
            continue
        measured = {
            count: result for count, result in sorted(members, key=lambda pair: pair[0]) if _peak(result) > 0
        }
        left_out = tuple(result.name for count, result in members if count not in measured)
        if len(measured) > 1:
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
    if len(common) > 1 and common[-1] in COUNT_SETTINGS:  # of `nginx-processors-2`: the name of the factor
        common.pop()
    return "-".join(common) or names[0]


def _peak(result: ConfigurationResult) -> float:
    return result.throughput.peak.mean if result.throughput else 0.0
