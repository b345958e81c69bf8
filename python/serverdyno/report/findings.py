"""Sentences made from the figures: the summary and the key findings.

No sentence says more than its figures: an average of two runs was seen, not shown; a peak that something else
than the server may have set is called so. What must be known before any figure is in `caveats`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from serverdyno import units, wording
from serverdyno.analysis.oddities import mostly_own_queue
from serverdyno.analysis.pairs import Comparison
from serverdyno.analysis.trust import LIMITS, Mark, limits
from serverdyno.protocols.work import Terms
from serverdyno.report.basis import NAMES_STATEMENT
from serverdyno.report.figures.histograms import QUANTILES
from serverdyno.report.figures.results import SIDES, ConfigurationResult, MixFigures, Results
from serverdyno.report.model import Finding
from serverdyno.report.source import Source
from serverdyno.report.subjects import (
    anomalies,
    cost,
    differences,
    durability,
    errors,
    factorial,
    odd_runs,
    scaling,
    tuning,
)
from serverdyno.report.words import curves

MOST_FINDINGS = 8
"""On peaks and comparisons together; the tables hold the rest."""
MOST_SUBJECTS = 6
"""Configurations that one sentence names."""


def summary(source: Source, results: Results) -> tuple[str, ...]:
    """What was done, and the range of the peaks, a paragraph each."""
    paragraphs = [_what_was_done(source, results)]
    if any(result.peak for result in results.configurations):
        paragraphs.append(_highest_and_lowest(results, durability.beside_peaks(results.promises)))
    paragraphs.append(NAMES_STATEMENT)
    return tuple(paragraphs)


def summary_without_peaks(source: Source, results: Results) -> tuple[str, ...]:
    """The same where no peak is looked for: of open load and of outages."""
    return (_what_was_done(source, results), NAMES_STATEMENT)


def _what_was_done(source: Source, results: Results) -> str:
    names = source.configuration_names
    levels = [results.axis.level(mix) for mix in source.head.mixes]
    subject = wording.listing(names) if len(names) <= MOST_SUBJECTS else f"{len(names):,} configurations"
    runs = sorted({len(source.repetitions_of(name)) for name in names})
    times = {1: "once", 2: "twice"}.get(runs[-1], f"{runs[-1]:,} times") if runs else "never"
    each = f"{times} each" if len(names) > 1 else times
    order = f", in {source.head.plan.order} order" if len(names) > 1 and runs and runs[-1] > 1 else ""
    load = (
        f"at {wording.plural(len(levels), 'load level')} from {min(levels):,} to {results.axis.words(max(levels))}"
        if len(set(levels)) > 1
        else f"with {results.axis.words(levels[0])}"
    )
    done = len(results.used)
    completed = (
        f"All {done:,} tests completed."
        if done == source.planned_mixes
        else f"{done:,} of {wording.plural(source.planned_mixes, 'test')} completed."
    )
    return f"We tested {subject} {load} of the suite {source.head.suite.name}, {each}{order}. {completed}"


def _highest_and_lowest(results: Results, beside: Mapping[str, str]) -> str:
    """`beside`: what each did with a flush, where they differ: who reads no further must not take it for one race."""
    ranked = _ranked([result for result in results.configurations if result.throughput is not None])
    highest = _peak_claim(ranked[0], results.terms, beside)
    if len(ranked) == 1:
        return f"Peak: {highest}"
    if _may_be_as_high(ranked[-1], ranked[0]):
        claims = " ".join(_peak_claim(result, results.terms, beside) for result in (ranked[0], ranked[-1]))
        return f"The peaks can't be ranked, since the generator or the plan held the lowest back: {claims}"
    return f"Highest peak: {highest} Lowest peak: {_peak_claim(ranked[-1], results.terms, beside)}"


def _may_be_as_high(lowest: ConfigurationResult, highest: ConfigurationResult) -> bool:
    """Whether what the generator or the plan's rate hides of the lowest peak is as much as lies between the two."""
    peak = lowest.peak
    if peak is None or not lowest.peak_height:
        return False
    hidden = peak.hidden_speed if Mark.GENERATOR_LIMITED in peak.marks else None
    return Mark.RATE_BOUND in peak.marks or lowest.peak_height * (1 + (hidden or 0.0)) > highest.peak_height


