"""Differences in throughput between pairs of configurations, corrected for their number, and odd runs.

"No difference shown" is a finding too. `analysis.improvement` computes the estimates and intervals. `analysis.contrast`
contains the rule for odd runs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from statistics import fmean, median

from serverdyno import wording
from serverdyno.analysis import pairs
from serverdyno.analysis.comparability import Obstacle, ObstacleKind
from serverdyno.analysis.improvement import CONFIDENCE, Improvement, Metric, Verdict
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import DISK_SHARE, LIMITS, TAKEN_SHARE, Mark
from serverdyno.plan.protocols.work import Terms
from serverdyno.report.basis import basis, letters, mark_notes
from serverdyno.report.figures.generator import cpus_busy, run_delay_share, taken_cpus
from serverdyno.report.figures.results import Results
from serverdyno.report.figures.sides import sides
from serverdyno.report.model import (
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
from serverdyno.report.noise_floor import NoiseFloor
from serverdyno.report.subjects import peaks
from serverdyno.store.records import LevelRecord

MOST_PAIRS = 28
UNEXPLAINED = "No measurement on the host explains this."


def applies(results: Results) -> bool:
    return bool(results.comparisons)


def build(results: Results) -> Part:
    comparisons = results.comparisons
    section = Section(
        "improvement",
        "Differences",
        figures=tuple(_chart(results)),
        tables=(table(comparisons, results.terms, basis(results)),),
    )

    def findings_of(tables: Labels) -> list[Finding]:
        most = peaks.MOST_FINDINGS - len(peaks.named(results))
        odd = odd_runs(comparisons, results.source.records_by_name(), tables["improvements"])
        return [*findings(comparisons, results.terms, tables, most), *odd]

    return Part((section,), findings_of)


def compared(results: Results) -> tuple[Comparison, ...]:
    """Compare each pair of configurations; all verdicts are corrected together."""
    source = results.source
    return pairs.compared(pairs.pairs(sides(results)), paired=source.paired, margins=source.margins)


def findings(comparisons: Sequence[Comparison], terms: Terms, tables: Labels, most: int) -> list[Finding]:
    """Return a finding for each comparison; for more than `most`, count the verdicts and return the largest."""
    if len(comparisons) <= most:
        return [_finding(comparison, terms, tables) for comparison in comparisons]
    largest = sorted(comparisons, key=_size, reverse=True)[: most - 1]
    counted = Finding("Comparison", tally(comparisons), f"All of them: {tables['improvements']}.")
    return [
        counted,
        *(_finding(comparison, terms, tables) for comparison in comparisons if comparison in largest),
    ]


def tally(comparisons: Sequence[Comparison]) -> str:
    """Return the number of comparisons of the overall average with each verdict."""
    bases = {comparison.base for comparison in comparisons}
    against = f" with {bases.pop()}" if len(bases) == 1 else ""
    found = Counter(comparison.average.verdict for comparison in comparisons)
    counts = ", ".join(f"{found[verdict]:,} {verdict}" for verdict in Verdict if found[verdict])
    limited = sum(bool(comparison.limits) for comparison in comparisons)
    note = (
        f" In {wording.plural(limited, 'comparison')}, something other than the server limited a side: see the marks."
        if limited
        else ""
    )
    return f"{wording.plural(len(comparisons), 'comparison')}{against} in overall average: {counts}.{note}"


def claim(comparison: Comparison, figures: Collection[Metric]) -> str:
    """Return a sentence for each verdict, and others on limits, flushes and partial passes."""
    by_verdict: dict[Verdict, list[Improvement]] = defaultdict(list)
    by_obstacles: dict[tuple[Obstacle, ...], list[Improvement]] = defaultdict(list)
    for improvement in comparison.improvements:
        if improvement.figure in figures:
            if why := comparison.obstacles.get(improvement.figure):
                by_obstacles[why].append(improvement)
            else:
                by_verdict[improvement.verdict].append(improvement)
    sentences = [_sentence(comparison, verdict, found) for verdict, found in by_verdict.items()]
    sentences += [_not_comparable(comparison, why, found) for why, found in by_obstacles.items()]
    if comparison.limits and set(by_verdict) != {Verdict.NOT_COMPARABLE}:
        sentences.append(_limits(comparison))
    if comparison.differs_in_durability is None:
        sentences.append("Whether the two differ in durability is not known.")
    if partial := [figure.value for figure in figures if figure in comparison.parts_of_a_pass]:
        sentences.append(
            f"The {wording.listing(partial)} {'compares' if len(partial) == 1 else 'compare'} different operations, "
            "because clients had too little time to finish the workload."
        )
    return " ".join(sentences)


def _finding(comparison: Comparison, terms: Terms, tables: Labels) -> Finding:
    improvements = comparison.improvements
    rates = [
        f"{improvement.figure.value} {terms.written(improvement.other)} ({comparison.other}) against "
        f"{terms.written(improvement.base)} ({comparison.base})"
        for improvement in improvements
        if improvement.repetitions and improvement.levels
    ]
    evidence = [
        f"{', '.join(rates)} {terms.unit}"
        if rates
        else "the two have no complete runs at the same load levels",
        wording.plural(improvements[0].repetitions, "repetition")
        + (" in pairs" if improvements[0].paired else ""),
        f"over {wording.plural(len(improvements[0].levels), 'load level')}",
    ]
    if words := correction(improvements):
        evidence.append(f"verdicts corrected for {words}")
    evidence += _could_have_found(comparison.average)
    evidence.append(tables["improvements"])
    return Finding("Comparison", claim(comparison, tuple(Metric)), "; ".join(evidence) + ".")


def correction(improvements: Sequence[Improvement]) -> str:
    """Return `6 comparisons of averages and peaks`; empty if no verdict was corrected."""
    among = max((found.among or 0 for found in improvements), default=0)
    return f"{among:,} comparisons of averages and peaks" if among > 1 else ""


def _could_have_found(improvement: Improvement) -> list[str]:
    """Return the smallest detectable difference, without which "no difference shown" says little."""
    if improvement.found_percent is None:
        return []
    found = wording.change(improvement.found_percent)
    words = f"the smallest detectable difference in the average is {found} (in 4 of 5 such experiments)"
    if improvement.repetitions_needed is None:
        return [words]
    repetitions = wording.plural(improvement.repetitions_needed, "repetition")
    needed = f"to detect 5{wording.NO_BREAK}% takes {repetitions}"
    return [words, needed]


def _size(comparison: Comparison) -> float:
    """Return the absolute log ratio of the averages, as a sort key; -1 if they can't be compared."""
    percent = comparison.average.percent
    return -1.0 if percent is None else abs(math.log1p(percent / 100))


