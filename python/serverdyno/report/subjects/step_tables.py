"""The tables of steps: leaders, times, requests, Bonnie's rows and published figures. Part of `steps.py`.

Nothing is computed from the published figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from serverdyno import wording
from serverdyno.analysis import bonnie_rows
from serverdyno.plan.model import Suite
from serverdyno.published import PublishedReport
from serverdyno.published.tables import Cell as Value
from serverdyno.published.tables import Table as PublishedTable
from serverdyno.published.tables import number
from serverdyno.report.figures.steps import (
    Step,
    bonnie_rates,
    figures_of,
    groups,
    mean_requests,
    runs_of_bonnie,
    settings_of,
    suites_of,
)
from serverdyno.report.model import Cell, Column, DisclosedText, Disclosure, Section, Table
from serverdyno.report.source import Source
from serverdyno.report.subjects import durability, step_charts
from serverdyno.report.subjects.beside import NOT_COMPARABLE, hardware
from serverdyno.store.records import LevelRecord

DURABILITY = "durability-of-steps"
"""The key of the table of flushes."""
MOST_REQUESTS = 4
"""Maximum number of kinds of requests in a row, most frequent first; the CSV file has all."""
PHASES = (
    ("putc", "Per char output"),
    ("write", "Block output"),
    ("rewrite", "Rewrite"),
    ("getc", "Per char input"),
    ("read", "Block input"),
    ("seeks", "Seeks"),
)
"""Bonnie's phases in the order of its report."""
_PUBLISHED_TESTS = {
    "putc": ("output", "per character"),
    "write": ("output", "block"),
    "rewrite": ("output", "rewrite"),
    "getc": ("input", "per character"),
    "read": ("input", "block"),
}


def summary(source: Source, steps: Sequence[Step]) -> Section:
    return Section(
        "summary", "Leaders", figures=step_charts.speeds(source, steps), tables=(_leads(source, steps),)
    )


def sections(source: Source, steps: Sequence[Step], published: PublishedReport | None) -> tuple[Section, ...]:
    """Return the sections: Bonnie's rows, each suite's steps, the servers, the published figures, and all pairs."""
    suites = suites_of(source)
    of_suites = [
        Section(
            f"steps-{place}",
            f"Steps of {suite.name}",
            figures=step_charts.elapsed(source, suite, steps, place),
            tables=(_details(source, suite, steps),),
        )
        for place, suite in enumerate(suites, start=1)
    ]
    return (
        *(_bonnie(source, suite, steps) for suite in suites if settings_of(suite) is not None),
        *of_suites,
        Section("server", "Servers", tables=tuple(_servers(source, steps))),
        *([] if published is None else [_beside(published, steps)]),
        Section("pairs", "All comparisons", tables=(pairs(basis(source), steps),), appendix=True),
    )


def rows_of_bonnie(source: Source, steps: Sequence[Step], suite: Suite) -> Disclosure:
    """Return one row per run, in the format of Bonnie 1996."""
    bonnie = settings_of(suite)
    assert bonnie is not None
    rows = [
        bonnie_rows.text_row(f"{name[:5]}-r{run}", bonnie.size_mib, bonnie_rates(suite, [records]))
        for name in source.configuration_names
        for run, records in runs_of_bonnie(steps, suite, name).items()
    ]
    text = bonnie_rows.HEAD + "".join(rows)
    return Disclosure("Bonnie's rows", (), (DisclosedText("Output in the format of Bonnie (1996)", text),))


def basis(source: Source) -> str:
    """Return the line below the tables of steps."""
    plan = source.head.plan
    scale = f"Scale {source.head.scale:g}. " if source.shortened else ""
    return f"{scale}Mean of {wording.plural(plan.repetitions, 'repetition')}, with their range."


def _leads(source: Source, steps: Sequence[Step]) -> Table:
    columns = (
        Column("Suite", numeric=False),
        Column("Step", numeric=False),
        Column("State", numeric=False),
        *(Column(name, "s elapsed") for name in source.configuration_names),
        Column("Leader", numeric=False),
        Column("Lead", numeric=False),
    )
    rows = tuple(
        (
            Cell(step.suite.name),
            Cell(step.name),
            Cell(step.state or wording.NOTHING),
            *(
                _seconds(
                    [one.window_s for one in step.times[name].values()],
                    strong=step.lead is not None and step.lead.winner == name,
                )
                for name in source.configuration_names
            ),
            Cell(step.lead.winner if step.lead else "not proven"),
            Cell(lead_words(step) or wording.NOTHING),
        )
        for step in steps
    )
    notes = (
        "Leader: proven faster than every other configuration. Lead: the ratio of its speed to that of the next "
        "configuration, with the 95 % interval.",
    )
    return Table(
        "leads", 0, "Elapsed time of each step, and the leader", basis(source), columns, rows, notes, 3
    )


