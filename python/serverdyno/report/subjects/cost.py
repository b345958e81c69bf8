"""The cost of operations: CPU time of server and generator, the generator's headroom, and CPU use by other programs.

`figures/cost.py` computes the figures of a level, and `analysis.trust` the generator's influence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from serverdyno import wording
from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import Mark, machine_marks, waits_for_cpu
from serverdyno.report.basis import Over, basis, letters, mark_notes
from serverdyno.report.figures.histograms import QUANTILES
from serverdyno.report.figures.results import ConfigurationResult, LevelFigures, Results
from serverdyno.report.model import Cell, Column, Figure, Finding, Labels, Panel, Part, Point, Section, Table
from serverdyno.report.parts import (
    NAME,
    always,
    level_column,
    level_figures,
    limited,
    lines_of,
    spread_cell,
    spread_point,
)
from serverdyno.report.source import Source

COST_MARKS = {Mark.GENERATOR_LIMITED, Mark.NOISY}
HIDING = {Mark.GENERATOR_LIMITED, Mark.LINK_BOUND}


applies = always


def build(results: Results) -> Part:
    section = Section(
        "cpu",
        f"CPU per {results.terms.operation}",
        text=_unmeasured(results),
        figures=(*_costs(results), *_busy(results)),
        tables=(_table(results),),
        folded=True,
    )
    return Part((section,), lambda tables: [*_generator(results, tables), *_machine(results, tables)])


def _table(results: Results) -> Table:
    rows = [
        (
            Cell(result.name),
            Cell(wording.whole(level.load)),
            *_cost_cells(level),
            Cell(_limited_by(result, level)),
        )
        for result in results.configurations
        for level in result.finished
    ]
    columns = (
        NAME,
        level_column(results.axis),
        Column("Server CPU", f"µs/{results.terms.operation}"),
        Column("Server", "CPUs busy"),
        Column("Server memory", "MiB"),
        Column("Generator CPU", f"µs/{results.terms.operation}"),
        Column("Busiest generator thread", "share of a CPU"),
        Column("Generator", "share of round trips"),
        Column("Hidden speed", "at most"),
        Column("Loop lag p99", "ms"),
        Column("Other programs", "CPUs busy"),
        Column("Steal", "CPUs"),
        Column("Limited by", numeric=False),
    )
    notes = (
        f"{wording.NOTHING} not measured. Shares, busy CPUs and memory: the largest value over the "
        "repetitions.",
        "Generator share of round trips: the part of each round trip spent in the generator or waiting for "
        "it. Hidden speed: upper bound on how much faster the server may be than shown.",
        "Other programs: all other programs and the kernel, on the CPUs of generator and server. Steal: CPU time "
        "that the hypervisor took.",
        "Loop lag: time from the kernel's report that a connection is ready until the generator has handled the batch "
        "with this connection.",
        "Limited by: the server's CPU limits if it is at least 85 % busy. Wait for a CPU: the generator used less "
        "than 5 % of a CPU, but waited for one. If neither CPU limits, the disk does if some process waited for it "
        "for more than 10 % of the window. Otherwise it is latency if more clients brought more throughput, and "
        "latency or locks if they did not. Nothing found: the figures were not measured, or the generator contributed "
        "to the limit.",
        *mark_notes(results.marks & COST_MARKS),
    )
    title = f"CPU time per {results.terms.operation}, and the generator's own limits"
    return Table("costs", 0, title, basis(results), columns, tuple(rows), notes, key_columns=2)


def _limited_by(result: ConfigurationResult, level: LevelFigures) -> str:
    names = [f"{limit}" for limit in result.limits_of(level)]
    if Mark.NOISY in level.marks:
        names.append("other programs on the machine")
    return ", ".join(names) or "nothing found"


def _cost_cells(level: LevelFigures) -> list[Cell]:
    cost = level.cost
    resident = None if cost.server_rss_bytes is None else cost.server_rss_bytes / 2**20
    lag = cost.loop_lag.percentiles_ms[QUANTILES.index(0.99)] if cost.loop_lag else None
    limits = letters(level.marks & {Mark.GENERATOR_LIMITED})
    noisy = letters(machine_marks(cost.taken_share, None))
    return [
        spread_cell(cost.server_cpu_us),
        Cell(wording.cpus(cost.server_cpus_busy)),
        Cell(wording.rate(resident)),
        spread_cell(cost.generator_cpu_us),
        Cell(
            wording.share(cost.generator_cpu_share), marks=letters(machine_marks(None, cost.run_delay_share))
        ),
        Cell(wording.share(level.waiting_share)),
        Cell(wording.share(level.stated_hidden_speed), marks=limits),
        Cell(wording.significant(lag)),
        Cell(wording.cpus(cost.others_cpus_busy), marks=noisy),
        Cell(wording.cpus(cost.steal_cpus_busy)),
    ]


def _busy(results: Results) -> Iterator[Figure]:
    """Yield charts of the busy CPUs of server and generator, and of the operations per CPU second of the server."""
    per_s = f"{results.terms.operations} per CPU second"
    plots = (
        ("Server", "CPUs busy", _server_busy),
        ("Generator", "CPUs busy", _generator_busy),
        ("Efficiency of the server", per_s, _per_cpu_second),
    )
    yield from level_figures(
        results,
        "busy",
        f"CPU and efficiency against {results.axis.column}",
        Over.MEAN,
        lambda group: (Panel(name, unit, lines_of(results, group, point)) for name, unit, point in plots),
    )


def _server_busy(level: LevelFigures) -> Point | None:
    busy_cpus = level.cost.server_cpus_busy
    return None if busy_cpus is None else limited(Point(level.load, busy_cpus), level.marks)


def _generator_busy(level: LevelFigures) -> Point | None:
    return limited(
        Point(level.load, level.cost.generator_cpu_share * level.cost.generator_threads), level.marks
    )


def _per_cpu_second(level: LevelFigures) -> Point | None:
    cost = level.cost.server_cpu_us
    return None if cost is None or not cost.mean else limited(Point(level.load, 1e6 / cost.mean), level.marks)


def _costs(results: Results) -> Iterator[Figure]:
    operation = results.terms.operation
    plots = (("Server", _cost_point(server=True)), ("Generator", _cost_point(server=False)))
    yield from level_figures(
        results,
        "cpu",
        f"CPU per {operation} against {results.axis.column}",
        Over.MEAN,
        lambda group: (
            Panel(name, f"CPU µs/{operation}", lines_of(results, group, point)) for name, point in plots
        ),
    )


def _cost_point(*, server: bool) -> Callable[[LevelFigures], Point | None]:
    def point(level: LevelFigures) -> Point | None:
        spread = level.cost.server_cpu_us if server else level.cost.generator_cpu_us
        return None if spread is None else spread_point(level.load, spread, level.marks)

    return point


def _unmeasured(results: Results) -> tuple[str, ...]:
    unmeasured = [
        result.name
        for result in results.configurations
        if any(level is not None and level.cost.server_cpus_busy is None for level in result.levels)
    ]
    if not unmeasured:
        return ()
    return (f"The CPU time of {wording.listing(unmeasured)} could not be measured.",)


def _generator(results: Results, tables: Labels) -> list[Finding]:
    """Return a finding on how far the generator limited the figures; none for open load, outages, or no levels."""
    if results.source.open or results.source.cut is not None or not results.levels:
        return []
    known = [
        level
        for level in results.levels
        if level.hidden_speed is not None and not level.is_failing and Mark.LINK_BOUND not in level.marks
    ]
    all_levels = wording.plural(len(results.levels), "load level")
    busiest = max(level.cost.generator_cpu_share for level in results.levels)
    evidence = f"the busiest generator thread used {wording.share(busiest)} of a CPU; {tables['costs']}."
    if not known:
        limits = {
            "errors": any(level.is_failing for level in results.levels),
            "the plan's links": any(Mark.LINK_BOUND in level.marks for level in results.levels),
        }
        named = wording.listing([name for name, limited in limits.items() if limited])
        why = f"is not known, because {named} limited these levels" if named else "was not measured"
        claim = f"Whether the generator limited any of {all_levels} {why}."
        return [Finding("Generator", claim, evidence)]
    if len(known) < len(results.levels):
        all_levels = f"{len(known):,} of {all_levels}; it is not known for the others"
    limited = [level for level in known if Mark.GENERATOR_LIMITED in level.marks]
    most = wording.share(max(level.hidden_speed or 0.0 for level in known))
    waiting = wording.share(max(level.waiting_share or 0.0 for level in known))
    evidence = (
        f"at most {waiting} of the clients' time was spent in the generator or waiting for it; {evidence}"
    )
    if loose := [level for level in known if level.hidden_speed_is_loose or _waits(level)]:
        longest = wording.share(max(level.cost.run_delay_share or 0.0 for level in loose))
        claim = (
            f"In {len(loose):,} of {all_levels}, marked G, the generator waited for a CPU for up to "
            f"{longest} of the window. How much faster the servers are at "
            f"{'these load levels' if len(loose) > 1 else 'this load level'} is not known. Repeat the experiment "
            "while nothing else uses the generator's CPUs."
        )
    elif limited:
        claim = (
            f"The generator limited {len(limited):,} of {all_levels}, marked G: there, the servers may be up to {most} "
            "faster than shown."
        )
    else:
        claim = f"The generator was not the limit ({all_levels}): no server is more than {most} faster than shown."
    return [Finding("Generator", claim, evidence)]


def _waits(level: LevelFigures) -> bool:
    return waits_for_cpu(level.marks, level.cost.generator_cpu_share, level.cost.run_delay_share)


def _machine(results: Results, tables: Labels) -> list[Finding]:
    """Return a finding on the CPU time of other programs and the hypervisor; none if unknown or if a caveat has it."""
    if any(Mark.NOISY in level.marks for level in results.levels):
        return []
    costs = [level.cost for level in results.levels]
    others = [cost.others_cpus_busy for cost in costs if cost.others_cpus_busy is not None]
    steal = [cost.steal_cpus_busy for cost in costs if cost.steal_cpus_busy is not None]
    parts = []
    if others:
        parts.append(f"other programs used up to {wording.cpus(max(others))} CPUs")
    if steal:
        taken = wording.cpus(max(steal))
        parts.append(f"the hypervisor took {'no time' if taken == '0.00' else f'up to {taken} CPUs'}")
    if not parts:
        return []
    claim = f"On the CPUs of generator and server, {wording.listing(parts)} at any load level."
    return [Finding("Machine", claim, f"{max(len(others), len(steal))} load levels; {tables['costs']}.")]


def shared_cpus(source: Source) -> list[str]:
    sharing: dict[tuple[int, ...], list[str]] = {}
    for configuration in source.head.configurations:
        if shared := source.cpus_shared_with_generator(configuration):
            sharing.setdefault(shared, []).append(configuration.name)
    return [
        f"{wording.listing(names)} {('shares' if len(names) == 1 else 'share')} {wording.cpu_set(cpus)} with the "
        "generator. Server and generator take CPU time from each other, so the figures describe both together."
        for cpus, names in sharing.items()
    ]


def noise(results: Results) -> list[str]:
    """Return a caveat on the disturbances at the levels marked noisy."""
    noisy = [level for level in results.levels if Mark.NOISY in level.marks]
    if not noisy:
        return []
    taken = {
        "other programs used up to {} CPUs": _most(level.cost.others_cpus_busy for level in noisy),
        "the hypervisor took up to {} CPUs": _most(level.cost.steal_cpus_busy for level in noisy),
    }
    parts = [words.format(cpus) for words, cpus in taken.items() if cpus not in (wording.NOTHING, "0.00")]
    waited = max((level.cost.run_delay_share or 0.0 for level in noisy), default=0.0)
    if machine_marks(None, waited):
        parts.append(
            f"the generator's threads waited for a CPU for up to {wording.share(waited)} of the window"
        )
    return [
        f"Other activity disturbed {len(noisy):,} of {wording.plural(len(results.levels), 'load level')}, "
        f"marked noisy (N): {wording.listing(parts)}. A quiet machine may give different figures."
    ]


def _most(cpus: Iterable[float | None]) -> str:
    return wording.cpus(max((each for each in cpus if each is not None), default=None))


def ranking(results: Results) -> str:
    """Return the configurations that generator or links limit by server CPU time per operation, lowest first.

    A generator or link at its limit hides which server is faster. The server that needs less CPU time can serve more,
    if its CPU is the limit. The text is empty if no order is hidden, or if the first two may be equal.
    """
    comparisons = results.comparisons
    if not any(_hidden(comparison) for comparison in comparisons):
        return ""
    limited = {name for comparison in comparisons for name in _limited(comparison)}
    found = [
        (cost, result)
        for result in results.configurations
        if result.name in limited and (cost := _cost(result)) is not None
    ]
    if len(found) < 2:
        return ""
    found.sort(key=lambda each: each[0])
    (_, first), (_, second), *_ = found
    average = compare([second.cpu, first.cpu], [(0, 1)], paired=results.source.paired)[0][0]
    if average.verdict is not Verdict.SLOWER:
        return ""
    costs = ", ".join(f"{result.name} {wording.significant(cost)} µs" for cost, result in found)
    return f"Server CPU time per {results.terms.operation}: {costs}."


def _limited(comparison: Comparison) -> set[str]:
    return {name for name, mark in comparison.limits if mark in HIDING}


def _hidden(comparison: Comparison) -> bool:
    """Return whether generator or links limit both configurations and may therefore hide their order."""
    return _limited(comparison) == {comparison.base, comparison.other} and not comparison.faster


def _cost(result: ConfigurationResult) -> float | None:
    """Return the mean CPU time per operation over the levels, in microseconds; None if one is unknown."""
    known = [level.cost.server_cpu_us for level in result.finished]
    values = [spread.mean for spread in known if spread is not None]
    return sum(values) / len(values) if values and len(values) == len(known) else None
