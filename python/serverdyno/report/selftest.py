"""Judge a self-test, which compares a server with itself: the machine's noise floor and fitness for measurements.

The experiment has two configurations that differ only in name, interleaved. The machine causes any difference.
`probes.noise_floor` stores the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log1p

import numpy as np

from serverdyno import wording
from serverdyno.analysis.improvement import Metric
from serverdyno.errors import DynoError
from serverdyno.report.model import Report

FIT_CPUS = 0.10
"""Maximum number of CPUs that other programs or the hypervisor may use on average. A rule of thumb."""
FIT_SCATTER_PERCENT = 5.0
"""The largest acceptable standard deviation of equal runs. A rule of thumb: three repetitions then detect differences
of about 25 % or more."""
FIT_FLOOR_PERCENT = 10.0
"""The largest acceptable difference of the server from itself. A rule of thumb: beyond it the test is too imprecise."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of a self-test. `floor_percent`: how far the server may differ from itself, by the 95 % interval.

    `scatter_percent`: standard deviation of equal runs. `unfit`: reasons not to measure on this machine, as sentences.
    `remarks`: further sentences.
    """

    floor_percent: float
    scatter_percent: float
    operations_s: float
    unfit: tuple[str, ...]
    remarks: tuple[str, ...]


def judge(report: Report) -> Judged:
    """Judge a finished self-test. Raises DynoError if its data do not suffice."""
    averages = [
        runs.mean(axis=1)
        for result in report.results.configurations
        if len(runs := result.runs.throughput[~np.isnan(result.runs.throughput).any(axis=1)]) > 1
        and (runs > 0).all()
    ]
    found = [
        each
        for comparison in report.comparisons
        for each in comparison.improvements
        if each.figure is Metric.OVERALL_AVERAGE
    ]
    if len(averages) < 2 or not found or found[0].low_percent is None or found[0].high_percent is None:
        raise DynoError("the self-test has too few complete runs for a verdict on this machine")
    floor = max(-log1p(found[0].low_percent / 100), log1p(found[0].high_percent / 100))
    scatter = float(np.sqrt(np.mean([np.log(each).var(ddof=1) for each in averages]))) * 100
    return Judged(
        floor_percent=expm1(floor) * 100,
        scatter_percent=scatter,
        operations_s=float(np.mean(averages)),
        unfit=tuple(_unfit(report, scatter, expm1(floor) * 100)),
        remarks=tuple(_remarks(report)),
    )


def _unfit(report: Report, scatter: float, floor_percent: float) -> list[str]:
    costs = [level.cost for level in report.results.levels]
    why = []
    for taken, who in (
        ([cost.steal_cpus_busy for cost in costs], "the hypervisor"),
        ([cost.others_cpus_busy for cost in costs], "other programs"),
    ):
        known = [cpus for cpus in taken if cpus is not None]
        if known and (mean := float(np.mean(known))) > FIT_CPUS:
            why.append(
                f"{who} used {wording.cpus(mean)} CPUs on average over the load levels; the limit is "
                f"{wording.cpus(FIT_CPUS)}"
            )
    if scatter > FIT_SCATTER_PERCENT:
        why.append(
            f"identical runs scatter by {wording.significant(scatter)} % (standard deviation); the limit is "
            f"{FIT_SCATTER_PERCENT:g} %"
        )
    if floor_percent > FIT_FLOOR_PERCENT:
        why.append(
            f"the server may differ from itself by {wording.significant(floor_percent)} %; the limit is "
            f"{FIT_FLOOR_PERCENT:g} % (more repetitions narrow the interval)"
        )
    return why


def _remarks(report: Report) -> list[str]:
    cpu = report.source.disclosure.get("host", {}).get("cpu", {})
    said = []
    governor = cpu.get("governor")
    if governor not in (None, "performance"):
        said.append(f'the CPUs\' frequency governor is {governor}; with "performance", runs scatter less')
    if governor is None:
        said.append("the CPUs' frequency governor is not known, because this system does not report it")
    shared = [
        configuration
        for configuration in report.source.head.configurations
        if report.source.cpus_shared_with_generator(configuration)
    ]
    if shared:
        said.append("the generator and the server share CPUs, so each slows the other down")
    return said
