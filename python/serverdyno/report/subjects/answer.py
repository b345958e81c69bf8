"""The answer that stands first: who won, by how much, how sure that is, and what is proven at equal load.

It says no more than the verdicts of `analysis`: who is not proven faster is not called so. What is said in full about
each comparison is in `differences`; what must be known before any figure, in `caveats`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serverdyno import wording
from serverdyno.analysis.comparability import ObstacleKind
from serverdyno.analysis.improvement import Improvement, Metric, Verdict
from serverdyno.analysis.leads import Lead, lead, order
from serverdyno.analysis.levels import AtLevel, at_levels
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import FAILED_SHARE, Mark, limits
from serverdyno.plan.protocols.work import Terms
from serverdyno.report.basis import basis
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.figures.sides import limits_of_average, sides
from serverdyno.report.model import Answer, Figure, Panel, Part, Series
from serverdyno.report.parts import MOST_BARS, capital, few, spread_point
from serverdyno.report.subjects import cost, differences, durability, errors, factorial
from serverdyno.report.subjects.limits import limit

GENERATOR = {Mark.GENERATOR_LIMITED}


def applies(results: Results) -> bool:
    return results.source.closed_load


def build(results: Results) -> Part:
    return Part(
        answer=Answer(
            verdict=_verdict(results),
            sure=_sure(results),
            limit=limit(results),
            gaps=_gaps(results),
            figures=tuple(_chart(results)),
            caveats=(),
        )
    )


def _verdict(results: Results) -> str:
    """Return who won and by how much, in one sentence or two."""
    comparisons = results.comparisons
    counted = [result for result in results.configurations if result.peak and result.peak_height]
    if not results.mixes:
        return "There is no result: no test finished."
    if not counted:
        return f"There is no result: no {results.terms.operation} succeeded."
    if len(results.configurations) == 1:
        return _alone(results.configurations[0], results.terms)
    if factorial.applies(results):
        return factorial.verdict(results)
    said = (_of_pairs(results, comparisons), cost.ranking(results))
    return " ".join(filter(None, said))


def _alone(result: ConfigurationResult, terms: Terms) -> str:
    peak = result.peak
    assert peak is not None  # the caller found one
    least = (
        "at least " if limits(peak.marks) or (result.throughput and result.throughput.still_rising) else ""
    )
    times = ""
    if peak.response and peak.response.percentiles_ms[0] is not None:
        tail = peak.response.percentiles_ms[2]
        times = f"; response time p50 {wording.significant(peak.response.percentiles_ms[0])} ms" + (
            f", p99 {wording.significant(tail)} ms" if tail is not None else ""
        )
    if peak.failed_share > FAILED_SHARE:
        others = f"{terms.written(result.peak_height)} {terms.unit}{times}"
        return f"{errors.failed_words(peak, terms)} The others: {others}."
    return (
        f"{result.name} peaks at {least}{terms.written(result.peak_height)} {terms.unit} with "
        f"{peak.at}{times}."
    )


def _of_pairs(results: Results, comparisons: Sequence[Comparison]) -> str:
    found = order(results.source.configuration_names, comparisons)
    if not found.leads:
        return _nobody(results, comparisons)
    if len(found.unbeaten) == 1:
        return _one_winner(found.unbeaten[0], found.leads, results)
    apart = [lead for lead in found.leads if lead.winner in found.leaders]
    closest = min(apart, key=lambda lead: lead.ratio)
    everyone = len(apart) == len(found.leaders) * len(found.beaten)
    each = "each " if everyone and len(found.leaders) > 1 else ""
    whom = wording.listing(found.beaten) if everyone else closest.loser
    who = few(found.leaders) if everyone else closest.winner
    least = "at least " if closest.at_least or (everyone and len(apart) > 1) else ""
    words = f"{who} {each}{_did(results.terms)} {least}{_ratio(closest, results.terms)} {whom}."
    unranked = sorted(found.unbeaten, key=lambda name: name not in found.leaders)
    return f"{words} This test can't rank {few(unranked)}{_why_unranked(unranked, comparisons)}."


def _one_winner(winner: str, leads: Sequence[Lead], results: Results) -> str:
    """Return the winner against the next, and against the last."""
    own = sorted((lead for lead in leads if lead.winner == winner), key=lambda lead: lead.ratio)
    nearest, farthest = own[0], own[-1]
    least = "at least " if nearest.at_least else ""
    words = f"{winner} {_did(results.terms)} {least}{_ratio(nearest, results.terms)} {nearest.loser}"
    if farthest is not nearest:
        words += f", and {'at least ' if farthest.at_least else ''}{_ratio(farthest, results.terms)} {farthest.loser}"
    middle = [lead for lead in leads if lead.winner != winner]
    open_places = len(results.configurations) > 2 and not middle
    others = [result.name for result in results.configurations if result.name != winner]
    return f"{words}." + (f" This test can't rank {few(others)}." if open_places else "")


def _did(terms: Terms) -> str:
    return "served" if terms.throughput_counts_operations else "moved"


def _ratio(lead: Lead, terms: Terms) -> str:
    """Return `32 % more requests (95 % interval 25 % to 39 %) than`, `2.3 times as much data (2.1 to 2.6) as`."""
    counted = terms.throughput_counts_operations
    noun = f"{terms.operations}" if counted else "data"
    if lead.ratio < 2:
        percent = [
            wording.change((value - 1) * 100).removeprefix("+") for value in (lead.ratio, lead.low, lead.high)
        ]
        return f"{percent[0]} more {noun} (95 % interval {percent[1]} to {percent[2]}) than"
    ratio, low, high = (wording.ratio(value) for value in (lead.ratio, lead.low, lead.high))
    return f"{ratio} times as {'many' if counted else 'much'} {noun} (95 % interval {low} to {high}) as"


def _nobody(results: Results, comparisons: Sequence[Comparison]) -> str:
    """Return why no difference is proven, and what was measured all the same."""
    averages = [(comparison, comparison.average) for comparison in comparisons]
    measured = [pair for pair in averages if pair[1].percent is not None]
    if not measured:
        return "No winner: no run of two configurations finished the same tests."
    comparison, largest = max(measured, key=lambda pair: abs(pair[1].percent or 0.0))
    why = {each.kind for each in comparison.obstacles.get(Metric.OVERALL_AVERAGE, ())}
    if ObstacleKind.DURABILITY in why:
        return _unsafe(comparison, largest, results)
    gap = _gap(comparison, largest, results.terms)
    if all(average.verdict is Verdict.TOO_FEW_REPETITIONS for _, average in measured):
        return f"No winner from one repetition: {gap}, and that may not repeat."
    if largest.verdict is Verdict.NOT_COMPARABLE:
        held_back = why and why <= {ObstacleKind.HIDDEN, ObstacleKind.RATE_BOUND}
        because = (
            "the generator or the plan's rate may hide more than the gap"
            if held_back
            else "the configurations can't be compared fairly"
        )
        return f"No winner: {because}. Measured: {gap}."
    if all(average.verdict is Verdict.EQUIVALENT for _, average in measured):
        return f"A draw: all are equal within {largest.equivalence_percent:g} %."
    return f"No winner: the largest gap is within run-to-run variation. Measured: {gap}."


def _gap(comparison: Comparison, average: Improvement, terms: Terms) -> str:
    interval = wording.change_span(average.low_percent, average.high_percent)
    between = f", 95 % interval {interval}" if average.low_percent is not None else ""
    return (
        f"{comparison.other} {terms.written(average.other)} against {comparison.base} "
        f"{terms.written(average.base)} {terms.unit} on average, {wording.change(average.percent)}{between}"
    )


def _unsafe(comparison: Comparison, average: Improvement, results: Results) -> str:
    """Return the quicker of two that keep different promises, with its price."""
    alone = len(comparison.obstacles[Metric.OVERALL_AVERAGE]) == 1
    found = lead(comparison, comparison.withheld[Metric.OVERALL_AVERAGE]) if alone else None
    if found is None:
        faster = comparison.other if (average.percent or 0.0) >= 0 else comparison.base
        price = durability.price(results.promises, faster)
        gap = _gap(comparison, average, results.terms)
        return f"No winner: the two treat a flush differently. Measured: {gap}. {price}"
    words = f"{found.winner} {_did(results.terms)} {_ratio(found, results.terms)} {found.loser}"
    return f"{words}. {durability.price(results.promises, found.winner)}"


def _why_unranked(names: Sequence[str], comparisons: Sequence[Comparison]) -> str:
    among = [each for each in comparisons if each.base in names and each.other in names]
    limited = {name for each in among for name, mark in each.limits if mark in GENERATOR}
    if limited:
        return ": the load generator held them back"
    return ""


def _sure(results: Results) -> str:
    source, comparisons = results.source, results.comparisons
    levels = [results.axis.level(mix) for mix in source.head.mixes]
    noun = results.axis.noun
    load = (
        f"{len(levels)} load levels from {min(levels):,} to {wording.plural(max(levels), noun)}"
        if len(set(levels)) > 1
        else wording.plural(levels[0], noun)
    )
    runs = sorted({len(source.repetitions_of(name)) for name in source.configuration_names})
    repeated = wording.plural(runs[-1], "repetition") if runs else "no repetition"
    done = (
        f"all {source.planned_mixes:,} tests completed"
        if len(results.used) == source.planned_mixes
        else f"{len(results.used):,} of {source.planned_mixes:,} tests completed"
    )
    said = f"Average over {load}; {repeated} of each; {done}."
    known = [comparison.average for comparison in comparisons]
    among = max((found.among or 0 for found in known), default=0)
    if among > 1:
        said += f" The risk that any of {among:,} comparisons claims a difference by chance is 5 % at most."
    odd = dict.fromkeys(comparison.left_out(comparison.average) for comparison in comparisons)
    if named := [each for each in odd if each]:
        said += f" Odd and left out: {wording.listing(named)}."
    if below := differences.below_floor(comparisons, source.noise_floor):
        said += f" {below}"
    finds = [found.found_percent for found in known if found.found_percent is not None]
    if finds and not all(found.verdict.proven for found in known):
        said += f" Of gaps of {wording.change(max(finds)).removeprefix('+')}, such tests find 4 in 5."
    return said


def _gaps(results: Results) -> str:
    """Return what is proven at equal load: of two configurations at each level, of several the largest gap."""
    of_pairs = _levels(results)
    found = [(comparison, level) for comparison, levels in of_pairs for level in levels]
    proven = [each for each in found if each[1].proven]
    apart = [level for _, level in found if level.obstacles]
    if all(level.low_percent is None for _, level in found):
        return ""
    if len(of_pairs) == 1 and (proven or apart):
        return _level_by_level(*of_pairs[0], results)
    if not proven:
        why = f"; {wording.plural(len(apart), 'gap')} can't be compared ({_kinds(apart)})" if apart else ""
        return f"No gap is proven at any load level{why}."
    comparison, level = max(proven, key=lambda each: abs(_log(each[1].percent)))
    winner, loser, ratio = comparison.other, comparison.base, 1 + level.percent / 100
    if ratio < 1:
        winner, loser, ratio = loser, winner, 1 / ratio
    least = "at least " if level.at_least else ""
    gap = wording.change((ratio - 1) * 100) if ratio < 2 else f"{wording.ratio(ratio)} times"
    at = wording.plural(results.at(comparison.base, level.mix).level, results.axis.noun)
    return f"Largest proven gap: {winner} over {loser} with {at}, {least}{gap}."


def _levels(results: Results) -> list[tuple[Comparison, tuple[AtLevel, ...]]]:
    """Return each comparison with every load level that both finished."""
    source, by_name = results.source, {side.name: side for side in sides(results)}
    found = at_levels(
        [(by_name[comparison.base], by_name[comparison.other]) for comparison in results.comparisons],
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
    )
    return list(zip(results.comparisons, found, strict=True))


def _level_by_level(comparison: Comparison, levels: Sequence[AtLevel], results: Results) -> str:
    """Return `+57 % with 1 client; no proven difference with 16 clients; not comparable with 64 clients (noise)`."""
    noun = results.axis.noun
    proven, same = [], []
    apart: dict[str, list[int]] = {}
    for level in levels:
        at = results.at(comparison.base, level.mix).level
        if level.obstacles:
            apart.setdefault(_kinds([level]), []).append(at)
        elif level.proven:
            proven.append(f"{_change(level)} with {_loads([at], noun)}")
        else:
            same.append(at)
    parts = [", ".join(proven)] if proven else []
    if same:
        parts.append(f"no proven difference with {_loads(same, noun)}")
    if apart:
        why = [f"{_loads(loads, noun)} ({kinds})" for kinds, loads in apart.items()]
        parts.append(f"not comparable with {wording.listing(why)}")
    against = "over" if proven else "against"
    return f"{comparison.other} {against} {comparison.base}: {'; '.join(parts)}."


def _change(level: AtLevel) -> str:
    """Return `+57 %`, `at least +57 %`, `at most -36 %`: the second configuration against the first."""
    bound = "at least " if level.percent > 0 else "at most "
    return f"{bound if level.at_least else ''}{wording.change(level.percent)}"


def _kinds(apart: Sequence[AtLevel]) -> str:
    """Return why levels are not comparable, in a few words."""
    return ", ".join(dict.fromkeys(why.kind.value for level in apart for why in level.obstacles))


def _loads(levels: Sequence[int], noun: str) -> str:
    """Return `16 clients`, `1 and 4 clients`."""
    listed = wording.listing([f"{level:,}" for level in levels])
    return f"{listed} {noun if list(levels) == [1] else f'{noun}s'}"


def _log(percent: float) -> float:
    ratio = 1 + percent / 100
    return ratio if ratio >= 1 else 1 / ratio


def _chart(results: Results) -> Iterator[Figure]:
    """Yield a bar of the overall average for each configuration, best first; nothing for one configuration."""
    bars = [
        Series(result.name, style, (spread_point(0, average, frozenset(limits_of_average(result))),))
        for style, result in enumerate(results.configurations)
        if result.throughput is not None and (average := result.throughput.overall_average) is not None
    ]
    if len(bars) < 2:
        return
    bars.sort(key=lambda bar: -bar.points[0].y)
    title = "Average throughput over all load levels, and lines from the lowest to the highest repetition"
    if len(bars) > MOST_BARS:
        title += f", the first {MOST_BARS} of {len(bars)}"
    unit = results.terms.unit
    panel = Panel("", unit, tuple(bars[:MOST_BARS]))
    hollow = any(bar.points[0].limited_by for bar in bars)
    line = basis(results) + (" Hollow: something other than the server held it back." if hollow else "")
    yield Figure("overview", 0, title, line, "bars", capital(unit), (panel,))
