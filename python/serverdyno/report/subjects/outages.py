"""Outages: the time without service, the open files that survived, and whether data are intact.

`run/outage.py` causes the outages.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

from serverdyno import wording
from serverdyno.analysis.comparability import Conditions
from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.levels import AtLevel
from serverdyno.analysis.pairs import Pair, Side
from serverdyno.plan.model import Level
from serverdyno.plan.protocols.failover import CUTS
from serverdyno.report.basis import Over, basis
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import side
from serverdyno.report.model import (
    Answer,
    Cell,
    Column,
    Figure,
    Finding,
    Labels,
    Panel,
    Part,
    Point,
    Section,
    Series,
    Table,
)
from serverdyno.report.parts import MOST_BARS, NAME
from serverdyno.report.source import Source
from serverdyno.report.subjects import timeline, times_compared
from serverdyno.report.subjects.times_compared import TimesCompared, change_percent, side_of_times, undecided
from serverdyno.store.records import LevelRecord

RESOLUTION_S = 0.1
"""The longest interval between a client's attempts to reconnect during an outage (NFS; 0.05 s for SMB).

Smaller differences are not claimed.
"""
WRONG_READS = frozenset({"wrong_content", "stale_content"})
"""Faults of reads whose data differ from the file's content."""
MOST_LISTED = 4
"""Maximum number of configurations that one sentence names."""
KILLED_ALONE = (
    "A killed process loses no data that the kernel already has. `dyno powercut` shows the losses in a "
    "power cut."
)


def applies(results: Results) -> bool:
    return results.source.cut is not None


def build(results: Results) -> Part:
    source, found, pairs = results.source, outages(results), at_equal_load(results)
    tables = (
        back_table(results),
        handles_table(results, Over.TOGETHER),
        differences(source.head.levels, pairs, basis(results, Over.TOGETHER)),
    )
    return Part(
        (timeline.section(results, appendix=False),),
        answer=Answer(
            verdict=_verdict(found, results),
            sure=_sure(results),
            limit="",
            gaps="",
            figures=chart(found, results),
            caveats=(),
            told=_lines(source, found, pairs),
        ),
        summary=Section(
            "summary",
            "Outages: time without service, open files and data",
            tables=tuple(table for table in tables if table is not None),
        ),
        findings=partial(findings, found),
    )


@dataclass(frozen=True, slots=True)
class OutageFigures:
    """The outages of one configuration over all repetitions, at one load level or at all levels.

    `back_s`: sorted times from the outage's start until each client that returned was served again. `clients`: all
    clients. `went_on`: clients that kept their open files. `failed`: failed operations. `handles_asked`: handles
    requested to survive a loss of the connection; `handles_granted` and `handles_regained` of them were granted and
    regained. `blocks_read_back`: blocks read after the levels, of which `blocks_lost` (acknowledged and flushed) and
    `blocks_wrong`. `unflushed_lost`: lost blocks that were acknowledged but not flushed; None: unknown. `wrong_reads`:
    reads at the levels whose data differ from the file's content.
    """

    name: str
    outages: int
    clients: int
    back_s: tuple[float, ...]
    went_on: int
    failed: int
    handles_asked: int
    handles_granted: int
    handles_regained: int
    blocks_read_back: int | None
    blocks_lost: int | None
    blocks_wrong: int | None
    unflushed_lost: int | None
    wrong_reads: int

    @property
    def never_back(self) -> int:
        """Return the number of clients that were not served again before the end of their level."""
        return self.clients - len(self.back_s)

    @property
    def median_s(self) -> float | None:
        """Return the median time of all clients; None if half or more never returned.

        Clients that never returned count as longest.
        """
        return _of_all_clients(self.back_s, self.clients, 0.5)

    @property
    def p99_s(self) -> float | None:
        """Return the time within which 99 % of all clients were back; None if fewer returned."""
        return _of_all_clients(self.back_s, self.clients, 0.99)

    @property
    def slowest_s(self) -> float | None:
        """Return the time of the last client; None if one never returned."""
        return None if self.never_back or not self.back_s else self.back_s[-1]

    @property
    def data_wrong(self) -> int:
        """Return the number of blocks and reads that prove lost or changed data."""
        return (self.blocks_lost or 0) + (self.blocks_wrong or 0) + self.wrong_reads


def outages(results: Results) -> tuple[OutageFigures, ...]:
    """Return the outages of each configuration that had any, over all load levels, in plan order."""
    by_name = {result.name: results.records(result.name) for result in results.configurations}
    return tuple(figures(name, records) for name, records in by_name.items() if any(map(_cut, records)))