def _sentence(comparison: Comparison, verdict: Verdict, found: Sequence[Improvement]) -> str:
    other, base = comparison.other, comparison.base
    changes = "; ".join(
        f"in {improvement.figure.value}: {wording.change(improvement.percent)} ({_range(improvement)})"
        for improvement in found
    )
    names = wording.listing([improvement.figure.value for improvement in found])
    repetitions = wording.plural(found[0].repetitions, "repetition")
    by = f"by more than {found[0].minimum_percent:g}{wording.NO_BREAK}% " if found[0].minimum_percent else ""
    beyond = f" beyond {found[0].minimum_percent:g}{wording.NO_BREAK}%" if found[0].minimum_percent else ""
    within = f"{found[0].equivalence_percent:g}{wording.NO_BREAK}%"
    chance = _chance(found)
    return {
        Verdict.FASTER: f"{other} is faster than {base} {by}{changes}.",
        Verdict.SLOWER: f"{other} is slower than {base} {by}{changes}.",
        Verdict.NO_DIFFERENCE_SHOWN: f"No difference{beyond} shown between {other} and {base} {changes}.{chance}",
        Verdict.EQUIVALENT: f"{other} and {base} are equivalent within {within} {changes}.",
        Verdict.TOO_FEW_REPETITIONS: f"Measured: {other} against {base} {changes}. {repetitions} can't show "
        "whether the difference repeats.",
        Verdict.NOT_COMPARABLE: (
            f"{other} and {base} can't be compared in {names}: at least one repetition completed nothing at "
            "the load levels that both have."
        ),
        Verdict.NOT_SEPARATED: (
            f"{other} against {base} {changes}. They were measured at different times, so the difference "
            "may be a change over time. Measure both in one experiment: dyno run PLAN --against OTHER."
        ),
    }[verdict]


