"""The shape of curves: the peak and its uncertainty, saturation, overload and dips.

If the runs do not support a statement, the table has a dash and there is no finding. The statistics are in
`figures/shape.py` and `analysis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from serverdyno import wording
from serverdyno.analysis.dips import FallKind, ThroughputFall
from serverdyno.analysis.trust import LIMITS, Mark, limits
from serverdyno.plan.protocols.work import Terms
from serverdyno.report.basis import basis
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Cell, Column, Finding, Labels, Part, Section, Table
from serverdyno.report.parts import NAME

MOST_FALLS = 4
"""Maximum number of findings on dips; the table has all."""
MORE_CLIENTS = "Continue with more clients: `--clients` of `dyno run PLAN` and `dyno load`."


def applies(results: Results) -> bool:
    return results.source.closed_load


def build(results: Results) -> Part:
    section = Section("shape", "Peak, overload and dips", tables=(_table(results),), folded=True)
    return Part((section,), partial(_falls, results))


def _falls(results: Results, tables: Labels) -> list[Finding]:
    """Return a finding for each dip and each configuration's drops, clearest first, and one that counts the rest."""
    found = [group for result in results.configurations for group in _groups(result)]
    found.sort(key=lambda group: group[1][0].times_critical, reverse=True)
    said = [_fall(result, falls, tables) for result, falls in found[:MOST_FALLS]]
    if rest := len(found) - len(said):
        counted = wording.plural(rest, "more dip or drop", "more dips or drops")
        said.append(
            Finding("Dip", f"{tables['shape']} has {counted}, which are less clear.", f"{tables['shape']}.")
        )
    return said


def _groups(result: ConfigurationResult) -> list[tuple[ConfigurationResult, list[ThroughputFall]]]:
    """Return a group for each dip, and one for all drops: a curve that falls over several levels has one cause."""
    found = sorted(result.shape.dips.findings or (), key=lambda fall: fall.times_critical, reverse=True)
    groups = [[fall] for fall in found if fall.kind is FallKind.DIP]
    drops = [fall for fall in found if fall.kind is not FallKind.DIP]
    return [(result, group) for group in (*groups, drops) if group]


def _fall(result: ConfigurationResult, falls: Sequence[ThroughputFall], tables: Labels) -> Finding:
    clearest, *others = falls
    claim = (
        _dip_claim(result, clearest)
        if clearest.kind is FallKind.DIP
        else _drop_claim(result, clearest, others)
    )
    if words := _doubts(result, clearest):
        claim += f" {words}"
    judged = result.shape.dips
    noise = "" if judged.noise is None else f"the noise of a mean is {wording.share(judged.noise)}; "
    times = clearest.times_critical
    size = "more than 100 times" if times > 100 else f"{wording.significant(times)} times"
    evidence = (
        f"{noise}the fall is {size} as large as the largest that noise alone would probably cause; "
        f"{wording.plural(judged.repetitions, 'repetition')}"
    )
    return Finding(clearest.kind.capitalize(), claim, f"{evidence}; {tables['shape']}.")


def _dip_claim(result: ConfigurationResult, fall: ThroughputFall) -> str:
    where = _with_clients(clients_of(result, [fall.deepest]))
    lost = wording.share(fall.lost)
    return (
        f"{result.name} has a dip at {where}: throughput there is at least {lost} below the highest throughput before "
        "the dip, and below the highest after it."
    )


def _drop_claim(result: ConfigurationResult, fall: ThroughputFall, others: Sequence[ThroughputFall]) -> str:
    verb = "collapses" if fall.kind is FallKind.COLLAPSE else "drops"
    claim = (
        f"{result.name} {verb} beyond {_before(result, fall)}: at every higher load level, throughput is lower by "
        f"{wording.share(fall.lost)} or more."
    )
    if not others:
        return claim
    more = [f"{_before(result, other)} ({wording.share(other.lost)})" for other in others]
    return f"{claim} It also drops beyond {wording.listing(more)}."


def _before(result: ConfigurationResult, fall: ThroughputFall) -> str:
    place = next(index for index in range(fall.first - 1, -1, -1) if result.levels[index] is not None)
    return _with_clients(clients_of(result, [place]))


def _with_clients(clients: str) -> str:
    return "1 client" if clients == "1" else f"{clients} clients"


def _doubts(result: ConfigurationResult, fall: ThroughputFall) -> str:
    """Return a sentence on possible causes of a fall, such as other programs or errors; empty without any."""
    levels = [level for level in result.levels[fall.first : fall.last + 1] if level is not None]
    marks = frozenset().union(*(level.marks for level in levels))
    named = {
        Mark.NOISY: "other programs used the machine",
        Mark.ERRORS: "there were errors",
        Mark.CLIENTS_LEFT: "clients left",
    }
    reasons = [words for mark, words in named.items() if mark in marks]
    reasons += [f"the figure was {LIMITS[mark]}" for mark in limits(marks)]
    return f"In the affected range, {wording.listing(reasons)}." if reasons else ""


def unsaturated(results: Results, tables: Labels) -> list[Finding]:
    """Return findings on curves that were still rising at the highest load, with advice."""
    rising = [
        result for result in results.configurations if result.throughput and result.throughput.still_rising
    ]
    held = [result for result in rising if result.last is not None and limits(result.last.marks)]
    free = [result for result in rising if result not in held]
    return [
        _unsaturated(group, advice, tables)
        for group, advice in (
            (free, MORE_CLIENTS),
            (
                held,
                "The generator or the plan's bound limited these levels, so more clients would not bring "
                "more throughput.",
            ),
        )
        if group
    ]