def by_level(results: Results) -> tuple[tuple[int, OutageFigures], ...]:
    """Return the number of clients and the outages of each load level."""
    of_levels = ((level, results.records(level.configuration, level.index)) for level in results.levels)
    return tuple(
        (level.clients, figures(level.configuration, records))
        for level, records in of_levels
        if any(map(_cut, records))
    )


def figures(name: str, records: Sequence[LevelRecord]) -> OutageFigures:
    cut = [record for record in records if _cut(record)]

    def total(column: str) -> int | None:
        known = [count for record in cut if (count := getattr(record, column)) is not None]
        return sum(known) if known else None

    return OutageFigures(
        name=name,
        outages=len(cut),
        clients=sum(record.clients for record in cut),
        back_s=tuple(sorted(moment for record in cut for moment in back_s(record))),
        went_on=sum(map(went_on, cut)),
        failed=sum(record.failures for record in cut),
        handles_asked=total("handles_asked") or 0,
        handles_granted=total("handles_granted") or 0,
        handles_regained=total("handles_regained") or 0,
        blocks_read_back=total("blocks_read_back"),
        blocks_lost=total("blocks_lost"),
        blocks_wrong=total("blocks_wrong"),
        unflushed_lost=total("unflushed_lost"),
        wrong_reads=sum(row.count for record in cut for row in record.errors if row.fault in WRONG_READS),
    )


def _cut(record: LevelRecord) -> bool:
    return record.cut_at_s is not None


def back_s(record: LevelRecord) -> list[float]:
    """Return the time without service of each client that returned, in s from the outage's start."""
    if record.cut_at_s is None:
        return []
    first: dict[int, float] = {}
    for outage in record.outages:
        if outage.back_s >= record.cut_at_s:
            first[outage.client] = min(outage.back_s, first.get(outage.client, outage.back_s))
    return [moment - record.cut_at_s for moment in first.values()]


def went_on(record: LevelRecord) -> int:
    """Return the number of clients that kept all open files in every outage."""
    lost = {outage.client for outage in record.outages if outage.session_lost}
    return len({outage.client for outage in record.outages} - lost)


def _of_all_clients(back: Sequence[float], clients: int, share: float) -> float | None:
    """Return the time within which a share of the clients returned; for the median, the mean of the middle two."""
    times = [*back, *[math.inf] * (clients - len(back))]
    if not times:
        return None
    found = statistics.median(times) if share == 0.5 else times[max(0, math.ceil(share * len(times)) - 1)]
    return found if math.isfinite(found) else None


def at_equal_load(results: Results) -> tuple[TimesCompared, ...]:
    """Compare the median times of each pair, level by level. The base is the configuration earlier in the plan."""
    found = [outage_side(results, result.name) for result in results.configurations]
    return compared_outages(
        list(combinations(found, 2)),
        paired=results.source.paired,
        minimum_percent=results.source.head.plan.minimum_effect_percent,
    )


def outage_side(results: Results, name: str, called: str = "") -> Side:
    """Return a configuration as a side of a comparison, with 1 / median time as the figure of each level.

    Failed operations are part of an outage, so they are not an obstacle. Durability is shown next to the comparison.
    """
    whole = side(results, name, called)

    def conditions(places: Collection[int]) -> Conditions:
        return replace(whole.conditions(places), failed_share=0.0, operations={}, hidden_speed=None)

    of_times = side_of_times(
        whole, results.of(name), results, lambda record: figures(name, [record]).median_s
    )
    return replace(of_times, did=None, limits=(), conditions=conditions)


def compared_outages(
    pairs: Sequence[Pair], *, paired: bool, minimum_percent: float, between: Contrast | None = None
) -> tuple[TimesCompared, ...]:
    """Compare the second side of each pair with the first. Differences below the resolution are not claimed."""
    found = times_compared.compared(pairs, paired=paired, minimum_percent=minimum_percent, between=between)
    return tuple(replace(pair, found=tuple(map(_resolved, pair.found))) for pair in found)


def _resolved(level: AtLevel) -> AtLevel:
    if level.proven and abs(1 / level.other - 1 / level.base) < RESOLUTION_S:
        return replace(level, verdict=Verdict.NO_DIFFERENCE_SHOWN)
    return level