def _not_comparable(comparison: Comparison, why: Sequence[Obstacle], found: Sequence[Improvement]) -> str:
    """Return why figures are not comparable, then the measured differences."""
    names = wording.listing([improvement.figure.value for improvement in found])
    seen = "; ".join(
        f"in {improvement.figure.value} {wording.change(improvement.percent)} ({_range(improvement)})"
        for improvement in found
    )
    return (
        f"{comparison.other} and {comparison.base} are not comparable in {names}: "
        f"{wording.listing([reason(each) for each in why])}. Measured: {seen}."
    )


def reason(why: Obstacle) -> str:
    """Return one reason why two figures are not comparable, as a clause."""
    share = wording.share(why.amount)
    return {
        ObstacleKind.CLIENTS_LEFT: (
            f"up to {share} of the clients of {why.name} left before the end of a load level"
        ),
        ObstacleKind.FAILED: f"up to {share} of the operations of {why.name} failed at a load level",
        ObstacleKind.OTHER_WORK: f"{share} of the operations were of different kinds",
        ObstacleKind.NOISE: _slowed(why.name, why.amount),
        ObstacleKind.HIDDEN: f"{why.name} may be up to {share} faster than the generator could show",
        ObstacleKind.RATE_BOUND: f"the plan limited the rate of {why.name}",
        ObstacleKind.LINK_BOUND: f"the plan's links limited {why.name}",
        ObstacleKind.DURABILITY: "the two differ in durability",
    }[why.kind]


def _slowed(name: str, share: float) -> str:
    if math.isinf(share):
        return f"other programs took all CPUs that {name} needed"
    return f"other programs may have slowed {name} by up to {wording.share(share)}"


def _chance(found: Sequence[Improvement]) -> str:
    """Return why no difference is shown although the interval alone would show one."""
    among = [improvement.among or 1 for improvement in found if improvement.proven_alone]
    count = f"{max(among, default=0):,} comparisons"
    return f" The difference is not significant after the correction for {count}." if among else ""


def below_floor(comparisons: Sequence[Comparison], floor: NoiseFloor) -> str:
    """Return a warning if a proven difference is smaller than the possible difference of equal servers."""
    proven = [
        found for comparison in comparisons for found in comparison.improvements if found.verdict.proven
    ]
    if not any(
        abs(math.log1p((found.percent or 0) / 100)) < math.log1p(floor.percent / 100) for found in proven
    ):
        return ""
    percent = f"{wording.significant(floor.percent)}{wording.NO_BREAK}%"
    if floor.measured:
        return (
            f"The self-test on this machine can't exclude differences of up to {percent} between "
            "identical servers."
        )
    return (
        f"Identical servers can differ consistently by up to {percent}; dyno selftest measures this machine."
    )


def _range(improvement: Improvement) -> str:
    """Return the interval; if there is none, the range of differences between single runs."""
    if improvement.low_percent is None:
        seen = wording.change_span(improvement.observed_low_percent, improvement.observed_high_percent)
        return f"{seen} between single runs"
    return f"95 % interval {wording.change_span(improvement.low_percent, improvement.high_percent)}"


