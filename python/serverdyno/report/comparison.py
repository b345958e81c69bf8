"""`dyno compare`: compare the configurations of one experiment with the first, or those of two experiments by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from serverdyno import wording
from serverdyno.analysis import across, pairs
from serverdyno.analysis.across import BetweenTimes
from serverdyno.analysis.improvement import Margins, Verdict
from serverdyno.analysis.pairs import Comparison, most_alarming, verdict_of
from serverdyno.analysis.slowdown import TOLERATED_PERCENT, Slowdown, slowdown
from serverdyno.errors import UserError
from serverdyno.plan.protocols.work import Terms
from serverdyno.report.figures.sides import side
from serverdyno.report.figures.steps import Step
from serverdyno.report.figures.steps import judged as judged_steps
from serverdyno.report.model import Finding, Report, Table
from serverdyno.report.noise_floor import NoiseFloor
from serverdyno.report.source import Source
from serverdyno.report.subjects import differences, outages, step_tables, steps
from serverdyno.report.subjects.peaks import MOST_FINDINGS
from serverdyno.report.subjects.times_compared import TimesCompared
from serverdyno.store.records import LevelRecord

READ_BACK = "The clients read all blocks back from the servers after each load level."

LASTING_HOST_FACTS = (
    "cpu model",
    "cpu logical",
    "memory total_bytes",
    "system kernel",
    "mitigations",
    "sysctls",
)
"""Facts about a host that do not change from minute to minute, unlike free memory."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of `dyno compare`.

    `verdict` is for programs: the most alarming of all comparisons with the base. `slowdown`: whether any configuration
    is slower.

    For outages, `outages` are the times without service, `levels` are the clients at each level, and `comparisons` is
    empty. `steps` is used if there are no timed levels. `warnings` come from the reports. `differences` lists the
    differences between two experiments besides the server under test.
    """

    comparisons: tuple[Comparison, ...]
    table: Table
    findings: tuple[Finding, ...]
    verdict: Verdict
    slowdown: Slowdown
    warnings: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    outages: tuple[TimesCompared, ...] = ()
    levels: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()


def compare(reports: Sequence[Report], tolerated_percent: float = TOLERATED_PERCENT) -> Compared:
    """Compare the configurations within one report, or the second report with the first.

    `tolerated_percent` is the slowdown that must be ruled out for the result "not slower". Raises UserError if the
    reports can't be compared.
    """
    for each in reports:
        head = each.results.source.head
        if head.suite.open is not None:
            raise UserError(
                f"{head.plan.name}: suite {head.suite.name} offers its own rates (open load), so throughput does not "
                "describe the server",
                hint="dyno report compares the response times of an experiment's configurations at each rate",
            )
    if len(reports) == 1:
        return _within(reports[0], tolerated_percent)
    if len(reports) == 2:
        return _across(reports[0], reports[1], tolerated_percent)
    raise UserError(
        f"{len(reports)} experiments can't be compared together.", hint="Give one or two experiments."
    )


def _within(report: Report, tolerated_percent: float) -> Compared:
    if report.source.cut is not None and len(report.results.configurations) > 1:
        gaps = outages.at_equal_load(report.results)
        found = _outages_result(gaps, [report], report.tables[0].basis, tolerated_percent)
        return replace(found, warnings=report.warnings)
    if _is_of_steps(report) and len(report.source.configuration_names) > 1:
        found = _steps_result(report.results.steps, step_tables.basis(report.source), tolerated_percent)
        return replace(found, warnings=report.warnings)
    if not report.comparisons:
        raise UserError(
            f"{report.source.head.plan.name} has only one configuration, so there is nothing to compare.",
            hint="Give a second experiment, or a plan with several servers or factors.",
        )
    basis = next(table.basis for table in report.tables)
    source = report.source
    rules = _Rules(None, source.margins, source.noise_floor, tolerated_percent)
    found = _result(report.comparisons, report.results.terms, basis, rules, source.records_by_name())
    return replace(found, warnings=report.warnings)


def _across(base: Report, other: Report, tolerated_percent: float) -> Compared:
    _refuse_unlike(base.source, other.source)
    names = [name for name in other.source.configuration_names if name in base.source.configuration_names]
    if not names:
        raise UserError(
            "No configuration has the same name in both experiments.",
            hint=f"First: {wording.listing(base.source.configuration_names)}. "
            f"Second: {wording.listing(other.source.configuration_names)}.",
        )
    differences = _differences(base.source, other.source)
    floors = base.source.noise_floor, other.source.noise_floor
    rules = _Rules(
        between=None if differences else _between(floors),
        margins=other.source.margins,
        floor=max(floors, key=lambda floor: floor.percent),
        tolerated_percent=tolerated_percent,
    )
    judge = _throughput_across if base.source.cut is None else _outages_across
    if _is_of_steps(base):
        judge = _steps_across
    warnings = tuple(
        f"{which}: {warning}"
        for which, report in (("First", base), ("Second", other))
        for warning in report.warnings
    )
    of_servers = _server_differences(base.source, other.source, names)
    found = judge(base, other, names, rules)
    return replace(found, warnings=warnings, differences=(*differences, *of_servers))


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of the verdict. `between`: the error due to a shift between two times; None if unknown."""

    between: BetweenTimes | None
    margins: Margins
    floor: NoiseFloor
    tolerated_percent: float