BACK = (
    NAME,
    Column("Clients"),
    Column("Outages"),
    Column("Clients served again"),
    Column("Time without service", "p50, s"),
    Column("Time without service", "p99, s"),
    Column("Time without service", "slowest client, s"),
    Column("Kept open files", "clients"),
    Column("Failed operations"),
    Column("Blocks read back"),
    Column("Flushed blocks lost"),
    Column("Wrong blocks and reads"),
    Column("Unflushed blocks lost"),
)
BACK_NOTES = (
    "Counts are sums over all repetitions. Time without service: from the start of the outage (server killed or "
    "connections cut) to a client's first success on another connection. A client that was not served again "
    "before the end of the load level counts as slower than all others. Kept open files: these clients went on "
    "with their open file; the others had to reopen it.",
    "Blocks read back: from the server, after the load level. Flushed blocks lost: the server returned older data "
    "than it had acknowledged and flushed. Wrong blocks and reads: blocks that match no written version as a whole, "
    "and reads during the load level that returned wrong bytes. Unflushed blocks lost: acknowledged but not flushed; "
    "a server may lose these with the session. Blocks that were not acknowledged are not counted.",
)
HANDLES = (
    NAME,
    Column("Clients"),
    Column("Handles requested"),
    Column("Granted"),
    Column("Persistent"),
    Column("Regained"),
    Column("Lost"),
    Column("Calls sent again"),
)
HANDLES_NOTES = (
    "Counts are sums over all repetitions, ramps included. Handles requested: opens that asked for a handle that "
    "survives its connection. Persistent: granted handles that also survive a restart of the server. Regained: "
    "the client reopened the handle on another connection, with the state that the server had kept. Calls sent "
    "again: calls that had no answer when the connection was lost.",
)


def chart(found: Sequence[OutageFigures], results: Results) -> tuple[Figure, ...]:
    """Return a bar chart of the median time without service, shortest first; empty for one configuration."""
    bars = [
        Series(each.name, style, (Point(0, each.median_s, each.back_s[0], each.back_s[-1]),))
        for style, each in enumerate(found)
        if each.median_s is not None
    ]
    if len(bars) < 2:
        return ()
    bars.sort(key=lambda bar: bar.points[0].y)
    title = "Median time until a client was served again; error bars from the fastest to the slowest client"
    if len(bars) > MOST_BARS:
        title += f": the shortest {MOST_BARS} of {len(bars)}"
    panel = Panel("", "s", tuple(bars[:MOST_BARS]))
    under = f"{basis(results, Over.TOGETHER)} Shorter is better."
    return (Figure("overview", 0, title, under, "bars", "Seconds", (panel,)),)


def back_table(results: Results) -> Table | None:
    """Return a table of times without service and of losses, one row per load level; None without outages."""
    rows = tuple(_back_row(clients, found) for clients, found in by_level(results))
    if not rows:
        return None
    under = basis(results, Over.TOGETHER)
    return Table("outages", 0, "Cost of the outages", under, BACK, rows, BACK_NOTES, key_columns=2)


def _back_row(clients: int, found: OutageFigures) -> tuple[Cell, ...]:
    wrong = None if found.blocks_wrong is None else found.blocks_wrong + found.wrong_reads
    return (
        Cell(found.name),
        Cell(wording.whole(clients)),
        Cell(wording.whole(found.outages)),
        Cell(f"{len(found.back_s):,} of {found.clients:,}"),
        Cell(wording.significant(found.median_s), strong=True),
        Cell(wording.significant(found.p99_s)),
        Cell(wording.significant(found.slowest_s)),
        Cell(wording.whole(found.went_on)),
        Cell(wording.whole(found.failed)),
        *(
            Cell(wording.whole(count))
            for count in (found.blocks_read_back, found.blocks_lost, wrong, found.unflushed_lost)
        ),
    )


def handles_table(results: Results, over: Over) -> Table | None:
    """Return a table of the handles that should survive connections; None if clients requested none."""
    rows = tuple(
        _handles_row(level.configuration, records)
        for level in results.levels
        if (records := results.records(level.configuration, level.index))
        and any(record.handles_asked for record in records)
    )
    if not rows:
        return None
    title = "File handles that should survive the loss of the connection"
    return Table("handles", 0, title, basis(results, over), HANDLES, rows, HANDLES_NOTES, key_columns=2)


def _handles_row(configuration: str, records: Sequence[LevelRecord]) -> tuple[Cell, ...]:
    counts = (
        [record.handles_asked for record in records],
        [record.handles_granted for record in records],
        [record.handles_persistent for record in records],
        [record.handles_regained for record in records],
        [record.handles_lost for record in records],
        [record.calls_sent_again for record in records],
    )
    return (
        Cell(configuration),
        Cell(wording.whole(records[0].clients)),
        *(Cell(wording.whole(sum(count or 0 for count in each))) for each in counts),
    )