def _limits(comparison: Comparison) -> str:
    """Return the limits of the two sides. If only the faster side was limited, the gap is a lower bound."""
    limited: dict[str, list[str]] = defaultdict(list)
    for name, mark in comparison.limits:
        limited[LIMITS[mark]].append(name)
    if comparison.at_least:
        held_back = f"{comparison.faster} was {wording.listing(list(limited))}"
        return f"The true difference may be larger: {held_back}."
    parts = [
        f"{wording.listing(held)} {'is' if len(held) == 1 else 'are'} {word}"
        for word, held in limited.items()
    ]
    return f"{wording.listing(parts)}, so the true difference may be larger or smaller."


def table(comparisons: Sequence[Comparison], terms: Terms, under: str) -> Table:
    """Return a table, one row per comparison and figure. `under`: the line below the table."""
    bases = {comparison.base for comparison in comparisons}
    against = len(bases) > 1
    rows = [
        _improvement_row(comparison, improvement, terms, against=against)
        for comparison in comparisons
        for improvement in comparison.improvements
    ]
    columns = (
        Column("Configuration", "against its base" if against else "", numeric=False),
        Column("Figure", numeric=False),
        Column(terms.unit[0].upper() + terms.unit[1:], "second line: base"),
        Column("Improvement"),
        Column(f"{CONFIDENCE:.0%} interval".replace("%", " %")),
        Column("Verdict", numeric=False),
        Column("Smallest detectable difference", "in 4 of 5 cases"),
        Column("Runs to detect 5 %", "runs"),
        Column("n", "runs"),
    )
    notes: tuple[str, ...] = (
        "Improvement: configuration / base - 1. Interval: t interval on the log ratio, given if there are at least two "
        "repetitions. Smallest detectable difference, runs to detect 5 %: an experiment with this noise detects the "
        "difference in 4 of 5 cases.",
        *_verdict_notes(comparisons),
        "The peak is cross-validated: each half of the runs is evaluated at the load level where the other "
        "half peaks. It can therefore be lower than the highest mean, which noise inflates.",
    )
    notes += mark_notes(
        frozenset().union(
            *(_marks(comparison, found) for comparison in comparisons for found in comparison.improvements)
        )
    )
    if any(comparison.limits for comparison in comparisons):
        notes += (
            "G, R or K next to an improvement: at one or more load levels, the generator or the plan limited a side, "
            "so the true difference is not known.",
        )
    title = f"Improvement over {'the base' if against else bases.pop()}"
    return Table("improvements", 0, title, under, columns, tuple(rows), notes, key_columns=2)


def _verdict_notes(comparisons: Sequence[Comparison]) -> list[str]:
    """Return notes on the minimum effect and on the correction of the verdicts."""
    notes = []
    if least := comparisons[0].improvements[0].minimum_percent:
        notes.append(
            "Faster and slower: the whole interval lies beyond the plan's minimum effect of "
            f"{least:g}{wording.NO_BREAK}%."
        )
    made_for = correction([found for comparison in comparisons for found in comparison.improvements])
    if made_for:
        notes.append(
            f"Verdicts are corrected for {made_for} (Holm 1979). Intervals are not, so an interval without 0 % can "
            'still be "no difference shown".'
        )
    return notes


def _marks(comparison: Comparison, improvement: Improvement) -> frozenset[Mark]:
    partial = {Mark.PART_OF_A_PASS} if improvement.figure in comparison.parts_of_a_pass else set[Mark]()
    return frozenset({mark for _, mark in comparison.limits} | partial)


def _improvement_row(
    comparison: Comparison, improvement: Improvement, terms: Terms, *, against: bool
) -> tuple[Cell, ...]:
    return (
        Cell(comparison.other, f"against {comparison.base}" if against else ""),
        Cell(improvement.figure.value),
        _compared_cell(improvement, terms),
        Cell(
            wording.change(improvement.percent),
            strong=True,
            marks=letters(_marks(comparison, improvement)),
        ),
        Cell(wording.change_span(improvement.low_percent, improvement.high_percent)),
        Cell(
            improvement.verdict.value,
            "; ".join(reason(each) for each in comparison.obstacles.get(improvement.figure, ())),
        ),
        Cell(wording.change(improvement.found_percent)),
        Cell(wording.whole(improvement.repetitions_needed)),
        Cell(wording.whole(improvement.repetitions)),
    )


