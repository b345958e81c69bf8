"""The answer at the top: who won, by how much, how certain that is, and what is proven at equal load.

It only repeats verdicts of `analysis`, so no configuration is called faster without proof. `differences` contains each
comparison in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from serverdyno import wording
from serverdyno.analysis.comparability import ObstacleKind
from serverdyno.analysis.improvement import Metric, Verdict
from serverdyno.analysis.leads import Lead, Order, lead, order
from serverdyno.analysis.levels import AtLevel, at_levels
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import FAILED_SHARE, Mark, limits
from serverdyno.plan.protocols.work import Terms
from serverdyno.report.basis import basis
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.figures.sides import limits_of_average, sides
from serverdyno.report.model import Answer, Figure, Panel, Part, Series
from serverdyno.report.parts import MOST_BARS, capital, few, spread_point
from serverdyno.report.subjects import cost, differences, durability, errors, factorial, peaks, scaling
from serverdyno.report.subjects.limits import limit

GENERATOR = {Mark.GENERATOR_LIMITED}
HELD_BACK = {ObstacleKind.HIDDEN, ObstacleKind.RATE_BOUND, ObstacleKind.LINK_BOUND}
MOST_LEADS = MOST_TIMES = 4
MOST_LACKING = 2
TOO_NOISY_PERCENT = 100
"""Smallest detectable difference at which an experiment is too noisy to compare: it would miss a factor of two."""


def applies(results: Results) -> bool:
    return results.source.closed_load


def build(results: Results) -> Part:
    return Part(
        answer=Answer(
            verdict=_verdict(results),
            margin=_margin(results),
            times=_times(results),
            sure=_sure(results),
            limit=limit(results),
            gaps=_gaps(results),
            figures=tuple(_chart(results)),
            caveats=(),
        )
    )


def _verdict(results: Results) -> str:
    """Return the verdict in one sentence, and a second sentence if configurations are not fully measured."""
    return " ".join(filter(None, (_headline(results), _lacking(results))))


def _headline(results: Results) -> str:
    comparisons = _comparisons(results)
    counted = [result for result in results.configurations if result.peak and result.peak_height]
    if not results.levels:
        return "There is no result: no load level finished."
    if not counted:
        return f"There is no result: no {results.terms.operation} succeeded."
    if len(results.configurations) == 1:
        return _alone(results.configurations[0], results.terms)
    if factorial.applies(results):
        return factorial.verdict(results)
    found = order(results.source.configuration_names, comparisons)
    return _winners(found, results) if found.leads else _nobody(results, comparisons)


def _comparisons(results: Results) -> tuple[Comparison, ...]:
    """Return the comparisons without those of configurations that differ in their number of CPUs and in more.

    Such a difference says nothing about either. If there are no others, return all.
    """
    of = {each.name: each for each in results.source.head.configurations}
    pairs = [(each, of[each.base], of[each.other]) for each in results.comparisons]
    return (
        tuple(
            each
            for each, base, other in pairs
            if len(base.cpus) == len(other.cpus) or scaling.all_but_cpus(base) == scaling.all_but_cpus(other)
        )
        or results.comparisons
    )


def _lacking(results: Results) -> str:
    planned = results.source.planned_levels // max(1, len(results.configurations))
    used = Counter(record.configuration for record in results.used)
    lacking = [result.name for result in results.configurations if used[result.name] < planned]
    if not lacking or not results.levels:
        return ""
    failed = {
        key.configuration
        for key in results.source.head.order
        if (note := results.source.run_notes.get(key.number)) and note.state == "failed"
    }
    parts = [
        f"{name} {'failed' if name in failed else 'is unfinished'} ({used[name]:,} of {planned:,} load "
        "levels completed)"
        for name in lacking[:MOST_LACKING]
    ]
    rest = len(lacking) - MOST_LACKING
    return f"{wording.listing([*parts, *([f'{rest} more are incomplete'] if rest > 0 else [])])}."


def _alone(result: ConfigurationResult, terms: Terms) -> str:
    peak = result.peak
    assert peak is not None
    if peak.failed_share > FAILED_SHARE:
        said = errors.failed_words(peak, terms)
        rate = f"{terms.written(result.peak_height)} {terms.unit}"
        return f"{said} Throughput of the successful {terms.operations}: {rate}."
    is_least = limits(peak.marks) or (result.throughput and result.throughput.still_rising)
    at = "at or above" if is_least else "at"
    height = f"{terms.written(result.peak_height)} {terms.unit}"
    return f"{result.name} peaks {at} {height} with {peak.at}{peaks.missing_words(peak, terms)}."


def _winners(found: Order, results: Results) -> str:
    """Return the winner's lead over the next and the last; if several are unbeaten, their leads."""
    if len(found.unbeaten) == 1:
        parts = [_more(each, results.terms, each.loser) for each in _told(found)]
        return f"{found.unbeaten[0]} {_did(results.terms)} {', and '.join(parts)} (more is better)."
    apart = [lead for lead in found.leads if lead.winner in found.leaders]
    closest = min(apart, key=lambda lead: lead.stated)
    if len(apart) < len(found.leaders) * len(found.beaten):
        said = _more(closest, results.terms, closest.loser)
        return f"{closest.winner} {_did(results.terms)} {said} (more is better)."
    furthest = max(apart, key=lambda lead: lead.stated)
    if closest.at_least or _lead(closest) == _lead(furthest):
        each = "each " if len(found.leaders) > 1 else ""
        lowest = min(lead.low for lead in apart)
        closest = replace(closest, at_least=closest.at_least or furthest.at_least, low=lowest)
        said = f"{each}{_did(results.terms)} {_more(closest, results.terms, few(found.beaten))}"
    else:
        least = _lead(closest) if furthest.stated < 2 else wording.ratio(closest.stated)
        said = f"{_did(results.terms)} {least} to {_more(furthest, results.terms, few(found.beaten))}"
    return f"{few(found.leaders)} {said} (more is better)."