def _throughput_across(base: Report, other: Report, names: Sequence[str], rules: _Rules) -> Compared:
    both = [
        (
            side(base.results, name, f"{name} (first)"),
            side(other.results, name, f"{name} (second)"),
        )
        for name in names
    ]
    error = None if rules.between is None else rules.between.error
    comparisons = pairs.compared(both, paired=False, margins=rules.margins, between=error)
    if error is None:
        comparisons = across.not_separated(comparisons)
    records = base.source.records_by_name("{} (first)") | other.source.records_by_name("{} (second)")
    return _result(comparisons, base.results.terms, _both_bases(base, other), rules, records)


def _outages_across(base: Report, other: Report, names: Sequence[str], rules: _Rules) -> Compared:
    both = [
        (
            outages.outage_side(base.results, name, f"{name} (first)"),
            outages.outage_side(other.results, name, f"{name} (second)"),
        )
        for name in names
    ]
    gaps = outages.compared_outages(
        both,
        paired=False,
        minimum_percent=rules.margins.minimum_percent,
        between=None if rules.between is None else rules.between.error,
    )
    if rules.between is None:
        gaps = tuple(
            replace(gap, found=tuple(across.without_verdict(level) for level in gap.found)) for gap in gaps
        )
    return _outages_result(gaps, [base, other], _both_bases(base, other), rules.tolerated_percent)


def _is_of_steps(report: Report) -> bool:
    return not report.results.source.head.levels


def _steps_across(base: Report, other: Report, names: Sequence[str], rules: _Rules) -> Compared:
    error = None if rules.between is None else rules.between.error
    of_other = {step.level: step for step in other.results.steps}
    both = [(step, of_other[step.level]) for step in base.results.steps if step.level in of_other]
    pairs = [
        replace(
            step,
            times={f"{name} (first)": step.times[name], f"{name} (second)": second.times[name]},
        )
        for step, second in both
        for name in names
    ]
    found = judged_steps(pairs, paired=False, margins=other.source.margins_of_steps, between=error)
    if error is None:
        found = [
            replace(
                step,
                gaps=tuple(
                    replace(gap, improvement=across.without_verdict(gap.improvement)) for gap in step.gaps
                ),
            )
            for step in found
        ]
    bases = f"First: {step_tables.basis(base.source)} Second: {step_tables.basis(other.source)}"
    return _steps_result(found, bases, rules.tolerated_percent)


def _steps_result(found: Sequence[Step], basis: str, tolerated_percent: float) -> Compared:
    table = replace(step_tables.pairs(basis, found), number=1)
    others = {gap.other for step in found for gap in step.gaps}
    judged = [gap.improvement for step in found for gap in step.gaps if gap.base not in others]
    return Compared(
        comparisons=(),
        table=table,
        findings=steps.compared_findings(found, table.label),
        verdict=most_alarming({each.verdict for each in judged}),
        slowdown=slowdown(judged, tolerated_percent),
        steps=tuple(found),
    )


def _both_bases(base: Report, other: Report) -> str:
    return f"First: {base.tables[0].basis} Second: {other.tables[0].basis}"


def _between(floors: Sequence[NoiseFloor]) -> BetweenTimes | None:
    """Return the shift between two times on this machine; None unless both experiments have measured it."""
    known = [floor.between for floor in floors if floor.between is not None]
    return (
        max(known, key=lambda each: (each.times, each.deviation_percent))
        if len(known) == len(floors)
        else None
    )


def _refuse_unlike(base: Source, other: Source) -> None:
    if unlike := [*_unlike(_load(base), _load(other))]:
        raise UserError(
            "The experiments can't be compared, because their loads differ:\n"
            + "\n".join(f"  {difference}" for difference in unlike),
            hint="Run both with the same suite and the same scale.",
        )


def _load(source: Source) -> dict[str, object]:
    head = source.head
    levels = [f"{level.clients} x {level.threads} for {level.length_s:g} s" for level in head.levels]
    names = wording.listing([suite.name for suite in head.suites])
    load = {"suite": names, "scale": f"{head.scale:g}", "levels": ", ".join(levels)}
    if all(suite.ends_when_done for suite in head.suites):
        load["drop_caches"] = f"{head.plan.drop_caches}"
    return load | {name: value for suite in head.suites for name, value in suite.parameters().items()}


