"""Anomalies to check before a figure is believed: long tails, idle machines, and a single level that decides a result.

The rules are in `analysis.oddities`. Caveats report repetitions that disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from serverdyno.analysis.oddities import TAIL_TIMES, both_idle, decisive, long_tail
from serverdyno.analysis.trust import limits
from serverdyno.report.figures.histograms import QUANTILE_NAMES
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results
from serverdyno.report.model import Finding, Labels, Part
from serverdyno.report.parts import named

MOST_NAMED = 3


def applies(results: Results) -> bool:
    return results.source.closed_load and bool(results.levels)


def build(results: Results) -> Part:
    return Part(findings=partial(_findings, results))


def _findings(results: Results, tables: Labels) -> list[Finding]:
    levels = [(result, level) for result in results.configurations for level in result.finished]
    tails = [
        f"{result.name} with {level.at} ({times:,.0f} times)"
        for result, level in levels
        if (times := _tail(level)) is not None
    ]
    idle = [f"{result.name} with {level.at}" for result, level in levels if _idle(level)]
    decisive = [words for result in results.configurations if (words := _decisive(result))]
    found = []
    if tails:
        claim = (
            f"The slowest responses take over {TAIL_TIMES} times as long as the median (p99.9 over p50): "
            f"{_few(tails)}."
        )
        found.append(Finding("Anomaly", claim, f"{tables['response']}."))
    if idle:
        claim = (
            f"The CPUs of server and generator were both less than half busy: {_few(idle)}. Something else "
            "limited throughput, such as locks, the disk or the network."
        )
        found.append(Finding("Anomaly", claim, f"{tables['costs']}."))
    if decisive:
        found.append(
            Finding(
                "Anomaly",
                f"A single load level dominates the average of {_few(decisive)}.",
                tables["peaks"] + ".",
            )
        )
    return found


def _few(names: Sequence[str]) -> str:
    return named(names, MOST_NAMED)


def _tail(level: LevelFigures) -> float | None:
    if level.response is None:
        return None
    known = dict(zip(QUANTILE_NAMES, level.response.percentiles_ms, strict=True))
    return long_tail(known["p50"], known["p99.9"])


def _idle(level: LevelFigures) -> bool:
    if limits(level.marks) or level.clients < 2:
        return False
    return both_idle(level.server_share, level.cost.generator_cpu_share)


def _decisive(result: ConfigurationResult) -> str:
    place = decisive([level.throughput.mean for level in result.finished])
    return "" if place is None else f"{result.name} (the level with {result.finished[place].at})"