def _lead(lead: Lead) -> str:
    """Return only the number of the lead: `94 %` or `2.3`."""
    percent = wording.change((lead.stated - 1) * 100).removeprefix("+")
    return percent if lead.stated < 2 else wording.ratio(lead.stated)


def _told(found: Order) -> tuple[Lead, ...]:
    own = sorted(
        (lead for lead in found.leads if lead.winner == found.unbeaten[0]), key=lambda each: each.stated
    )
    return (own[0], own[-1]) if len(own) > 1 else (own[0],)


def _more(lead: Lead, terms: Terms, whom: str) -> str:
    """Return `32 % more requests than nginx`, `at least 2.3 times as much data as samba`."""
    least = "at least " if lead.at_least else ""
    counted = terms.throughput_counts_operations
    noun = f"{terms.operations}" if counted else "data"
    if lead.stated < 2:
        return f"{least}{_lead(lead)} more {noun} than {whom}"
    return f"{least}{_lead(lead)} times as {'many' if counted else 'much'} {noun} as {whom}"


def _did(terms: Terms) -> str:
    return "served" if terms.throughput_counts_operations else "moved"


def _margin(results: Results) -> str:
    """Return the intervals of the leads and the unranked configurations; without leads, the measured figures."""
    if len(results.configurations) == 1 or not results.levels:
        return ""
    if factorial.applies(results):
        return factorial.margin(results)
    comparisons = _comparisons(results)
    found = order(results.source.configuration_names, comparisons)
    if not found.leads:
        return " ".join(filter(None, (_measured(results), cost.ranking(results))))
    one = len(found.unbeaten) == 1
    told = _told(found) if one else [each for each in found.leads if each.winner in found.leaders]
    more = len(told) - MOST_LEADS
    rest = f"; {wording.plural(more, 'more comparison')} below" if more > 0 else ""
    said = f"{'; '.join(_interval(each, told) for each in told[:MOST_LEADS])}{rest}."
    if unranked := _unranked(found, results):
        said += f" This experiment can't rank {few(unranked)}{_why_unranked(unranked, comparisons)}."
    return " ".join(filter(None, (said, cost.ranking(results))))


def _unranked(found: Order, results: Results) -> list[str]:
    """Return the unbeaten configurations if there are several; else those behind the winner without a proven lead."""
    if len(found.unbeaten) > 1:
        return sorted(found.unbeaten, key=lambda name: name not in found.leaders)
    others = [name for name in results.source.configuration_names if name not in found.unbeaten]
    middle = any(each.winner in others for each in found.leads)
    return [] if middle or len(others) < 2 else others