def differences(levels: Sequence[Level], pairs: Sequence[TimesCompared], under: str) -> Table | None:
    """Return a table of each pair at each load level; None if nothing can be compared. `levels`: the suite's levels."""
    rows = times_compared.rows(pairs, lambda _, level: levels[level.index].clients)
    if not rows:
        return None
    columns = times_compared.columns(
        Column("Clients"), Column("Time without service", "median, s; second line: base"), Column("Change")
    )
    notes = (
        "Faster: clients were served again sooner. Time without service: harmonic mean of the repetitions' medians. "
        f"Clients try to reconnect at least every {RESOLUTION_S:g} s, so smaller differences are not claimed. "
        f"{times_compared.VERDICTS_NOTE}",
    )
    title = "Time without service compared"
    return Table("away", 0, title, under, columns, rows, notes, key_columns=2)


def _verdict(found: Sequence[OutageFigures], results: Results) -> str:
    """Return the times without service, and whether data are intact. Lost data come first."""
    if not results.levels:
        return "There is no result: no load level finished."
    if not found:
        return "There is no result: no load level had its outage."
    times = f"{_medians(found)} {_slowest(found)}"
    return f"{data(found)} {times}" if any(each.data_wrong for each in found) else f"{times} {data(found)}"


def _medians(found: Sequence[OutageFigures]) -> str:
    """Return the median times: `Clients were served again after 1.01 s with a and 2.81 s with b`."""
    known = sorted(
        (each for each in found if each.median_s is not None), key=lambda each: each.median_s or 0.0
    )
    never = [each.name for each in found if each.median_s is None]
    said = []
    if known:
        shown = known if len(known) <= MOST_LISTED else [known[0], known[-1]]
        listed = wording.listing([f"{_s(each.median_s)} with {each.name}" for each in shown])
        rest = "" if shown is known else f"; the medians of {len(known) - 2} others are between these"
        said.append(f"Clients were served again after {listed} (median{rest}).")
    if never:
        said.append(f"Most clients of {wording.listing(never)} were never served again.")
    return " ".join(said)


def _slowest(found: Sequence[OutageFigures]) -> str:
    """Return the slowest client's time, and how many clients of each configuration never returned."""
    said = []
    known = [each for each in found if each.slowest_s is not None]
    if known:
        last = max(known, key=lambda each: each.slowest_s or 0.0)
        whose = f" ({last.name})" if len(found) > 1 else ""
        said.append(f"The slowest client waited {_s(last.slowest_s)}{whose}.")
    said += [
        f"{each.never_back:,} of {each.clients:,} clients of {each.name} were never served again."
        for each in found
        if each.never_back and each.median_s is not None
    ]
    return " ".join(said)


def data(found: Sequence[OutageFigures]) -> str:
    """Return whether acknowledged and flushed data survived, and which configurations lost some."""
    wrong = [f"{each.name}: {_losses(each)}" for each in found if each.data_wrong]
    read = sum(each.blocks_read_back or 0 for each in found)
    if wrong:
        return f"Data were lost. {'; '.join(wrong)}."
    if not read:
        return "It is not known whether data were lost, because no block was read back."
    unread = [each.name for each in found if not each.blocks_read_back]
    rest = f" No block of {wording.listing(unread)} was read back." if unread else ""
    return f"No flushed data were lost: all {read:,} blocks that were read back are correct.{rest}"


def _losses(each: OutageFigures) -> str:
    counts = (
        (each.blocks_lost or 0, "flushed block lost", "flushed blocks lost"),
        (each.blocks_wrong or 0, "block with wrong data", "blocks with wrong data"),
        (each.wrong_reads, "read that returned wrong data", "reads that returned wrong data"),
    )
    return wording.listing([wording.plural(count, one, many) for count, one, many in counts if count])


def _lines(
    source: Source, found: Sequence[OutageFigures], pairs: Sequence[TimesCompared]
) -> tuple[tuple[str, str], ...]:
    if not found:
        return ()
    return (
        ("Open files", _went_on(found)),
        ("Slowest client", _each_slowest(found)),
        *((("Differences", proven),) if (proven := _proven(pairs, source)) else ()),
        ("Each outage", _outage(source)),
    )


