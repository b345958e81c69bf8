"""Odd repetitions, which comparisons leave out: which ones, and what happened on the host meanwhile.

The rule is in `analysis.contrast`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median

from serverdyno import wording
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import DISK_SHARE, TAKEN_SHARE
from serverdyno.report.figures.generator import cpus_busy, run_delay_share, taken_cpus
from serverdyno.report.model import Finding
from serverdyno.store.records import MixRecord

UNEXPLAINED = "Nothing that was measured on the host explains it."


def findings(
    comparisons: Sequence[Comparison], records: Mapping[str, Sequence[MixRecord]], table: str
) -> list[Finding]:
    """Return one finding for each odd repetition. `records`: of each side, by its name."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for comparison in comparisons:
        for each in comparison.improvements:
            if each.odd is not None:
                name = comparison.base if each.odd.of_base else comparison.other
                found.setdefault((name, each.odd.repetition), {})[each.figure.value] = each.odd.percent
    return [
        Finding(
            "Odd repetition",
            f"Repetition {number} of {name} is far from the others "
            f"({wording.listing([f'{wording.change(percent)} in {figure}' for figure, percent in figures.items()])}), "
            f"so comparisons leave it out. {_reason(records.get(name, ()), number)}",
            f"{table}; curves and means contain it.",
        )
        for (name, number), figures in found.items()
    ]


def _reason(records: Sequence[MixRecord], number: int) -> str:
    """What the host did in that repetition and not in the others."""
    return " ".join(_reasons(records, number)) or UNEXPLAINED


def _reasons(records: Sequence[MixRecord], number: int) -> Iterator[str]:
    for figure, unusual, words, written in (
        (taken_cpus, TAKEN_SHARE, "Other programs and the hypervisor used {} CPUs meanwhile", wording.cpus),
        (run_delay_share, TAKEN_SHARE, "The generator waited for a CPU for {} of the time", wording.share),
        (_disk_share, DISK_SHARE, "Programs waited for a disk for {} of the time", wording.share),
    ):
        by_run = _by_run(records, figure)
        others = [value for run, value in by_run.items() if run != number]
        if number in by_run and others and by_run[number] - median(others) > unusual:
            yield f"{words.format(written(by_run[number]))}, and {written(median(others))} in its other repetitions."


def _by_run(records: Sequence[MixRecord], figure: Callable[[MixRecord], float | None]) -> dict[int, float]:
    """The mean over the load levels of each repetition."""
    known: dict[int, list[float]] = {}
    for record in records:
        if (value := figure(record)) is not None:
            known.setdefault(record.repetition, []).append(value)
    return {run: fmean(values) for run, values in known.items()}


def _disk_share(record: MixRecord) -> float | None:
    return cpus_busy(record.io_wait_s, record)