def findings(
    source: Source,
    results: Results,
    comparisons: Sequence[Comparison],
    tables: dict[str, str],
) -> tuple[Finding, ...]:
    """The key findings. `tables`: how the text refers to each table, by its key."""
    named = _named(results, comparisons)
    found = [_peak_finding(source, result, results.terms, tables) for result in named]
    found += curves.unsaturated(results, tables)
    found += differences.findings(comparisons, results.terms, tables, MOST_FINDINGS - len(named))
    if comparisons:
        found += odd_runs.findings(comparisons, source.records_by_name(), tables["improvements"])
    for subject in (scaling, tuning, factorial):
        if subject.applies(results):
            found += subject.build(results).findings(tables)
    found += curves.falls(results, tables)
    found += of_durability(results, tables)
    if results.mixes:
        found += of_any_load(source, results, tables)
        found += anomalies.findings(results, tables)
    return tuple(found)


def of_durability(results: Results, tables: dict[str, str]) -> list[Finding]:
    return [*durability.build(results).findings(tables)] if durability.applies(results) else []


def of_any_load(source: Source, results: Results, tables: dict[str, str]) -> list[Finding]:
    """What can be said however load was made: of the machine, of errors and of stalls."""
    if not results.mixes:
        return []
    return [
        *cost.build(results).findings(tables),
        *errors.build(results).findings(tables),
    ]


def _named(results: Results, comparisons: Sequence[Comparison]) -> list[ConfigurationResult]:
    """All configurations where they are few; else the base, the highest and the lowest."""
    configurations = results.configurations
    if len(configurations) <= MOST_FINDINGS // 2 or len(configurations) + len(comparisons) <= MOST_FINDINGS:
        return list(configurations)
    ranked = _ranked(configurations)
    outstanding = {configurations[0].name, ranked[0].name, ranked[-1].name}
    return [result for result in configurations if result.name in outstanding]


def _ranked(configurations: Sequence[ConfigurationResult]) -> list[ConfigurationResult]:
    """The highest peak first, those without one last."""
    return sorted(
        configurations,
        key=lambda result: result.peak_height if result.throughput else -1.0,
        reverse=True,
    )


def _peak_claim(result: ConfigurationResult, terms: Terms, beside: Mapping[str, str]) -> str:
    summary, peak = result.throughput, result.peak
    if summary is None or peak is None:
        return f"{result.name} finished no mix."
    if summary.peak.mean == 0:
        return _nothing_counted(result, terms)
    words = _limit_words(peak)
    limited = f" ({words})" if words else ""
    starved = _starved_words(peak, terms)
    flushed = f", {beside[result.name]}" if result.name in beside else ""
    return (
        f"{result.name}, {terms.written(result.peak_height)} {terms.unit}{limited} with "
        f"{peak.at}{starved}{flushed}."
    )


def _limit_words(mix: MixFigures) -> str:
    """What else than the server may have set a figure, and by how much the server may be faster then."""
    words = [LIMITS[mark] for mark in limits(mix.marks)]
    if Mark.GENERATOR_LIMITED in mix.marks:
        words.append(
            "how much faster the server may be is not known"
            if mix.hidden_speed_is_loose
            else f"the server may be up to {wording.share(mix.hidden_speed)} faster"
        )
    return ", ".join(words)


def _starved_words(mix: MixFigures, terms: Terms) -> str:
    """How many of the clients had no part in a figure; nothing where all had."""
    if not mix.clients_starved:
        return ""
    return f", {mix.clients_starved:,} of them without a completed {terms.operation}"


def _nothing_counted(result: ConfigurationResult, terms: Terms) -> str:
    """Why all throughput is zero. Of file servers it may be so despite successes: those of clients that left."""
    if not any(mix.operations_s.mean for mix in result.finished):
        return f"{result.name} completed no {terms.operation} in any window."
    deserted = [f"{mix.clients:,}" for mix in result.finished if mix.all_clients_left]
    if not deserted:
        return f"{result.name} moved no data in any window."
    mixes = "the mix" if len(deserted) == 1 else "the mixes"
    clients = f"{wording.listing(deserted)} {'client' if deserted == ['1'] else 'clients'}"
    return (
        f"{result.name} has no throughput: all clients left in {mixes} of {clients}, and what they did before is not "
        "counted."
    )


