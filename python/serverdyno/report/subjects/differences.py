"""Comparisons in sentences: what may be said of one configuration against another, and of many at once.

"No difference shown" is a finding too. The estimates and their intervals are made in `analysis.improvement`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from serverdyno import wording
from serverdyno.analysis.comparability import Obstacle, ObstacleKind
from serverdyno.analysis.improvement import Improvement, Metric, Verdict
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import LIMITS
from serverdyno.protocols.work import Terms
from serverdyno.report.model import Finding
from serverdyno.report.noise_floor import NoiseFloor


def findings(
    comparisons: Sequence[Comparison], terms: Terms, tables: dict[str, str], most: int
) -> list[Finding]:
    """A finding for each comparison; of more than `most`, their verdicts counted and the largest differences."""
    if len(comparisons) <= most:
        return [_finding(comparison, terms, tables) for comparison in comparisons]
    largest = sorted(comparisons, key=_size, reverse=True)[: most - 1]
    counted = Finding("Comparison", tally(comparisons), f"All of them: {tables['improvements']}.")
    return [
        counted,
        *(_finding(comparison, terms, tables) for comparison in comparisons if comparison in largest),
    ]


def tally(comparisons: Sequence[Comparison]) -> str:
    """How many comparisons came to which verdict in the overall average."""
    bases = {comparison.base for comparison in comparisons}
    against = f" with {bases.pop()}" if len(bases) == 1 else ""
    found = Counter(comparison.average.verdict for comparison in comparisons)
    counts = ", ".join(f"{found[verdict]:,} {verdict}" for verdict in Verdict if found[verdict])
    limited = sum(bool(comparison.limits) for comparison in comparisons)
    note = f" In {limited:,} something else than the server limits a side: see the marks." if limited else ""
    return f"{wording.plural(len(comparisons), 'comparison')}{against} in overall average: {counts}.{note}"


def claim(comparison: Comparison, figures: Collection[Metric]) -> str:
    """One sentence for each verdict, and one more where something else than the server may have set the result."""
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
        sentences.append("It is not known whether both treat a flush alike.")
    if partial := [figure.value for figure in figures if figure in comparison.parts_of_a_pass]:
        sentences.append(
            f"Clients had too little time to finish the workload in {wording.listing(partial)}, so the two did "
            "different "
            "operations there."
        )
    return " ".join(sentences)


def _finding(comparison: Comparison, terms: Terms, tables: dict[str, str]) -> Finding:
    improvements = comparison.improvements
    rates = [
        f"{improvement.figure.value} {terms.written(improvement.base)} against {terms.written(improvement.other)}"
        for improvement in improvements
        if improvement.repetitions and improvement.mixes
    ]
    evidence = [
        f"{', '.join(rates)} {terms.unit}" if rates else "No whole run of both over the same mixes",
        wording.plural(improvements[0].repetitions, "repetition")
        + (" in pairs" if improvements[0].paired else ""),
        f"over {wording.plural(len(improvements[0].mixes), 'mix')}",
    ]
    if words := correction(improvements):
        evidence.append(f"verdicts corrected for {words}")
    evidence += _could_have_found(comparison.average)
    evidence.append(tables["improvements"])
    return Finding("Comparison", claim(comparison, tuple(Metric)), "; ".join(evidence) + ".")


def correction(improvements: Sequence[Improvement]) -> str:
    """`6 comparisons together, averages and peaks`; nothing where no verdict was corrected."""
    among = max((found.among or 0 for found in improvements), default=0)
    return f"{among:,} comparisons together, averages and peaks" if among > 1 else ""


def _could_have_found(improvement: Improvement) -> list[str]:
    """What the design finds, without which "no difference shown" says little."""
    if improvement.found_percent is None:
        return []
    found = wording.change(improvement.found_percent)
    words = f"such an experiment finds {found} of average in 4 of 5 cases"
    if improvement.repetitions_needed is None:
        return [words]
    return [f"{words}, and 5{wording.NO_BREAK}% with {improvement.repetitions_needed:,} repetitions"]


def _size(comparison: Comparison) -> float:
    """How far the averages are apart, twice as far as half; what can't be compared comes last."""
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
        "whether that repeats.",
        Verdict.NOT_COMPARABLE: f"{other} and {base} can't be compared in {names}: not every repetition of "
        "both completed anything over the same mixes.",
        Verdict.NOT_SEPARATED: f"{other} against {base} {changes}. The two were measured at different times, and "
        "what differs between times is not separated from the change. To separate them, measure both in one "
        "experiment: dyno run PLAN --against OTHER.",
    }[verdict]