def _went_on(found: Sequence[OutageFigures]) -> str:
    if not any(each.went_on for each in found):
        return "No client kept its open file; all had to open it again."
    listed = "; ".join(f"{each.name} {each.went_on:,} of {each.clients:,}" for each in found)
    return f"Clients that kept their open file: {listed}."


def _each_slowest(found: Sequence[OutageFigures]) -> str:
    parts = [
        f"{each.name}: {_s(each.slowest_s)}"
        if each.slowest_s is not None
        else f"{each.name}: {each.never_back:,} of {each.clients:,} were never served again"
        for each in found
    ]
    return f"{'; '.join(parts)}."


def _proven(pairs: Sequence[TimesCompared], source: Source) -> str:
    """Return which differences of the median are proven, and at which loads."""
    if not pairs:
        return ""
    if undecided(pairs):
        return "Not known: a comparison needs two repetitions."
    levels = source.head.levels
    said = []
    for pair in pairs:
        for winner, loser, wanted in (
            (pair.other, pair.base, Verdict.FASTER),
            (pair.base, pair.other, Verdict.SLOWER),
        ):
            proven = [level for level in pair.found if level.verdict is wanted]
            if proven:
                at = wording.listing([f"{levels[level.index].clients:,}" for level in proven])
                said.append(f"{winner} is proven faster than {loser} with {at} clients")
    return f"{'; '.join(said)}." if said else "No difference between the medians is proven."


def _outage(source: Source) -> str:
    """Return the kind of outage, and the point in the window at which it begins."""
    cut = source.cut
    assert cut is not None
    away = f" after {cut.away_s:g} s. Times without service include this wait" if cut.how == "server" else ""
    return f"After {cut.percent} % of each window, {CUTS[cut.how]}{away}."


def _sure(results: Results) -> str:
    source = results.source
    levels = sorted({level.clients for level in results.levels})
    load = wording.listing([f"{level:,}" for level in levels]) + (" client" if levels == [1] else " clients")
    runs = max((len(source.repetitions_of(name)) for name in source.configuration_names), default=0)
    done = f"{len(results.used):,} of {source.planned_levels:,} load levels completed"
    if len(results.used) == source.planned_levels:
        done = f"all {source.planned_levels:,} load levels completed"
    said = f"One outage per load level, with {load}; {wording.plural(runs, 'repetition')} of each; {done}."
    return said if source.cut is None or source.cut.by_clients else f"{said} {KILLED_ALONE}"


def findings(found: Sequence[OutageFigures], tables: Labels) -> list[Finding]:
    return [Finding("Outage", _claim(each), _evidence(each, tables)) for each in found]


def _claim(each: OutageFigures) -> str:
    back = (
        f"half of the clients were served again within {_s(each.median_s)}"
        if each.median_s is not None
        else "most clients were never served again"
    )
    slowest = (
        f", the slowest after {_s(each.slowest_s)}"
        if each.slowest_s is not None
        else f"; {each.never_back:,} of {each.clients:,} were not served again before the end of the load level"
    )
    lost = _losses(each) if each.data_wrong else "no flushed data were lost"
    unflushed = (
        f"; the server lost {wording.plural(each.unflushed_lost, 'block')} that it had acknowledged but not flushed"
        if each.unflushed_lost
        else ""
    )
    return f"{each.name}: {back}{slowest}. {lost[0].upper()}{lost[1:]}{unflushed}."


def _evidence(each: OutageFigures, tables: Labels) -> str:
    handles = (
        f"of {each.handles_asked:,} requested handles, {each.handles_granted:,} were granted and "
        f"{each.handles_regained:,} of these were regained; "
        if each.handles_asked
        else ""
    )
    return (
        f"{wording.plural(each.outages, 'outage')}, {wording.plural(each.clients, 'client')} in all; {handles}"
        f"{wording.plural(each.failed, 'operation')} failed; {tables['outages']}."
    )


def compared_findings(pairs: Sequence[TimesCompared], tables: Labels) -> list[Finding]:
    """Return one finding per pair, with all its load levels."""
    return [
        Finding(
            "Comparison",
            f"{pair.other} against {pair.base}, time without service: "
            + "; ".join(
                f"{wording.change(change_percent(level.percent))} ({level.verdict.value})"
                for level in pair.found
            )
            + ".",
            f"{wording.plural(len(pair.found), 'load level')}; {tables['away']}.",
        )
        for pair in pairs
        if pair.found
    ]


def _s(seconds: float | None) -> str:
    return f"{wording.significant(seconds)} s"