def _peak_finding(
    source: Source, result: ConfigurationResult, terms: Terms, tables: dict[str, str]
) -> Finding:
    summary, peak = result.throughput, result.peak
    if summary is None or peak is None:
        return Finding("Peak", f"{result.name} finished no mix, so it has no figures.", tables["runs"])
    if summary.peak.mean == 0:
        return Finding("Peak", _nothing_counted(result, terms), f"{_error_words(peak)}. {tables['errors']}.")
    figures = (
        f"{terms.written(result.peak_height)} {terms.unit} "
        f"({terms.second_written(peak.second.mean)} {terms.second_unit}) with "
        f"{peak.at}{_starved_words(peak, terms)}"
    )
    limited = _limit_words(peak)
    if Mark.RATE_BOUND in peak.marks:
        bound = wording.rate(source.max_rate_per_s[result.name])
        claim = (
            f"{result.name} reached {figures}, held by the bound of {bound} {terms.operations}/s in its plan "
            f"({limited}): its own peak is not known."
        )
    else:
        qualified = f", {limited}" if limited else ""
        corrected = curves.corrected_peak_words(result, terms)
        claim = f"{result.name} peaked at {figures}{qualified}.{corrected} {_after_the_peak(result, peak)}"
    evidence = [
        _spread_words(peak, terms),
        *curves.peak_words(result, terms),
        _network_words(peak),
        _response_words(peak),
        _hidden_words(peak),
        f"{tables['peaks']} and {tables['shape']}",
    ]
    return Finding("Peak", claim, "; ".join(part for part in evidence if part) + ".")


def _after_the_peak(result: ConfigurationResult, peak: MixFigures) -> str:
    summary = result.throughput
    if summary is None or sum(point is not None for point in summary.points) < 2:
        return "Only one load level was tested, so other loads are unknown."
    if summary.still_rising:
        return "That is the highest load tested, so the true peak may lie higher."
    if summary.share_of_peak_kept is None:
        return "The last mix is missing, so what it keeps of its peak is not known."
    last = next(mix for mix in reversed(result.mixes) if mix is not None)
    if summary.share_of_peak_kept == 1:
        return "That is the highest load tested; throughput neither fell nor rose beyond the noise."
    kept = wording.share(summary.share_of_peak_kept)
    return f"With {last.at}, the highest load, it kept {kept} of that."


def _spread_words(mix: MixFigures, terms: Terms) -> str:
    spread = mix.throughput
    if spread.n < 2:
        return "1 repetition"
    return f"mean of {spread.n} repetitions, {terms.span(spread.minimum, spread.maximum)} {terms.unit}"


def _response_words(mix: MixFigures) -> str:
    if mix.response is None:
        return ""
    median, tail = (mix.response.percentiles_ms[QUANTILES.index(quantile)] for quantile in (0.5, 0.99))
    if median is None or tail is None:
        return ""
    words = f"response time p50 {wording.significant(median)} ms, p99 {wording.significant(tail)} ms"
    limited = Mark.GENERATOR_LIMITED in mix.marks
    mostly_own = limited and mostly_own_queue(mix.own_queue_ms, mix.response.mean_ms)
    return f"{words}, mostly the generator's own queue" if mostly_own else words


def _network_words(mix: MixFigures) -> str:
    """How much of a file server's throughput it was asked for: the clients' caches have answered the rest."""
    if mix.network_share is None:
        return ""
    return f"bytes on the network: {wording.share(mix.network_share)} of those that applications moved"


def _hidden_words(mix: MixFigures) -> str:
    if mix.hidden_speed is None:
        return "whether the generator held it back was not measured"
    if mix.hidden_speed_is_loose:
        return "the generator waited for a CPU, so how much it held back is not known"
    return f"without the generator at most {wording.share(mix.hidden_speed)} more"


def _error_words(mix: MixFigures) -> str:
    sides = [f"{units.format_count(mix.errors[side])} {side}" for side in SIDES if mix.errors[side]]
    return f"Errors at {mix.at}: {wording.listing(sides)}" if sides else "No error counted"