def _not_comparable(comparison: Comparison, why: Sequence[Obstacle], found: Sequence[Improvement]) -> str:
    """The reasons first, and then what was seen all the same."""
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
    """One reason why two figures are not comparable, as a clause."""
    share = wording.share(why.amount)
    return {
        ObstacleKind.CLIENTS_LEFT: f"up to {share} of the clients left mixes of {why.name}",
        ObstacleKind.FAILED: f"up to {share} of the operations of {why.name} failed in a mix",
        ObstacleKind.OTHER_WORK: f"{share} of the operations were of other kinds",
        ObstacleKind.NOISE: _slowed(why.name, why.amount),
        ObstacleKind.HIDDEN: f"{why.name} may be up to {share} faster than the generator let it show",
        ObstacleKind.RATE_BOUND: f"the rate of its plan held {why.name}",
        ObstacleKind.DURABILITY: "a flush does different things in the two",
    }[why.kind]


def _slowed(name: str, share: float) -> str:
    if math.isinf(share):
        return f"other programs took all CPUs that {name} needed"
    return f"other programs may have slowed {name} by up to {wording.share(share)}"


def _chance(found: Sequence[Improvement]) -> str:
    """Why no difference is shown where an interval alone would show one."""
    among = [improvement.among or 1 for improvement in found if improvement.proven_alone]
    return (
        f" By itself it would be proven; among {max(among):,} comparisons it may be chance." if among else ""
    )


def below_floor(comparisons: Sequence[Comparison], floor: NoiseFloor) -> str:
    """Say that proven gaps may be the machine's: those of which all are below what equal servers may differ by."""
    proven = [
        found for comparison in comparisons for found in comparison.improvements if found.verdict.proven
    ]
    if not any(
        abs(math.log1p((found.percent or 0) / 100)) < math.log1p(floor.percent / 100) for found in proven
    ):
        return ""
    percent = f"{wording.significant(floor.percent)}{wording.NO_BREAK}%"
    if floor.measured:
        return f"The self-test on this machine can't exclude gaps of up to {percent} between equal servers."
    return f"Equal servers can differ by up to {percent} for good; dyno selftest measures this machine."


def _range(improvement: Improvement) -> str:
    """The interval; where there is none, what single runs show."""
    if improvement.low_percent is None:
        seen = wording.change_span(improvement.observed_low_percent, improvement.observed_high_percent)
        return f"{seen} between single runs"
    return f"95 % interval {wording.change_span(improvement.low_percent, improvement.high_percent)}"


def _limits(comparison: Comparison) -> str:
    """What held a side back; where it was the faster one alone, the gap is a lower bound."""
    limited: dict[str, list[str]] = defaultdict(list)
    for name, mark in comparison.limits:
        limited[LIMITS[mark]].append(name)
    if comparison.at_least:
        held_back = f"{comparison.faster} was {wording.listing(list(limited))}"
        return f"The true gap is at least this large: {held_back}."
    parts = [
        f"{wording.listing(held)} {'is' if len(held) == 1 else 'are'} {word}"
        for word, held in limited.items()
    ]
    return f"{wording.listing(parts)}, so the servers themselves may differ by more or less."
