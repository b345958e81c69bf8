"""Levels that end when their work is done: which configuration is fastest in each step, by how much, and caveats.

This module contains the sentences, `step_tables.py` the tables, `step_charts.py` the charts, and
`report/figures/steps.py` the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from serverdyno import published, wording
from serverdyno.analysis.steps import beaten
from serverdyno.analysis.trust import rate_marks
from serverdyno.errors import UserError
from serverdyno.plan import protocols
from serverdyno.plan.model import Suite
from serverdyno.plan.protocols.files import FILES
from serverdyno.report.figures.raw import RawTable
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.steps import (
    Step,
    figures_of,
    repeated_requests,
    settings_of,
    suites_of,
    totals,
)
from serverdyno.report.model import Answer, Caveat, Disclosure, Fact, Finding, Labels, Part
from serverdyno.report.source import Source
from serverdyno.report.subjects import durability, step_tables
from serverdyno.report.subjects.step_tables import lead_words, ratio
from serverdyno.store.records import LevelRecord
from serverdyno.units import MIB

OWN_CPU_SHARE = 0.9
"""Share of a client's time at which its own CPU time limits the speed of a step."""
MOST_NAMED = 8
"""Maximum number of steps in a line of the answer; the table has all."""
NO_RESULT = (
    "The steps re-create published ones. They are not the original programs, so no figure here is a result "
    "of those programs."
)


def applies(results: Results) -> bool:
    return bool(suites_of(results.whole))


def build(results: Results) -> Part:
    source, steps = results.whole, results.steps
    return Part(
        sections=step_tables.sections(source, steps, _published(source)),
        findings=partial(_findings, source, steps),
        answer=Answer(
            verdict=verdict(source, steps),
            sure=sure(source, steps),
            limit="",
            gaps="",
            figures=(),
            caveats=(),
            told=by_step(source, steps),
        ),
        summary=step_tables.summary(source, steps),
    )


def _published(source: Source) -> published.PublishedReport | None:
    """Return the report that the plan names or that a suite re-creates; None if this version lacks that report."""
    of_suites = (found.published for suite in suites_of(source) if (found := suite.settings(FILES).scenario))
    name = source.head.plan.published or next(filter(None, of_suites), None)
    try:
        return None if name is None else published.load(name)
    except UserError:
        return None


def verdict(source: Source, steps: Sequence[Step]) -> str:
    """Return the number of steps in which each configuration leads, or why that is unknown."""
    if not steps:
        return "No step has been measured yet."
    if len(source.configuration_names) < 2:
        return "Only one configuration was measured, so there is no comparison."
    if _fewest(steps) < 2:
        return "Each configuration ran only once, so no difference can be proven."
    counted = [(name, sum(_leads(step, name) for step in steps)) for name in source.configuration_names]
    leaders = sorted((each for each in counted if each[1]), key=lambda each: -each[1])
    open_steps = sum(step.lead is None for step in steps)
    if not leaders:
        return f"No configuration is proven faster than all others in any of {len(steps)} steps."
    name, count = leaders[0]
    parts = [f"{name} leads in {count} of {len(steps)} steps"]
    parts += [f"{other} in {number}" for other, number in leaders[1:]]
    rest = (
        f" In {wording.plural(open_steps, 'step')}, no configuration is proven faster than all others."
        if open_steps
        else ""
    )
    return f"{wording.listing(parts)}.{rest}"


def by_step(source: Source, steps: Sequence[Step]) -> tuple[tuple[str, str], ...]:
    """Return a line for each leader with its steps, widest lead first, and a line for steps without a leader."""
    if len(source.configuration_names) < 2 or not steps or _fewest(steps) < 2:
        return ()
    lines = []
    for name in source.configuration_names:
        own = sorted(
            (step for step in steps if _leads(step, name)),
            key=lambda step: -step.lead.ratio if step.lead else 0,
        )
        if own:
            lines.append((f"{name} leads in", _named([_with_lead(step) for step in own])))
    if untold := [_untold(step) for step in steps if step.lead is None]:
        lines.append(("No proven leader in", _named(untold)))
    return tuple(lines)


def sure(source: Source, steps: Sequence[Step]) -> str:
    if len(source.configuration_names) < 2 or not steps:
        return "There is no comparison."
    if _fewest(steps) < 2:
        return "A comparison needs two repetitions."
    plan, claims = source.head.plan, sum(len(step.gaps) for step in steps)
    return (
        f"{wording.plural(_fewest(steps), 'repetition')} of each step, {plan.order}. Brackets contain the 95 % "
        f"interval of each comparison. The chance of any false lead among the {claims} comparisons is at most 5 %."
    )


