"""`dyno compare`: the configurations of one experiment against its first, or of two experiments by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from serverdyno import wording
from serverdyno.analysis import across, pairs
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.pairs import Comparison, verdict_of
from serverdyno.analysis.slowdown import TOLERATED_PERCENT, Slowdown, slowdown
from serverdyno.errors import UserError
from serverdyno.protocols.work import Terms
from serverdyno.report.figures.durability import outcomes
from serverdyno.report.figures.sides import side
from serverdyno.report.model import Finding, Report, Table
from serverdyno.report.noise_floor import NoiseFloor
from serverdyno.report.sections import tables
from serverdyno.report.source import Source
from serverdyno.report.words import verdicts
from serverdyno.report.words.findings import MOST_FINDINGS

LASTING_HOST_FACTS = (
    "cpu model",
    "cpu logical",
    "memory total_bytes",
    "system kernel",
    "mitigations",
    "sysctls",
)
"""Facts of a host that don't change from minute to minute, as free memory does."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What `dyno compare` says. `verdict` is for programs: the most alarming of all comparisons with the base;
    `slowdown`: whether any is slower.

    `warnings`: those of the reports. `differences`: what else differs between two experiments than the server
    under test.
    """

    comparisons: tuple[Comparison, ...]
    table: Table
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    differences: tuple[str, ...]
    verdict: Verdict
    slowdown: Slowdown


def compare(reports: Sequence[Report], tolerated_percent: float = TOLERATED_PERCENT) -> Compared:
    """Compare within one report, or the second with the first. Raises UserError where it can't.

    `tolerated_percent`: the slowdown that must be ruled out before a program is told that nothing is slower.
    """
    for each in reports:
        head = each.source.head
        if head.suite.open is not None:
            raise UserError(
                f"{head.plan.name}: suite {head.suite.name} offers its own rates (open load), so throughput says "
                "nothing of the server",
                hint="dyno report compares the response times of an experiment's configurations at each rate",
            )
    if len(reports) == 1:
        return _within(reports[0], tolerated_percent)
    if len(reports) == 2:
        return _across(reports[0], reports[1], tolerated_percent)
    raise UserError(f"{len(reports)} experiments can't be compared at once.", hint="Give one or two.")


def _within(report: Report, tolerated_percent: float) -> Compared:
    if not report.comparisons:
        raise UserError(
            f"{report.source.head.plan.name} has one configuration: there is nothing to compare it with.",
            hint="Give a second experiment, or a plan with several servers or factors.",
        )
    basis = next(table.basis for table in report.tables)
    found = _result(report.comparisons, report.results.terms, basis, tolerated_percent)
    return replace(found, warnings=report.warnings)


def _across(base: Report, other: Report, tolerated_percent: float) -> Compared:
    _refuse_unlike(base.source, other.source)
    base_results = {result.name: result for result in base.results.configurations}
    common = [result for result in other.results.configurations if result.name in base_results]
    if not common:
        raise UserError(
            "The two experiments have no configuration of the same name.",
            hint=f"First: {wording.listing(list(base_results))}. "
            f"Second: {wording.listing(other.source.configuration_names)}.",
        )
    did, other_did = outcomes(base.results.promises), outcomes(other.results.promises)
    both = [
        (
            side(base_results[result.name], did.get(result.name), f"{result.name} (first)"),
            side(result, other_did.get(result.name), f"{result.name} (second)"),
        )
        for result in common
    ]
    floors = base.source.noise_floor, other.source.noise_floor
    differences = _differences(base.source, other.source)
    comparisons = across.between_times(
        pairs.compared(
            both,
            paired=False,
            minimum_percent=other.source.head.plan.minimum_effect_percent,
            floor_percent=max(floor.percent for floor in floors),
        ),
        None if differences else _apart_percent(floors),
    )
    basis = f"First: {base.tables[0].basis} Second: {other.tables[0].basis}"
    warnings = tuple(
        f"{which}: {warning}"
        for which, report in (("First", base), ("Second", other))
        for warning in report.warnings
    )
    found = _result(comparisons, base.results.terms, basis, tolerated_percent)
    of_servers = _server_differences(base.source, other.source, [result.name for result in common])
    return replace(found, warnings=warnings, differences=(*differences, *of_servers))


def _apart_percent(floors: Sequence[NoiseFloor]) -> float | None:
    """How far experiments of different times lie apart on this machine; None unless both experiments know it."""
    apart = [floor.apart_percent for floor in floors if floor.apart_percent is not None]
    return max(apart) if len(apart) == len(floors) else None


def _refuse_unlike(base: Source, other: Source) -> None:
    if unlike := [*_unlike(_load(base), _load(other))]:
        raise UserError(
            "The experiments can't be compared, because their load differs:\n"
            + "\n".join(f"  {difference}" for difference in unlike),
            hint="Run the same suite at the same scale.",
        )


def _load(source: Source) -> dict[str, object]:
    """Everything that shapes the load, by name."""
    head = source.head
    mixes = [f"{mix.clients} x {mix.threads} for {mix.length_s:g} s" for mix in head.mixes]
    suite = {"suite": head.suite.name, "scale": f"{head.scale:g}", "mixes": ", ".join(mixes)}
    return suite | head.suite.parameters()


def _unlike(base: Mapping[str, object], other: Mapping[str, object]) -> Iterator[str]:
    for name in {**base, **other}:
        first, second = base.get(name, wording.NOTHING), other.get(name, wording.NOTHING)
        if first != second:
            yield f"{name}: first {first}, second {second}"


def _differences(base: Source, other: Source) -> tuple[str, ...]:
    pairs = {
        "tool version": (base.head.tool_version, other.head.tool_version),
        "generator": (f"{base.head.plan.generator}", f"{other.head.plan.generator}"),
        **{f"host's {fact}": (_host(base, fact), _host(other, fact)) for fact in LASTING_HOST_FACTS},
    }
    return tuple(
        f"The {what} differs between the two experiments, so the server may not be the cause of a difference."
        for what, (first, second) in pairs.items()
        if first != second
    )


def _server_differences(base: Source, other: Source, names: Sequence[str]) -> Iterator[str]:
    """What differs between the two sides of each configuration: mostly what the comparison is about."""
    for name in names:
        first, second = _server(base, name), _server(other, name)
        for what in {**first, **second}:
            was, is_now = first.get(what, wording.NOTHING), second.get(what, wording.NOTHING)
            if was != is_now:
                yield f"{name}: {what} was {was} in the first experiment and is {is_now} in the second."


def _server(source: Source, name: str) -> dict[str, str]:
    """Server, version, URL, CPUs and settings in force of a configuration, by what they are."""
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
    """Without those between two that are both somebody's other: which of those two should be faster isn't said."""
    others = {comparison.other for comparison in comparisons}
    return tuple(comparison for comparison in comparisons if comparison.base not in others)


def _result(
    comparisons: tuple[Comparison, ...],
    terms: Terms,
    basis: str,
    tolerated_percent: float,
) -> Compared:
    table = replace(tables.improvements(comparisons, terms, basis), number=1)
    return Compared(
        comparisons=comparisons,
        table=table,
        findings=tuple(verdicts.findings(comparisons, terms, {table.key: table.label}, MOST_FINDINGS)),
        warnings=(),
        differences=(),
        verdict=verdict_of(_with_the_base(comparisons)),
        slowdown=slowdown(
            [each for comparison in _with_the_base(comparisons) for each in comparison.improvements],
            tolerated_percent,
        ),
    )
