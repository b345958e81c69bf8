"""The report as one JSON document with a published schema: all sentences, and the main figures, unrounded.

`docs/report.schema.json` is generated from `ReportDocument`; a test keeps it current. Programs read `configurations`
and `comparisons`; the rest is for people. None (`null`) means unknown, never zero.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Any, Literal, Self, TypeVar

from pydantic import TypeAdapter

from serverdyno.analysis.curve import Spread, spread
from serverdyno.analysis.improvement import Metric as Compared
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import LIMITS, Mark, limits
from serverdyno.plan.expand import levels_by_configuration
from serverdyno.plan.spoken import protocols_of
from serverdyno.report.figures.histograms import QUANTILES, Times
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures
from serverdyno.report.figures.steps import Step, figures_of, mean_requests
from serverdyno.report.model import Answer, Disclosure, Fact, Finding, Report, Section
from serverdyno.report.subjects import differences, durability
from serverdyno.report.subjects.outages import OutageFigures
from serverdyno.report.subjects.outages import outages as figures_of_outages
from serverdyno.units import percentile_name

SCHEMA_NAME = "report.schema.json"
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class ExperimentFacts:
    """The experiment. `unit`: of throughput. `second_unit`: of the second figure. `scale` 1: suite in full length."""

    name: str
    suite: str
    protocol: str
    created: str
    tool_version: str
    seed: int
    scale: float
    order: str
    minimum_effect_percent: float
    unit: str
    second_unit: str
    planned_levels: int
    finished_levels: int


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """Response times of all repetitions together, in ms; a percentile with too few samples is null."""

    count: int
    mean_ms: float
    deviation_ms: float
    min_ms: float
    max_ms: float
    percentiles_ms: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """The figures of one load level of one configuration.

    `below_cache_mbit_s`: all bytes between clients and a file server, both ways; null for web servers.
    `clients_starved`: clients that stayed and completed nothing in the window, in the repetition with the most.
    `stalled_seconds`: seconds of the window without a success, counted from the level's start, by repetition.
    `fairness`: Jain's index over the clients. `marks`: names of the caveats on the figure; `limited_by`: those marks
    that limit the figure. `waiting_share`: largest share of the clients' time spent waiting in or for the generator.
    `hidden_speed`: upper bound on how much faster the server may be than shown (0.25: 25 %). Both are null if unknown.
    """

    index: int
    clients: int
    threads: int
    repetitions: int
    window_s: float
    throughput: Spread
    second: Spread
    operations_s: Spread
    below_cache_mbit_s: Spread | None
    clients_took_part: int
    clients_left: int
    clients_starved: int
    stalled_seconds: dict[int, tuple[int, ...]]
    fairness: Spread | None
    errors: dict[str, int]
    response: ResponseTimes | None
    generator_cpu_share: float
    waiting_share: float | None
    hidden_speed: float | None
    marks: tuple[str, ...]
    limited_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeakFigures:
    """The peak. Noise inflates `highest_mean` but not `cross_validated`, whose 95 % interval is `low` to `high`.

    `not_told_apart_clients`: the load levels among which the true peak may be.
    """

    clients: int
    highest_mean: float
    cross_validated: float | None
    low: float | None
    high: float | None
    not_told_apart_clients: tuple[int, ...] | None
    lower_bound: bool


@dataclass(frozen=True, slots=True)
class Fall:
    """A dip, drop or collapse. `times_critical`: statistic / critical value; null without any noise."""

    kind: str
    first_clients: int
    deepest_clients: int
    last_clients: int
    lost_share: float
    times_critical: float | None


@dataclass(frozen=True, slots=True)
class OutageSummary:
    """The outages of one configuration over all load levels and repetitions.

    Times are null if too many clients were not served again before the end of their level: half for the median, more
    than 1 % for p99, any for `slowest_s`. `went_on`: clients that kept their open files. `blocks_lost`: lost blocks
    that were acknowledged and flushed; null if unknown.
    """

    outages: int
    clients: int
    never_back: int
    back_median_s: float | None
    back_p99_s: float | None
    slowest_s: float | None
    went_on: int
    failed_operations: int
    blocks_read_back: int | None
    blocks_lost: int | None
    blocks_wrong: int | None
    wrong_reads: int
    unflushed_lost: int | None


@dataclass(frozen=True, slots=True)
class ConfigurationFigures:
    """The figures of one configuration. `factors`: the level of each factor of its server.

    `falls`: null if they can't be judged; empty if there are none. `flush_outcome`: the effect of a flush in words.
    `flushes` (answered) and `syncs` (of the server's processes) are counted in the windows of all its runs. These
    three are null for web servers and if unknown. `outages`: null if there was no outage.
    """

    name: str
    factors: dict[str, Any]
    peak: PeakFigures | None
    overall_average: Spread | None
    kept_share: float | None
    kept_low: float | None
    kept_high: float | None
    near_peak_clients: int | None
    falls: tuple[Fall, ...] | None
    flush_outcome: str | None
    flushes: int | None
    syncs: int | None
    levels: tuple[LevelSummary, ...]
    outages: OutageSummary | None


@dataclass(frozen=True, slots=True)
class ComparisonFigures:
    """The comparison of one figure of `other` with the same figure of `base`.

    `corrected_for`: the number of comparisons that the verdict is corrected for; null without an interval.
    `found_percent`: the smallest detectable difference (found in four of five cases). `repetitions_needed`:
    repetitions to detect 5 % as often. `left_out`: the outlying repetition, which these figures exclude.
    `part_of_a_pass`: clients of either side made, on average, less than one pass of the workload in a window, so the
    two got different operations. `not_comparable_because`: the reason for the verdict "not comparable".
    `differs_in_durability`: a flush had different effects in the two; null if unknown.
    """

    base: str
    other: str
    figure: Compared
    base_value: float | None
    other_value: float | None
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    repetitions: int
    left_out: str | None
    paired: bool
    minimum_percent: float
    equivalence_percent: float
    verdict: Verdict
    not_comparable_because: tuple[str, ...]
    corrected_for: int | None
    found_percent: float | None
    repetitions_needed: int | None
    limited: tuple[str, ...]
    part_of_a_pass: bool
    differs_in_durability: bool | None


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One step on one configuration. `bytes`, `requests`: means of the repetitions."""

    configuration: str
    elapsed_s: Spread
    user_s: Spread
    system_s: Spread
    bytes: float
    requests: dict[str, float]


@dataclass(frozen=True, slots=True)
class StepComparison:
    """Speed of `other` against `base`, in percent. `verdict`: corrected for all steps and pairs."""

    base: str
    other: str
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    repetitions: int
    paired: bool
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One step. `leader`: null if no configuration is proven faster than all others."""

    suite: str
    step: str
    state: str
    leader: str | None
    configurations: tuple[StepTimes, ...]
    comparisons: tuple[StepComparison, ...]


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """A report of Serverdyno. `warnings` come before all figures; tables and figures are numbered as in the page."""

    schema_version: Literal[1]
    title: str
    particulars: tuple[Fact, ...]
    warnings: tuple[str, ...]
    summary: Section
    findings: tuple[Finding, ...]
    methodology: tuple[Fact, ...]
    sections: tuple[Section, ...]
    testbed: Section
    disclosure: tuple[Disclosure, ...]
    reproduce: Disclosure
    experiment: ExperimentFacts
    answer: Answer
    configurations: tuple[ConfigurationFigures, ...]
    comparisons: tuple[ComparisonFigures, ...]
    steps: tuple[StepFigures, ...]

    @classmethod
    def of(cls, report: Report) -> Self:
        told = durability.flush_summaries(report.results.promises)
        levels = levels_by_configuration(report.source.head.plan)
        outages = {found.name: _outages(found) for found in figures_of_outages(report.results)}
        return copied(
            cls,
            report,
            schema_version=1,
            experiment=_experiment(report),
            configurations=tuple(
                _configuration(
                    result, told.get(result.name), levels.get(result.name, {}), outages.get(result.name)
                )
                for result in report.results.configurations
            ),
            comparisons=tuple(
                row for comparison in report.comparisons for row in comparison_figures(comparison)
            ),
            steps=tuple(_step(step) for step in report.results.steps),
        )

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **TypeAdapter(cls).json_schema(mode="serialization"),
        }

    def as_json(self) -> bytes:
        """Return the document as UTF-8."""
        kind: Any = type(self)  # mypy does not consider dataclass types hashable
        return _adapter(kind).dump_json(self, indent=1) + b"\n"


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return a serialiser, cached because creating it takes longer than using it."""
    return TypeAdapter(kind)


def _experiment(report: Report) -> ExperimentFacts:
    head, results = report.source.head, report.results
    return ExperimentFacts(
        name=head.plan.name,
        suite=", ".join(suite.name for suite in head.suites),
        protocol=", ".join(spoken.name for spoken in protocols_of(head.configurations, head.suite)),
        created=head.created.isoformat(),
        tool_version=head.tool_version,
        seed=head.seed,
        scale=head.scale,
        order=head.plan.order,
        minimum_effect_percent=head.plan.minimum_effect_percent,
        unit=results.terms.unit,
        second_unit=results.terms.second_unit,
        planned_levels=report.source.planned_levels,
        finished_levels=len([record for record in report.source.records if record.void is None]),
    )


def _configuration(
    result: ConfigurationResult,
    flushed: durability.FlushSummary | None,
    factors: dict[str, Any],
    outages: OutageSummary | None,
) -> ConfigurationFigures:
    shape, retained = result.shape, result.shape.retained
    falls = shape.dips.findings
    return ConfigurationFigures(
        name=result.name,
        factors=factors,
        peak=_peak(result),
        overall_average=result.throughput.overall_average if result.throughput else None,
        kept_share=retained.share if retained else None,
        kept_low=retained.low if retained else None,
        kept_high=retained.high if retained else None,
        near_peak_clients=None if shape.near_peak is None else _clients(result, shape.near_peak),
        falls=None
        if falls is None
        else tuple(
            Fall(
                kind=fall.kind.value,
                first_clients=_clients(result, fall.first),
                deepest_clients=_clients(result, fall.deepest),
                last_clients=_clients(result, fall.last),
                lost_share=fall.lost,
                times_critical=fall.times_critical if math.isfinite(fall.times_critical) else None,
            )
            for fall in falls
        ),
        flush_outcome=flushed.outcome if flushed else None,
        flushes=flushed.flushes if flushed else None,
        syncs=flushed.syncs if flushed else None,
        levels=tuple(_level(level) for level in result.finished),
        outages=outages,
    )


def _outages(found: OutageFigures) -> OutageSummary:
    return copied(
        OutageSummary,
        found,
        back_median_s=found.median_s,
        back_p99_s=found.p99_s,
        failed_operations=found.failed,
    )


def _clients(result: ConfigurationResult, place: int) -> int:
    level = result.levels[place]
    assert level is not None  # only finished levels have statistics
    return level.clients


def _peak(result: ConfigurationResult) -> PeakFigures | None:
    summary, found = result.throughput, result.shape.peak
    if summary is None or result.peak is None:
        return None
    candidates = found.candidates if found else None
    return PeakFigures(
        clients=result.peak.clients,
        highest_mean=summary.peak.mean,
        cross_validated=found.value if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        not_told_apart_clients=None
        if candidates is None
        else tuple(_clients(result, place) for place in candidates),
        lower_bound=summary.still_rising,
    )


def _level(level: LevelFigures) -> LevelSummary:
    return copied(
        LevelSummary,
        level,
        stalled_seconds=level.stalls,
        response=None if level.response is None else _times(level.response),
        generator_cpu_share=level.cost.generator_cpu_share,
        hidden_speed=level.stated_hidden_speed,
        marks=tuple(mark.name.lower() for mark in Mark if mark in level.marks),
        limited_by=tuple(LIMITS[mark] for mark in limits(level.marks)),
    )


def _times(times: Times) -> ResponseTimes:
    percentiles = dict(zip(map(percentile_name, QUANTILES), times.percentiles_ms, strict=True))
    return copied(ResponseTimes, times, percentiles_ms=percentiles)


def copied(kind: type[Kind], source: object, **others: Any) -> Kind:
    """Return a dataclass with the values of `others`, and for every other field the attribute of that name."""
    own: Any = kind  # mypy does not know that it is a dataclass
    names = [field.name for field in fields(own) if field.name not in others]
    return kind(**{name: getattr(source, name) for name in names}, **others)


def comparison_figures(comparison: Comparison) -> list[ComparisonFigures]:
    limited = tuple(f"{name}: {LIMITS[mark]}" for name, mark in comparison.limits)
    return [
        copied(
            ComparisonFigures,
            found,
            base=comparison.base,
            other=comparison.other,
            base_value=found.base if found.repetitions and found.levels else None,
            other_value=found.other if found.repetitions and found.levels else None,
            left_out=comparison.left_out(found) or None,
            not_comparable_because=tuple(
                differences.reason(each) for each in comparison.obstacles.get(found.figure, ())
            ),
            corrected_for=found.among,
            limited=limited,
            part_of_a_pass=found.figure in comparison.parts_of_a_pass,
            differs_in_durability=comparison.differs_in_durability,
        )
        for found in comparison.improvements
    ]


def _step(step: Step) -> StepFigures:
    return StepFigures(
        suite=step.suite.name,
        step=step.name,
        state=step.state,
        leader=None if step.lead is None else step.lead.winner,
        configurations=tuple(times for name in step.times if (times := _step_times(step, name)) is not None),
        comparisons=tuple(
            copied(StepComparison, gap.improvement, base=gap.base, other=gap.other) for gap in step.gaps
        ),
    )


def _step_times(step: Step, name: str) -> StepTimes | None:
    """Return the figures of a step; None if the configuration has no record of it."""
    runs = list(step.times[name].values())
    elapsed, user, system = (
        spread([getattr(one, key) for one in runs])
        for key in ("window_s", "generator_cpu_user_s", "generator_cpu_system_s")
    )
    if elapsed is None or user is None or system is None:
        return None
    return StepTimes(
        configuration=name,
        elapsed_s=elapsed,
        user_s=user,
        system_s=system,
        bytes=fmean(figures_of(one, step.suite)["bytes"] for one in runs),
        requests=mean_requests(runs),
    )