def _findings(source: Source, steps: Sequence[Step], tables: Labels) -> tuple[Finding, ...]:
    """Return one finding per suite, with each configuration's total time, and one finding on flushes."""
    promises, found = durability.promises_of_steps(source), list[Finding]()
    for suite, of_suite in zip(suites_of(source), totals(steps, source), strict=True):
        known = {name: list(by_run.values()) for name, by_run in of_suite.items() if by_run}
        if known:
            parts = [f"{name} {wording.significant(sum(all_) / len(all_))} s" for name, all_ in known.items()]
            evidence = "; ".join(
                f"{name}: {', '.join(wording.significant(value) for value in values)} s"
                for name, values in known.items()
            )
            claim = f"All steps of {suite.name} together took on average: {wording.listing(parts)}."
            found.append(Finding(suite.name.capitalize(), claim, f"Times of the repetitions: {evidence}."))
    if durability.is_flushed(promises):
        found += durability.findings(promises, tables, step_tables.DURABILITY)
    return tuple(found)


def compared_findings(steps: Sequence[Step], table: str) -> tuple[Finding, ...]:
    """Return one finding per pair of configurations: the steps in which one is proven faster or slower."""
    by_pair: dict[tuple[str, str], dict[str, list[str]]] = {}
    for step in steps:
        for gap in step.gaps:
            told = gap.improvement
            known = told.verdict.proven and told.percent is not None
            words = (
                f"{step.label} ({ratio(1 + (told.percent or 0) / 100)} times as fast)"
                if known
                else step.label
            )
            of_pair = by_pair.setdefault((gap.base, gap.other), {})
            of_pair.setdefault(f"{told.verdict}", []).append(words)
    return tuple(
        Finding(
            "Steps",
            " ".join(
                f"{other} against {base}, {verdict} in {wording.plural(len(labels), 'step')}: {_named(labels)}"
                for verdict, labels in found.items()
            ),
            f"{table}.",
        )
        for (base, other), found in by_pair.items()
    )


def caveats(source: Source, steps: Sequence[Step]) -> tuple[Caveat, ...]:
    if not suites_of(source):
        return ()
    head, found = source.head, list[Caveat]()
    planned = [level for level in head.levels if level.step is not None]
    missing = len(head.order) * len(planned) - sum(
        len(runs) for step in steps for runs in step.times.values()
    )
    if missing:
        found.append(Caveat(f"{missing:,} of {len(head.order) * len(planned):,} steps are missing."))
    found += [Caveat(text) for text in durability.warnings(durability.promises_of_steps(source))]
    found += _of_repeats(source, steps)
    found += _of_generator(source, steps)
    found += _of_bound(source, steps)
    if source.shortened:
        found.append(
            Caveat(
                f"The experiment has scale {head.scale:g}: fewer and smaller files than the full suites.",
                "They fit into caches that the files of the full suites would overflow.",
            )
        )
    found += _of_caches(source)
    if head.plan.generator.fleet is None and all(each.url is None for each in head.configurations):
        found.append(
            Caveat(
                "Client and server run on one machine without a network between them.",
                "With a network like that of the published test, the network would determine most step times.",
            )
        )
    return tuple(found)


def _of_repeats(source: Source, steps: Sequence[Step]) -> list[Caveat]:
    told = {name: repeated_requests(steps, name) for name in source.configuration_names}
    return [
        Caveat(
            f"{name}: clients repeated {repeated:,} of {asked:,} requests, because they got no answer in time.",
            "Over UDP, a client waits at least 0.1 s before it repeats a request, so the step times include "
            "delays from lost or late datagrams.",
        )
        for name, (repeated, asked) in told.items()
        if repeated
    ]


def _of_generator(source: Source, steps: Sequence[Step]) -> list[Caveat]:
    """Return a caveat on steps that a faster server would hardly shorten.

    Bonnie's own computation per character is its work and is not reported. For a directory, the client's CPU time
    includes the file system's.
    """
    served = [
        each.name
        for each in source.head.configurations
        if each.protocol is None or protocols.of(each.protocol).has_host
    ]
    own = [
        step.label
        for step in steps
        if not (step.is_of_bonnie and step.name in ("putc", "getc"))
        and any(
            records and fmean(map(_busy, records)) >= OWN_CPU_SHARE
            for records in (list(step.times[name].values()) for name in served)
        )
    ]
    if not own:
        return []
    count = wording.plural(len(own), "step")
    return [
        Caveat(
            f"The client's own CPU time limited {count} of {len(steps)}.",
            f"A faster server would hardly shorten these steps: {_named(own)}",
        )
    ]


def _of_bound(source: Source, steps: Sequence[Step]) -> list[Caveat]:
    """Return a caveat on the steps of each configuration whose requests reached the plan's rate."""
    urls = {configuration.name: configuration.url for configuration in source.head.configurations}
    return [
        Caveat(
            f"{name}: the plan's bound of {wording.rate(bound)} requests/s limited "
            f"{wording.plural(len(limited), 'step')} of {len(steps)}.",
            f"Their times show this bound, not the server: {_named(limited)}",
        )
        for name, bound in source.max_rate_per_s.items()
        if (
            limited := [
                step.label
                for step in steps
                if any(
                    rate_marks(record.bounded_s(urls[name]), bound)
                    for record in step.times.get(name, {}).values()
                )
            ]
        )
    ]