def _compared_cell(improvement: Improvement, terms: Terms) -> Cell:
    """Return both figures, with the base's below; dashes if the sides share no complete run."""
    if not improvement.repetitions or not improvement.levels:
        return Cell(wording.NOTHING, wording.NOTHING)
    return Cell(terms.written(improvement.other), terms.written(improvement.base))


def _chart(results: Results) -> Iterator[Figure]:
    """Yield a chart of each pair's difference in the overall average; points not limited by the servers are hollow."""
    bars = []
    for comparison in results.comparisons[:MOST_PAIRS]:
        average = comparison.average
        if average.percent is None:
            continue
        words = tuple(dict.fromkeys(LIMITS[mark] for _, mark in comparison.limits))
        point = Point(0, average.percent, average.low_percent, average.high_percent, words)
        bars.append(Series(f"{comparison.other} over {comparison.base}", 0, (point,)))
    if not bars:
        return
    bars.sort(key=lambda bar: -bar.points[0].y)
    panels = (Panel("", "", tuple(bars)),)
    line = f"{basis(results)} Error bars: 95 % intervals." + (
        " Hollow points: the load generator or the plan limited one of the two."
        if any(bar.points[0].limited_by for bar in bars)
        else ""
    )
    title = "Differences in the average over all load levels"
    yield Figure("improvements", 0, title, line, "effects", "Difference, %", panels)


def odd_runs(
    comparisons: Sequence[Comparison], records: Mapping[str, Sequence[LevelRecord]], table: str
) -> list[Finding]:
    """Return one finding for each odd repetition. `records`: the records of each side, by its name."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for comparison in comparisons:
        for each in comparison.improvements:
            if each.odd is not None:
                name = comparison.base if each.odd.of_base else comparison.other
                found.setdefault((name, each.odd.repetition), {})[each.figure.value] = each.odd.percent
    return [
        Finding(
            "Outlying repetition",
            f"Repetition {number} of {name} is an outlier "
            f"({wording.listing([f'{figure} {wording.change(percent)}' for figure, percent in figures.items()])} "
            f"against the others), so comparisons exclude it. {_reason(records.get(name, ()), number)}",
            f"{table}; curves and means include it.",
        )
        for (name, number), figures in found.items()
    ]


def _reason(records: Sequence[LevelRecord], number: int) -> str:
    """Return the disturbances on the host that only that repetition had."""
    return " ".join(_reasons(records, number)) or UNEXPLAINED


def _reasons(records: Sequence[LevelRecord], number: int) -> Iterator[str]:
    for figure, unusual, words, written in (
        (
            taken_cpus,
            TAKEN_SHARE,
            "Other programs and the hypervisor used {} CPUs during this run",
            wording.cpus,
        ),
        (run_delay_share, TAKEN_SHARE, "The generator waited for a CPU for {} of this run", wording.share),
        (_disk_share, DISK_SHARE, "Programs waited for a disk for {} of this run", wording.share),
    ):
        by_run = _by_run(records, figure)
        others = [value for run, value in by_run.items() if run != number]
        if number in by_run and others and by_run[number] - median(others) > unusual:
            usual = f"in the other repetitions {written(median(others))} (median)"
            yield f"{words.format(written(by_run[number]))}; {usual}."


def _by_run(
    records: Sequence[LevelRecord], figure: Callable[[LevelRecord], float | None]
) -> dict[int, float]:
    known: dict[int, list[float]] = {}
    for record in records:
        if (value := figure(record)) is not None:
            known.setdefault(record.repetition, []).append(value)
    return {run: fmean(values) for run, values in known.items()}


def _disk_share(record: LevelRecord) -> float | None:
    return cpus_busy(record.io_wait_s, record)