def _details(source: Source, suite: Suite, steps: Sequence[Step]) -> Table:
    columns = (
        Column("Step", numeric=False),
        Column("State", numeric=False),
        Column("Configuration", numeric=False),
        Column("Elapsed", "s"),
        Column("User time", "s"),
        Column("System time", "s"),
        Column("Data", "MB/s"),
        Column("Requests"),
        Column("Most frequent requests", numeric=False),
    )
    rows = tuple(
        _detail(step, name, list(runs.values()))
        for step in steps
        if step.suite is suite
        for name, runs in step.times.items()
        if runs
    )
    notes = (
        "User and system time: CPU time of the client's threads. Requests are means over the repetitions. The last "
        f"column has the {MOST_REQUESTS} most frequent kinds, by their names in the protocol. 1 MB is 10^6 bytes.",
    )
    title = f"{suite.name}: elapsed, user and system time, and requests"
    return Table(f"steps-{suite.name}", 0, title, basis(source), columns, rows, notes, 3)


def _detail(step: Step, name: str, runs: Sequence[LevelRecord]) -> tuple[Cell, ...]:
    requests = mean_requests(runs)
    named = sorted(requests.items(), key=lambda each: -each[1])[:MOST_REQUESTS]
    moved = [figures_of(one, step.suite)["bytes"] for one in runs]
    speed = [each / 1e6 / max(one.window_s, 1e-9) for each, one in zip(moved, runs, strict=True)]
    return (
        Cell(step.name),
        Cell(step.state or wording.NOTHING),
        Cell(name),
        _seconds([one.window_s for one in runs]),
        _seconds([one.generator_cpu_user_s for one in runs]),
        _seconds([one.generator_cpu_system_s for one in runs]),
        Cell(wording.significant(fmean(speed)) if any(moved) else wording.NOTHING),
        Cell(wording.places(sum(requests.values()), 0)),
        Cell(", ".join(f"{kind} {count:,.0f}" for kind, count in named) or wording.NOTHING),
    )


def _servers(source: Source, steps: Sequence[Step]) -> Iterator[Table]:
    """Yield a table of CPU times, and one of flushes if any was sent."""
    columns = (
        Column("Configuration", numeric=False),
        Column("Suite", numeric=False),
        Column("All steps", "s elapsed"),
        Column("Client's CPU time", "s"),
        Column("Server's CPU time", "s"),
    )
    rows = tuple(
        (
            Cell(name),
            Cell(suite.name),
            _seconds([sum(step.window_s for step in one) for one in runs]),
            _seconds([sum(step.generator_cpu_s for step in one) for one in runs]),
            _seconds([sum(known) for one in runs if (known := _server_cpu_s(one))]),
        )
        for name in source.configuration_names
        for suite in suites_of(source)
        if (runs := list(groups(steps, suite, name).values()))
    )
    notes = ("Server's CPU time: of all its processes during the steps.",)
    yield Table("servers", 0, "CPU time of clients and servers", basis(source), columns, rows, notes, 2)
    if durability.is_flushed(promises := durability.promises_of_steps(source)):
        under = "One row per run. Flushes: COMMIT of NFS and FLUSH of SMB in the steps of a run."
        yield durability.table(promises, under, DURABILITY)


def _server_cpu_s(records: Sequence[LevelRecord]) -> list[float]:
    return [record.server_cpu_s for record in records if record.server_cpu_s is not None]


def _bonnie(source: Source, suite: Suite, steps: Sequence[Step]) -> Section:
    """Return the section with the means in the columns of Bonnie's original report."""
    bonnie, rows = settings_of(suite), []
    assert bonnie is not None
    for name in source.configuration_names:
        runs = list(runs_of_bonnie(steps, suite, name).values())
        if runs:
            rates = bonnie_rates(suite, runs)
            figures = [(rates[phase].per_s, rates[phase].cpu_percent) for phase, _ in PHASES]
            cells = [
                Cell(wording.places(value, place % 2)) for pair in figures for place, value in enumerate(pair)
            ]
            rows.append((Cell(name), Cell(wording.whole(bonnie.size_mib)), *cells))
    table = Table(
        "bonnie", 0, "Bonnie in the layout of the original", basis(source), _columns(), tuple(rows), (), 2
    )
    text = (
        "Rates are computed from the mean times of the repetitions. The disclosure has the rows in the format of the "
        "original program."
    )
    return Section("bonnie", "Bonnie's row", text=(text,), tables=(table,))


def _columns() -> tuple[Column, ...]:
    columns = [Column("Machine", numeric=False), Column("MB")]
    for name, title in PHASES:
        columns += [Column(title, "/s" if name == "seeks" else "K/s"), Column("", "%CPU")]
    return tuple(columns)