def _unsaturated(group: Sequence[ConfigurationResult], advice: str, tables: Labels) -> Finding:
    parts = []
    for result in group:
        assert result.last is not None  # a rising curve has levels
        parts.append(f"{result.name} ({_with_clients(f'{result.last.clients:,}')})")
    peaks = "Its peak is" if len(group) == 1 else "Their peaks are"
    bounds = "a lower bound" if len(group) == 1 else "lower bounds"
    where = wording.listing(parts)
    claim = f"Throughput was still rising at the highest load tested: {where}. {peaks} {bounds}. {advice}"
    return Finding(
        "Still rising",
        claim,
        f"Rule: throughput must rise by more than the noise and by at least 2 %; {tables['peaks']}.",
    )


def corrected_peak_words(result: ConfigurationResult, terms: Terms) -> str:
    """Return a sentence on the cross-validated peak, which noise does not inflate, if it differs."""
    peak = result.shape.peak
    if peak is None or peak.value is None or terms.written(peak.value) == terms.written(result.peak_height):
        return ""
    return f" Corrected for choosing the best level: {terms.written(peak.value)} {terms.unit}."


def peak_words(result: ConfigurationResult, terms: Terms) -> list[str]:
    """Return the evidence on a peak: its interval, its possible levels, and the share kept at the highest load."""
    shape, words = result.shape, []
    peak, retained = shape.peak, shape.retained
    if peak is not None and peak.value is not None and peak.low is not None and peak.high is not None:
        span = terms.span(peak.low, peak.high)
        words.append(f"corrected peak {terms.written(peak.value)}, 95 % interval {span} {terms.unit}")
    if peak is not None and peak.candidates is not None and len(peak.candidates) > 1:
        words.append(f"the true peak may be at {clients_of(result, peak.candidates)} clients")
    if shape.near_peak is not None:
        reached = _with_clients(clients_of(result, [shape.near_peak]))
        words.append(f"throughput reaches 95 % of the peak with {reached}")
    if retained is not None and retained.low is not None and retained.high is not None and retained.share < 1:
        interval = wording.share_span(retained.low, retained.high)
        kept = wording.share(retained.share)
        words.append(f"throughput at the highest load is {kept} of the peak, 95 % interval {interval}")
    return words


def clients_of(result: ConfigurationResult, places: Sequence[int]) -> str:
    found = [wording.whole(level.clients) for place in places if (level := result.levels[place]) is not None]
    return found[0] if len(found) == 1 else ", ".join(found)


def _table(results: Results) -> Table:
    unit = results.terms.unit
    columns = (
        NAME,
        Column("Highest mean", unit),
        Column("Peak", f"{unit}, by cross-validation"),
        Column("Peak's 95 % interval", unit),
        Column("Highest mean with", "clients"),
        Column("The peak may be with", "clients"),
        Column("95 % of the peak reached with", "clients"),
        Column("Kept at the highest load", "share of the highest mean"),
        Column("Its 95 % interval"),
        Column("Dips and drops", numeric=False),
        Column("n", "complete runs"),
    )
    notes = (
        "Cross-validation: each half of the runs is evaluated at the load level where the other half peaks, "
        "because noise inflates the highest of several means. Intervals: t intervals on logarithms, given "
        "if there are at least two runs.",
        "The peak may be with: in 95 of 100 experiments, the true peak is at one of these load levels (subset "
        "selection, Gupta 1965).",
        "Dips and drops: a flat curve with normally distributed noise has any finding with a chance of 5 %. "
        f"{wording.NOTHING} can't be judged, because of too few load levels or repetitions, or a level "
        "without throughput.",
    )
    rows = tuple(_row(result, results.terms) for result in results.configurations)
    return Table("shape", 0, "Peak, overload and dips", basis(results), columns, rows, notes)


def _row(result: ConfigurationResult, terms: Terms) -> tuple[Cell, ...]:
    shape = result.shape
    peak, retained, nothing = shape.peak, shape.retained, Cell(wording.NOTHING)
    of_peak = [nothing] * 5
    if peak is not None:
        of_peak = [
            Cell(terms.written(peak.highest_mean)),
            Cell(terms.written(peak.value)),
            Cell(
                wording.NOTHING if peak.low is None or peak.high is None else terms.span(peak.low, peak.high)
            ),
            Cell(clients_of(result, [peak.index])),
            Cell(wording.NOTHING if peak.candidates is None else clients_of(result, peak.candidates)),
        ]
    return (
        Cell(result.name),
        *of_peak,
        Cell(wording.NOTHING if shape.near_peak is None else clients_of(result, [shape.near_peak])),
        Cell(wording.share(retained.share if retained else None)),
        Cell(wording.share_span(retained.low, retained.high) if retained else wording.NOTHING),
        Cell(_falls_in_short(result)),
        Cell(wording.whole(peak.repetitions if peak else 0)),
    )


def _falls_in_short(result: ConfigurationResult) -> str:
    found = result.shape.dips.findings
    if found is None:
        return wording.NOTHING
    return "; ".join(_in_short(result, fall) for fall in found) or "none found"


def _in_short(result: ConfigurationResult, fall: ThroughputFall) -> str:
    where = "at" if fall.kind is FallKind.DIP else "from"
    place = fall.deepest if fall.kind is FallKind.DIP else fall.first
    return f"{fall.kind} {where} {clients_of(result, [place])}: {wording.change(-100 * fall.lost)}"