def _interval(lead: Lead, told: Sequence[Lead]) -> str:
    """Return `1.34 times the throughput of nginx (95 % interval 1.26 to 1.42)`; after `caddy: ` if several lead."""
    ratio, low, high = (wording.significant(value) for value in (lead.ratio, lead.low, lead.high))
    who = f"{lead.winner}: " if len({each.winner for each in told}) > 1 else ""
    stated, measured = (f"at least {low}", f"measured {ratio}, ") if lead.at_least else (ratio, "")
    return f"{who}{stated} times the throughput of {lead.loser} ({measured}95 % interval {low} to {high})"


def _largest(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Return the comparison with the largest difference of the averages, if any was measured."""
    measured = [each for each in comparisons if each.average.percent is not None]
    return max(measured, key=lambda each: abs(each.average.percent or 0.0), default=None)


def _obstacles(comparison: Comparison) -> list[ObstacleKind]:
    return list(dict.fromkeys(each.kind for each in comparison.obstacles.get(Metric.OVERALL_AVERAGE, ())))


def _nobody(results: Results, comparisons: Sequence[Comparison]) -> str:
    if (comparison := _largest(comparisons)) is None:
        return _unmeasured(results)
    largest, why = comparison.average, _obstacles(comparison)
    if ObstacleKind.DURABILITY in why:
        return _unsafe(comparison, results)
    verdicts = {each.average.verdict for each in comparisons if each.average.percent is not None}
    if verdicts == {Verdict.EQUIVALENT}:
        return f"A draw: all average throughputs are equivalent within {largest.equivalence_percent:g} %."
    if verdicts == {Verdict.TOO_FEW_REPETITIONS}:
        because = "one repetition can't show whether a difference repeats"
    elif largest.verdict is Verdict.NOT_COMPARABLE and why and HELD_BACK.issuperset(why):
        because = "the generator or a limit of the plan may hide more speed than the measured difference"
    elif largest.verdict is Verdict.NOT_COMPARABLE:
        because = "the configurations can't be compared fairly"
    elif max(_missed(results), default=0.0) > TOO_NOISY_PERCENT:
        because = "this experiment is too noisy to compare"
    else:
        because = "the largest difference is within the variation from run to run"
    return f"No winner: {because}."


def _unmeasured(results: Results) -> str:
    silent = [result for result in results.configurations if result.finished and not result.peak_height]
    if not silent:
        return "No winner: no two configurations finished the same load levels."
    why = errors.first_error(silent[0].finished[0])
    names = few([result.name for result in silent])
    return f"No comparison: {names} completed no {results.terms.operation}{f' ({why})' if why else ''}."


def _missed(results: Results) -> list[float]:
    """Return the smallest detectable differences in percent (claimed in 4 of 5 cases), in ascending order."""
    found = [each.average.found_percent for each in _comparisons(results)]
    return sorted(percent for percent in found if percent is not None)


def _measured(results: Results) -> str:
    comparison = _largest(_comparisons(results))
    if comparison is None or comparison.average.verdict is Verdict.EQUIVALENT:
        return ""
    kinds = ", ".join(kind.value for kind in _obstacles(comparison))
    said = f"{f'Not comparable ({kinds})' if kinds else 'Not proven'}. Measured: {_gap(comparison, results.terms)}."
    if ObstacleKind.DURABILITY not in _obstacles(comparison):
        return said
    if (quicker := _quicker(comparison)) is not None:
        said = f"{_interval(quicker, [quicker])}."
    return f"{said} {durability.price(results.promises, _faster(comparison))}"


def _times(results: Results) -> str:
    """Return throughput, p50 and p99 at each peak, highest first; for a single configuration, only the times."""
    known = [result for result in results.configurations if result.peak and result.peak_height]
    known.sort(key=lambda result: -(result.peak_height or 0.0))
    parts = [
        f"{'' if len(known) == 1 else f'{result.name} '}{', '.join(at_peak)}"
        for result in known[:MOST_TIMES]
        if (at_peak := _at_peak(results, result, alone=len(known) == 1))
    ]
    rest = f"; {len(known) - MOST_TIMES} more in the table of peaks" if len(known) > MOST_TIMES else ""
    return f"{'; '.join(parts)}{rest}." if parts else ""


def _at_peak(results: Results, result: ConfigurationResult, *, alone: bool) -> list[str]:
    """Return the known figures at a peak: percentiles, the rate sent, and unless `alone` its height."""
    assert result.peak is not None  # the caller passes only results with a peak
    times = result.peak.response.percentiles_ms if result.peak.response else ()
    height = f"{results.terms.written(result.peak_height)} {results.terms.unit} with {result.peak.at}"
    percentiles = [
        peaks.time_words(name, value_ms, result.peak)
        for name, place in (("p50", 0), ("p99", 2))
        if times and (value_ms := times[place]) is not None
    ]
    sent = peaks.sent_words(results, result)
    return [*([] if alone else [height]), *percentiles, *([sent] if sent else [])]


def _gap(comparison: Comparison, terms: Terms) -> str:
    average = comparison.average
    interval = wording.change_span(average.low_percent, average.high_percent)
    between = f", 95 % interval {interval}" if average.low_percent is not None else ""
    return (
        f"{comparison.other} {terms.written(average.other)} against {comparison.base} "
        f"{terms.written(average.base)} {terms.unit} on average, {wording.change(average.percent)}{between}"
    )


def _unsafe(comparison: Comparison, results: Results) -> str:
    """Return which of two configurations is faster, without calling it the winner because their durability differs."""
    if (found := _quicker(comparison)) is None:
        return f"No winner: the two {_treat(results)}."
    said = _more(found, results.terms, found.loser)
    return f"{found.winner} {_did(results.terms)} {said}, but the two {_treat(results)}."


def _treat(results: Results) -> str:
    return f"treat a {results.work.durable_word[0]} differently"


def _quicker(comparison: Comparison) -> Lead | None:
    """Return the lead that would be proven if flushes had the same effect; None if there is another obstacle."""
    alone = len(comparison.obstacles[Metric.OVERALL_AVERAGE]) == 1
    return lead(comparison, comparison.withheld[Metric.OVERALL_AVERAGE]) if alone else None


def _faster(comparison: Comparison) -> str:
    return comparison.other if (comparison.average.percent or 0.0) >= 0 else comparison.base


def _why_unranked(names: Sequence[str], comparisons: Sequence[Comparison]) -> str:
    among = [each for each in comparisons if each.base in names and each.other in names]
    limited = {name for each in among for name, mark in each.limits if mark in GENERATOR}
    if limited:
        return ": the load generator limited them"
    return ""


def _sure(results: Results) -> str:
    source, comparisons = results.source, results.comparisons
    levels = [results.axis.load(level) for level in source.head.levels]
    noun = results.axis.noun
    load = (
        f"{len(levels)} load levels ({min(levels):,} to {wording.plural(max(levels), noun)})"
        if len(set(levels)) > 1
        else wording.plural(levels[0], noun)
    )
    runs = sorted({len(source.repetitions_of(name)) for name in source.configuration_names})
    repeated = wording.plural(runs[-1], "repetition") if runs else "no repetition"
    done = (
        f"all {source.planned_levels:,} load levels completed"
        if len(results.used) == source.planned_levels
        else f"{len(results.used):,} of {source.planned_levels:,} load levels completed"
    )
    said = f"{repeated} of {load}; {done}."
    known = [comparison.average for comparison in comparisons]
    among = max((found.among or 0 for found in known), default=0)
    if among > 1:
        said += f" The chance of any false claim among the {among:,} comparisons is at most 5 %."
    odd = dict.fromkeys(comparison.left_out(comparison.average) for comparison in comparisons)
    if named := [each for each in odd if each]:
        said += f" Left out as an outlier: {wording.listing(named)}."
    if below := differences.below_floor(comparisons, source.noise_floor):
        said += f" {below}"
    missed = _missed(results)
    if missed and not all(found.verdict.proven for found in known):
        least, most = (wording.change(missed[at]).removeprefix("+") for at in (0, -1))
        depends = f"{least} to {most}, depending on the pair" if least != most else most
        said += f" This experiment would probably miss differences below {depends}."
    return said


def _gaps(results: Results) -> str:
    """Return the proven differences at equal load: each level of two configurations, or the largest gap of several."""
    told = _comparisons(results)
    of_pairs = [each for each in _levels(results) if each[0] in told]
    found = [(comparison, level) for comparison, levels in of_pairs for level in levels]
    proven = [each for each in found if each[1].proven]
    apart = [level for _, level in found if level.obstacles]
    if all(level.low_percent is None for _, level in found):
        return ""
    if len(of_pairs) == 1 and (proven or apart):
        return _level_by_level(*of_pairs[0], results)
    if not proven:
        count = wording.plural(len(apart), "difference")
        why = f"; {count} can't be judged ({_kinds(apart)})" if apart else ""
        return f"No difference is proven at any load level{why}."
    comparison, level = max(proven, key=lambda each: abs(_log(each[1].percent)))
    winner, loser, ratio = comparison.other, comparison.base, 1 + level.stated_percent / 100
    if ratio < 1:
        winner, loser, ratio = loser, winner, 1 / ratio
    least = "at least " if level.at_least else ""
    gap = wording.change((ratio - 1) * 100) if ratio < 2 else f"{wording.ratio(ratio)} times"
    at = results.axis.words(results.at(comparison.base, level.index).load)
    marks = frozenset[Mark]().union(*(results.at(name, level.index).marks for name in (winner, loser)))
    part = ", in less than one pass of the workload" if Mark.PART_OF_A_PASS in marks else ""
    return f"Largest proven difference: {winner} over {loser} with {at}, {least}{gap}{part}."


def _levels(results: Results) -> list[tuple[Comparison, tuple[AtLevel, ...]]]:
    """Return each comparison with the load levels that both sides finished."""
    source, by_name = results.source, {side.name: side for side in sides(results)}
    found = at_levels(
        [(by_name[comparison.base], by_name[comparison.other]) for comparison in results.comparisons],
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
    )
    return list(zip(results.comparisons, found, strict=True))


def _level_by_level(comparison: Comparison, levels: Sequence[AtLevel], results: Results) -> str:
    """Return `+57 % with 1 client; no proven difference with 16 clients; not comparable with 64 clients (noise)`."""
    axis = results.axis
    by_index = {level.index: results.at(comparison.base, level.index).load for level in levels}
    # Levels that a side did not finish separate spans.
    loads = [by_index.get(index, 0) for index in range(len(results.of(comparison.base).levels))]
    proven, same = [], []
    apart: dict[str, list[int]] = {}
    for level in levels:
        at = by_index[level.index]
        if level.obstacles:
            apart.setdefault(_kinds([level]), []).append(at)
        elif level.proven:
            proven.append(f"{_change(level)} with {axis.words(at)}")
        else:
            same.append(at)
    parts = [", ".join(proven)] if proven else []
    if same:
        parts.append(f"no proven difference with {axis.words_of(same, loads)}")
    if apart:
        why = [f"{axis.words_of(these, loads)} ({kinds})" for kinds, these in apart.items()]
        parts.append(f"not comparable with {wording.listing(why)}")
    against = "over" if proven else "against"
    return f"{comparison.other} {against} {comparison.base}: {'; '.join(parts)}."


def _change(level: AtLevel) -> str:
    """Return `+57 %`, `at least +57 %`, `at most -36 %`: the change of the second configuration from the first."""
    bound = "at least " if level.percent > 0 else "at most "
    return f"{bound if level.at_least else ''}{wording.change(level.stated_percent)}"


def _kinds(apart: Sequence[AtLevel]) -> str:
    return ", ".join(dict.fromkeys(why.kind.value for level in apart for why in level.obstacles))


def _log(percent: float) -> float:
    ratio = 1 + percent / 100
    return ratio if ratio >= 1 else 1 / ratio


def _chart(results: Results) -> Iterator[Figure]:
    """Yield a bar chart of the overall average, best first; nothing for one configuration."""
    bars = [
        Series(result.name, style, (spread_point(0, average, frozenset(limits_of_average(result))),))
        for style, result in enumerate(results.configurations)
        if result.throughput is not None and (average := result.throughput.overall_average) is not None
    ]
    if len(bars) < 2:
        return
    bars.sort(key=lambda bar: -bar.points[0].y)
    title = "Average throughput over all load levels; error bars from the lowest to the highest repetition"
    if len(bars) > MOST_BARS:
        title += f": the highest {MOST_BARS} of {len(bars)}"
    unit = results.terms.unit
    panel = Panel("", unit, tuple(bars[:MOST_BARS]))
    hollow = any(bar.points[0].limited_by for bar in bars)
    line = basis(results) + (
        " Hollow points: the generator or the plan limited the figure." if hollow else ""
    )
    yield Figure("overview", 0, title, line, "bars", capital(unit), (panel,))
