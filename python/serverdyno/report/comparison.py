"""`dyno compare`: the configurations of one experiment against its first, or of two experiments by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from serverdyno.analysis.improvement import Verdict
from serverdyno.errors import UserError
from serverdyno.report import tables, verdicts, wording
from serverdyno.report.build import compared
from serverdyno.report.findings import MOST_FINDINGS
from serverdyno.report.model import Comparison, Finding, Report, Table, verdict_of
from serverdyno.report.source import Source

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
    """What `dyno compare` says. `verdict` is for programs: the most alarming of all comparisons.

    `warnings`: those of the reports. `differences`: what else differs between two experiments than the server
    under test.
    """

    comparisons: tuple[Comparison, ...]
    table: Table
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    differences: tuple[str, ...]
    verdict: Verdict


def compare(reports: Sequence[Report]) -> Compared:
    """Compares within one report, or the second with the first. Raises UserError where it can't."""
    if len(reports) == 1:
        return _within(reports[0])
    if len(reports) == 2:
        return _across(reports[0], reports[1])
    raise UserError(f"{len(reports)} experiments can't be compared at once.", hint="Give one or two.")


def _within(report: Report) -> Compared:
    if not report.comparisons:
        raise UserError(
            f"{report.source.head.plan.name} has one configuration: there is nothing to compare it with.",
            hint="Give a second experiment, or a plan with several servers or factors.",
        )
    basis = next(table.basis for table in report.tables)
    return _result(report.comparisons, basis, report.warnings, ())


def _across(base: Report, other: Report) -> Compared:
    _refuse_unlike(base.source, other.source)
    base_results = {result.name: result for result in base.results.configurations}
    common = [result for result in other.results.configurations if result.name in base_results]
    if not common:
        raise UserError(
            "The two experiments have no configuration of the same name.",
            hint=f"First: {wording.listing(list(base_results))}. "
            f"Second: {wording.listing(other.source.configuration_names)}.",
        )
    comparisons = tuple(
        compared(
            replace(base_results[result.name], name=f"{result.name} (first)"),
            replace(result, name=f"{result.name} (second)"),
            paired=False,
        )
        for result in common
    )
    basis = f"First: {base.tables[0].basis} Second: {other.tables[0].basis}"
    warnings = tuple(
        f"{which}: {warning}"
        for which, report in (("First", base), ("Second", other))
        for warning in report.warnings
    )
    return _result(comparisons, basis, warnings, _differences(base.source, other.source))


def _refuse_unlike(base: Source, other: Source) -> None:
    pairs = {
        "suites": (base.head.suite.name, other.head.suite.name),
        "scales": (f"{base.head.scale:g}", f"{other.head.scale:g}"),
        "mixes": (_mixes(base), _mixes(other)),
        "parameters of the suite": (f"{base.head.suite}", f"{other.head.suite}"),
    }
    for what, (first, second) in pairs.items():
        if first != second:
            raise UserError(
                f"The experiments can't be compared: their {what} differ. First: {first}. Second: {second}.",
                hint="Run the same suite at the same scale.",
            )


def _mixes(source: Source) -> str:
    return ", ".join(
        f"{mix.clients} clients x {mix.threads} for {mix.length_s:g} s" for mix in source.head.mixes
    )


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


def _host(source: Source, fact: str) -> str:
    part, _, name = fact.partition(" ")
    found = source.disclosure.get("host", {}).get(part)
    return f"{found.get(name) if name and isinstance(found, Mapping) else found}"


def _result(
    comparisons: tuple[Comparison, ...], basis: str, warnings: tuple[str, ...], differences: tuple[str, ...]
) -> Compared:
    table = replace(tables.improvements(comparisons, basis), number=1)
    return Compared(
        comparisons=comparisons,
        table=table,
        findings=tuple(verdicts.findings(comparisons, {table.key: table.label}, MOST_FINDINGS)),
        warnings=warnings,
        differences=differences,
        verdict=verdict_of(comparisons),
    )