def _unlike(base: Mapping[str, object], other: Mapping[str, object]) -> Iterator[str]:
    for name in {**base, **other}:
        first, second = base.get(name, wording.NOTHING), other.get(name, wording.NOTHING)
        if first != second:
            yield f"{name}: first {first}, second {second}"


def _differences(base: Source, other: Source) -> tuple[str, ...]:
    pairs = {
        "tool version": (base.head.tool_version, other.head.tool_version),
        "generator": (f"{base.head.plan.generator}", f"{other.head.plan.generator}"),
        "testbed": (f"{base.head.plan.testbed}", f"{other.head.plan.testbed}"),
        **{f"host's {fact}": (_host(base, fact), _host(other, fact)) for fact in LASTING_HOST_FACTS},
    }
    return tuple(
        f"The {what} differs between the two experiments, so differences may have a cause other than the "
        "server."
        for what, (first, second) in pairs.items()
        if first != second
    )


def _server_differences(base: Source, other: Source, names: Sequence[str]) -> Iterator[str]:
    """Yield the differences between the two servers of each configuration, usually the subject of the comparison."""
    for name in names:
        first, second = _server(base, name), _server(other, name)
        for what in {**first, **second}:
            was, is_now = first.get(what, wording.NOTHING), second.get(what, wording.NOTHING)
            if was != is_now:
                yield f"{name}: {what} was {was} in the first experiment and is {is_now} in the second."


def _server(source: Source, name: str) -> dict[str, str]:
    configuration = next(each for each in source.head.configurations if each.name == name)
    described = source.disclosure.get("servers", {}).get(name, {})
    settings = described.get("settings") or configuration.settings
    return {
        "the server": configuration.server,
        "the version": f"{described.get('version', 'not known')}",
        "the URL": configuration.url or wording.NOTHING,
        "the CPUs": ", ".join(map(str, configuration.cpus)) or wording.NOTHING,
        **{f"the setting {key}": f"{value}" for key, value in settings.items() if key != "url"},
    }


def _host(source: Source, fact: str) -> str:
    part, _, name = fact.partition(" ")
    found = source.disclosure.get("host", {}).get(part)
    return f"{found.get(name) if name and isinstance(found, Mapping) else found}"


def _with_the_base(comparisons: tuple[Comparison, ...]) -> tuple[Comparison, ...]:
    others = {comparison.other for comparison in comparisons}
    return tuple(comparison for comparison in comparisons if comparison.base not in others)


def _result(
    comparisons: tuple[Comparison, ...],
    terms: Terms,
    basis: str,
    rules: _Rules,
    records: Mapping[str, Sequence[LevelRecord]],
) -> Compared:
    table = replace(differences.table(comparisons, terms, basis), number=1)
    found = differences.findings(comparisons, terms, {table.key: table.label}, MOST_FINDINGS)
    found += differences.odd_runs(comparisons, records, table.label)
    if said := differences.below_floor(comparisons, rules.floor):
        found.append(Finding("Machine", said, f"{table.label}."))
    return Compared(
        comparisons=comparisons,
        table=table,
        findings=tuple(found),
        verdict=verdict_of(_with_the_base(comparisons)),
        slowdown=slowdown(
            [each for comparison in _with_the_base(comparisons) for each in comparison.improvements],
            rules.tolerated_percent,
        ),
    )


def _outages_result(
    gaps: Sequence[TimesCompared], reports: Sequence[Report], basis: str, tolerated_percent: float
) -> Compared:
    """Return the comparison of times without service. If data were lost, no side is called faster."""
    made = outages.differences(reports[0].results.source.head.levels, gaps, basis)
    if made is None:
        raise UserError(
            "There are no outage times to compare.",
            hint=(
                "At each load level of both experiments, at least half of the clients must be served "
                "again before the level ends."
            ),
        )
    table = replace(made, number=1)
    found = [outages.outages(report.results) for report in reports]
    data_wrong = any(each.data_wrong for of_report in found for each in of_report)
    others = {gap.other for gap in gaps}
    levels = [level for gap in gaps if gap.base not in others for level in gap.found]
    return Compared(
        comparisons=(),
        table=table,
        findings=(
            *(
                Finding("Data", f"{which}{outages.data(of_report)}", READ_BACK)
                for which, of_report in zip(
                    ("First: ", "Second: ") if found[1:] else ("",), found, strict=True
                )
            ),
            *outages.compared_findings(gaps, {table.key: table.label}),
        ),
        verdict=Verdict.NOT_COMPARABLE if data_wrong else most_alarming({level.verdict for level in levels}),
        slowdown=Slowdown.CANT_TELL if data_wrong else slowdown(levels, tolerated_percent),
        outages=tuple(gaps),
        levels=tuple(level.clients for level in reports[0].results.source.head.levels),
    )