def pairs(under: str, steps: Sequence[Step]) -> Table:
    columns = (
        Column("Step", numeric=False),
        Column("Configuration", numeric=False),
        Column("Against", numeric=False),
        Column("Speed", "ratio"),
        Column("95 % interval"),
        Column("Verdict", numeric=False),
    )
    rows = []
    for step in steps:
        for gap in step.gaps:
            told = gap.improvement
            known = told.low_percent is not None and told.high_percent is not None
            rows.append(
                (
                    Cell(step.label),
                    Cell(gap.other),
                    Cell(gap.base),
                    Cell(wording.NOTHING if told.percent is None else ratio(1 + told.percent / 100)),
                    Cell(
                        f"{ratio(1 + (told.low_percent or 0) / 100)} to {ratio(1 + (told.high_percent or 0) / 100)}"
                        if known
                        else wording.NOTHING
                    ),
                    Cell(str(told.verdict)),
                )
            )
    return Table("all-pairs", 0, "Each pair in each step", under, columns, tuple(rows), (), 3)


def _beside(published: PublishedReport, steps: Sequence[Step]) -> Section:
    about = published.meta.citation
    tables = {table.name: table for table in published.tables}
    found = [
        _published_times(about.year, tables["interaction"], steps) if "interaction" in tables else None,
        _published_bonnie(about.year, tables["bonnie"], tables.get("seeks")) if "bonnie" in tables else None,
    ]
    text = f"{NOT_COMPARABLE} Source: {about.title} ({about.laboratory}, {about.year})."
    doubts = tuple(f"{doubt.place}: {doubt.doubt}" for doubt in published.meta.doubts)
    return Section(
        "beside",
        "Next to a published report",
        text=(
            text,
            *hardware(published.meta),
            *(("Doubts about the published figures: " + " ".join(doubts),) if doubts else ()),
        ),
        tables=tuple(table for table in found if table is not None and table.rows),
    )


def _published_times(year: int, table: PublishedTable, steps: Sequence[Step]) -> Table:
    columns = (
        Column("Step", numeric=False),
        Column("Server", numeric=False),
        *(Column(kind.capitalize(), "s") for kind in ("elapsed", "user", "system")),
    )
    rows = [row for figure in _figures(steps) for row in _times_of(table, *figure)]
    return Table("published-times", 0, f"{year}: seconds of each step", "", columns, tuple(rows), (), 2)


def _figures(steps: Sequence[Step]) -> list[tuple[int, str]]:
    """Return the numbers of the published figures, each with the name of the step that re-creates it."""
    return list({step.figure: step.name for step in steps if step.figure is not None}.items())


def _times_of(table: PublishedTable, figure: int, name: str) -> Iterator[tuple[Cell, ...]]:
    rows = table.select({"figure": figure})
    for server in dict.fromkeys(row["server"] for row in rows):
        times = {row["time"]: row["seconds"] for row in rows if row["server"] == server}
        yield (
            Cell(name),
            Cell(f"{server}"),
            *(Cell(_figure(times.get(kind), 3)) for kind in ("elapsed", "user", "system")),
        )


def _published_bonnie(year: int, table: PublishedTable, seeks: PublishedTable | None) -> Table:
    def cells(rows: Sequence[dict[str, Value]], column: str) -> tuple[Cell, Cell]:
        row = rows[0] if rows else {}
        return Cell(_figure(row.get(column), 0)), Cell(_figure(row.get("cpu_percent"), 1))

    found = []
    for server in (f"{value}" for value in table.values("server")):
        row = [Cell(server), Cell(wording.NOTHING)]
        for phase, _ in PHASES[:-1]:
            direction, test = _PUBLISHED_TESTS[phase]
            row += cells(table.select({"direction": direction, "test": test, "server": server}), "k_per_s")
        row += cells(seeks.select({"server": server}) if seeks else [], "seeks_per_s")
        found.append(tuple(row))
    return Table("published-bonnie", 0, f"{year}: Bonnie's rows", "", _columns(), tuple(found), (), 2)


def _figure(value: Value, places: int) -> str:
    return wording.places(number(value), places)


def _seconds(values: Sequence[float], *, strong: bool = False) -> Cell:
    """Return the mean, with the range if there are several values."""
    if not values:
        return Cell(wording.NOTHING)
    low, high = wording.significant(min(values)), wording.significant(max(values))
    detail = f"{low} to {high}" if len(values) > 1 and low != high else ""
    return Cell(wording.significant(fmean(values)), detail, strong)


def lead_words(step: Step) -> str:
    """Return `1.4 times as fast as b (1.2 to 1.6)`; empty without a leader."""
    lead = step.lead
    if lead is None:
        return ""
    return f"{ratio(lead.ratio)} times as fast as {lead.next} ({ratio(lead.low)} to {ratio(lead.high)})"


def ratio(value: float) -> str:
    """Return a ratio with two decimals if it is small: `1.04`, `2.3`, `14`."""
    return wording.places(value, 2) if value < 1.95 else wording.ratio(value)