def _busy(record: LevelRecord) -> float:
    return record.generator_cpu_s / max(record.window_s * record.generator_threads, 1e-9)


def _of_caches(source: Source) -> list[Caveat]:
    of_machine, found = source.memory_bytes, []
    for suite in suites_of(source):
        bonnie = settings_of(suite)
        if bonnie is not None and of_machine is not None and _all_bytes(suite) < 2 * of_machine:
            found.append(
                Caveat(
                    "Bonnie's file is smaller than twice the memory, so caches answer most requests.",
                    f"The file has {bonnie.size_mib:,} MB, and the machine has {of_machine // MIB:,} MB of memory.",
                )
            )
        elif bonnie is None and not source.head.plan.drop_caches:
            found.append(
                Caveat(
                    "Cold means a fresh session; the page cache of the machine keeps its contents.",
                    "`drop_caches` in the plan drops the page cache before each step. The authors of the published "
                    "test rebooted the machines.",
                )
            )
    return list(dict.fromkeys(found))


def _all_bytes(suite: Suite) -> int:
    return suite.clients[0] * suite.work.workspace_bytes(suite.settings(suite.work))


def methodology(source: Source) -> tuple[Fact, ...]:
    head, suites = source.head, suites_of(source)
    if not suites:
        return ()
    dropped = (
        "after the machine's page cache was dropped"
        if head.plan.drop_caches
        else "with the contents of the machine's page cache kept"
    )
    return (
        Fact(
            "Runs",
            f"{wording.plural(len(head.order), 'run')}, {head.plan.order}. Each run starts a fresh server.",
        ),
        Fact("Suites of a run", wording.listing([suite.name for suite in head.suites])),
        Fact(
            "Client of steps",
            f"On {_place(source)}, with the client cache of a workstation.",
        ),
        Fact(
            "Times of steps",
            "Elapsed, user and system seconds of the client's threads, as `time` would report them. They exclude the "
            "start and the end of the session. The whole step counts, because it has no ramps.",
        ),
        Fact(
            "Cold and warm",
            f"Cold: the client runs the step in a fresh session, {dropped}. Warm: it repeats the step in the same "
            "session, so the client's cache may answer.",
        ),
        Fact(
            "Comparison of steps",
            "Speed is 1 / elapsed time. Each repetition is one observation. With three or more configurations, each "
            "step's noise is estimated from all of them. Claims on all steps and pairs are corrected together "
            "(Holm 1979).",
        ),
        Fact("Names of steps", NO_RESULT),
        *(
            Fact(suite.name.capitalize(), f"{_described(suite)} {suite.description}".strip())
            for suite in suites
        ),
    )


def _place(source: Source) -> str:
    plan = source.head.plan
    if plan.generator.fleet is not None or plan.testbed is not None:
        return "several nodes, which start and end each level together"
    if plan.generator.processes > 1:
        return f"{plan.generator.processes} processes, which start and end each level together"
    return wording.cpu_set(plan.generator.cpus)


def _described(suite: Suite) -> str:
    own = suite.settings(FILES).own
    clients = f" {suite.clients[0]} clients run at the same time." if suite.clients[0] > 1 else ""
    return "" if own is None else f"{own.described()}{clients}"


def disclosures(results: Results) -> list[Disclosure]:
    source = results.whole
    return [
        step_tables.rows_of_bonnie(source, results.steps, suite)
        for suite in suites_of(source)
        if settings_of(suite) is not None
    ]


def raw(results: Results) -> list[RawTable]:
    """Return a raw table with one row per step and run, and requests by name in one column; none without steps."""
    found = [
        (record, figures_of(record, step.suite), step.suite.name)
        for step in results.steps
        for of_one in step.times.values()
        for record in of_one.values()
    ]
    if not found:
        return []
    found.sort(key=lambda row: row[0].run)
    names = [name for name in found[0][1] if name != "requests"]
    rows = [
        (
            record.run,
            record.configuration,
            record.repetition,
            suite,
            *(figures[name] for name in names),
            " ".join(f"{name}={count}" for name, count in figures["requests"].items()),
        )
        for record, figures, suite in found
    ]
    columns = ("run", "configuration", "repetition", "suite", *names, "requests")
    return [RawTable("steps", "One row per step and run", columns, tuple(rows))]


def _with_lead(step: Step) -> str:
    return f"{step.label} {lead_words(step)}"


def _untold(step: Step) -> str:
    slower = beaten(step.gaps)
    first = [name for name in step.times if name not in slower]
    return (
        f"{step.label} (no proven order of {wording.listing(first)})"
        if slower and len(first) > 1
        else step.label
    )


def _named(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_NAMED
    return "; ".join(texts[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "") + "."


def _leads(step: Step, name: str) -> bool:
    return step.lead is not None and step.lead.winner == name


def _fewest(steps: Sequence[Step]) -> int:
    return min(len(runs) for step in steps for runs in step.times.values())
