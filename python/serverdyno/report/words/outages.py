"""What is said of outages: how long clients were without service, which open files went on, whether data are right."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.analysis.improvement import Verdict
from serverdyno.protocols.failover import CUTS
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Finding
from serverdyno.report.source import Source
from serverdyno.report.subjects.outages import OutageFigures
from serverdyno.report.subjects.times_compared import TimesCompared, change_percent, undecided

MOST_LISTED = 4
"""Configurations that one sentence names."""
KILLED_ALONE = (
    "Killed processes lose nothing that the kernel has; what a power cut loses, dyno powercut shows."
)


def verdict(found: Sequence[OutageFigures], results: Results) -> str:
    """Return for how long service was away, and whether all data are right: wrong data come first."""
    if not results.mixes:
        return "There is no result: no test finished."
    if not found:
        return "There is no result: no test had its outage."
    times = f"{_medians(found)} {_slowest(found)}"
    return f"{data(found)} {times}" if any(each.data_wrong for each in found) else f"{times} {data(found)}"


def _medians(found: Sequence[OutageFigures]) -> str:
    """`Clients were served again after 1.01 s with a and 2.81 s with b (median).`"""
    known = sorted(
        (each for each in found if each.median_s is not None), key=lambda each: each.median_s or 0.0
    )
    never = [each.name for each in found if each.median_s is None]
    said = []
    if known:
        shown = known if len(known) <= MOST_LISTED else [known[0], known[-1]]
        listed = wording.listing([f"{_s(each.median_s)} with {each.name}" for each in shown])
        rest = "" if shown is known else f", {len(known) - 2} others between"
        said.append(f"Clients were served again after {listed} (median{rest}).")
    if never:
        said.append(f"Most clients of {wording.listing(never)} were never served again.")
    return " ".join(said)


def _slowest(found: Sequence[OutageFigures]) -> str:
    """The slowest client of each, or those that never were back."""
    said = []
    known = [each for each in found if each.slowest_s is not None]
    if known:
        last = max(known, key=lambda each: each.slowest_s or 0.0)
        whose = f", of {last.name}" if len(found) > 1 else ""
        said.append(f"The slowest client waited {_s(last.slowest_s)}{whose}.")
    said += [
        f"{each.never_back:,} of {each.clients:,} clients of {each.name} never were."
        for each in found
        if each.never_back and each.median_s is not None
    ]
    return " ".join(said)


def data(found: Sequence[OutageFigures]) -> str:
    """Say whether what was acknowledged and flushed was there: who lost something is named."""
    wrong = [f"{each.name}: {_losses(each)}" for each in found if each.data_wrong]
    read = sum(each.blocks_read_back or 0 for each in found)
    if wrong:
        return f"Data were lost. {'; '.join(wrong)}."
    if not read:
        return "Whether data were lost is not known: no block was read back."
    unread = [each.name for each in found if not each.blocks_read_back]
    rest = f" Of {wording.listing(unread)} none was read back." if unread else ""
    return f"No flushed data were lost: all {read:,} blocks that were read back are right.{rest}"


def _losses(each: OutageFigures) -> str:
    counts = (
        (each.blocks_lost or 0, "flushed block lost", "flushed blocks lost"),
        (each.blocks_wrong or 0, "block wrong", "blocks wrong"),
        (each.wrong_reads, "read with wrong bytes", "reads with wrong bytes"),
    )
    return wording.listing([wording.plural(count, one, many) for count, one, many in counts if count])


def lines(
    source: Source, found: Sequence[OutageFigures], pairs: Sequence[TimesCompared]
) -> tuple[tuple[str, str], ...]:
    """Return what stands below the verdict: a label and its text."""
    if not found:
        return ()
    return (
        ("Open files", _went_on(found)),
        ("Slowest client", _each_slowest(found)),
        *((("Differences", proven),) if (proven := _proven(pairs, source)) else ()),
        ("Each outage", outage(source)),
    )


def _went_on(found: Sequence[OutageFigures]) -> str:
    """How many clients went on with what they had open."""
    if not any(each.went_on for each in found):
        return "No client went on with the file that it had open; all had to open it again."
    listed = "; ".join(f"{each.name} {each.went_on:,} of {each.clients:,}" for each in found)
    return f"Clients that went on with the file that they had open: {listed}."


def _each_slowest(found: Sequence[OutageFigures]) -> str:
    parts = [
        f"{each.name} {_s(each.slowest_s)}"
        if each.slowest_s is not None
        else f"{each.name} {each.never_back:,} of {each.clients:,} never back"
        for each in found
    ]
    return f"{'; '.join(parts)}."


def _proven(pairs: Sequence[TimesCompared], source: Source) -> str:
    """Which differences of the median are proven, at which loads."""
    if not pairs:
        return ""
    if undecided(pairs):
        return "None: that takes two repetitions."
    mixes = source.head.mixes
    said = []
    for pair in pairs:
        for winner, loser, wanted in (
            (pair.other, pair.base, Verdict.FASTER),
            (pair.base, pair.other, Verdict.SLOWER),
        ):
            levels = [level for level in pair.found if level.verdict is wanted]
            if levels:
                at = wording.listing([f"{mixes[level.mix].clients:,}" for level in levels])
                said.append(f"{winner} is proven sooner than {loser} with {at} clients")
    return f"{'; '.join(said)}." if said else "No difference of the medians is proven."


def outage(source: Source) -> str:
    """Say what was taken away, when and how often."""
    cut = source.cut
    assert cut is not None  # the caller looked
    away = f" after {cut.away_s:g} s" if cut.how == "server" else ""
    return f"After {cut.percent} % of each window {CUTS[cut.how]}{away}. The times above include it."


def sure(source: Source, results: Results) -> str:
    """Return what the verdict rests on."""
    levels = sorted({mix.clients for mix in results.mixes})
    load = wording.listing([f"{level:,}" for level in levels]) + (" client" if levels == [1] else " clients")
    runs = max((len(source.repetitions_of(name)) for name in source.configuration_names), default=0)
    done = f"{len(results.used):,} of {source.planned_mixes:,} tests completed"
    if len(results.used) == source.planned_mixes:
        done = f"all {source.planned_mixes:,} tests completed"
    said = f"One outage in each test, with {load}; {wording.plural(runs, 'repetition')} of each; {done}."
    return said if source.cut is None or source.cut.by_clients else f"{said} {KILLED_ALONE}"


def findings(found: Sequence[OutageFigures], tables: dict[str, str]) -> list[Finding]:
    """One finding for each configuration."""
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
        else f", {each.never_back:,} of {each.clients:,} not before the end of the mix"
    )
    lost = _losses(each) if each.data_wrong else "no flushed data lost"
    unflushed = (
        f"; {wording.plural(each.unflushed_lost, 'write')} lost that {'was' if each.unflushed_lost == 1 else 'were'} "
        "acknowledged and not flushed"
        if each.unflushed_lost
        else ""
    )
    return f"{each.name}: {back}{slowest}. {lost[0].upper()}{lost[1:]}{unflushed}."


def _evidence(each: OutageFigures, tables: dict[str, str]) -> str:
    handles = (
        f"{each.handles_regained:,} of {each.handles_granted:,} granted handles regained, "
        f"{each.handles_asked:,} asked for; "
        if each.handles_asked
        else ""
    )
    return (
        f"{wording.plural(each.outages, 'outage')}, {wording.plural(each.clients, 'client')} in all; {handles}"
        f"{wording.plural(each.failed, 'operation')} failed; {tables['outages']}."
    )


def compared_findings(pairs: Sequence[TimesCompared], tables: dict[str, str]) -> list[Finding]:
    """One finding for each pair, of all its load levels."""
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
