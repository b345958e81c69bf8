"""Which claims of a published report hold for the servers of our experiments.

A claim compares two places of the published tables. If one configuration stands for each, the verdict is that of the
experiment's own report. Only the direction is judged: the published size depends on the hardware of its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from serverdyno import wording
from serverdyno.analysis import pairs
from serverdyno.analysis.improvement import Metric, Verdict
from serverdyno.analysis.pairs import Comparison
from serverdyno.published.model import (
    Cells,
    Claim,
    Decline,
    Improvement,
    Order,
    PairedOrder,
    Quantity,
    Ratio,
    Where,
)
from serverdyno.published.printed import MOST_WORDS
from serverdyno.published.reenactment import Place, expanded
from serverdyno.published.tables import Cell
from serverdyno.report.figures.sides import sides
from serverdyno.report.reenact import Found, Measured, configuration_of, settings_of
from serverdyno.report.subjects import differences

MOST_SHOWN = 6
"""Maximum number of comparisons shown of one claim."""
MOST_FITTING = 16
"""Maximum number of configurations that may fit one side of a comparison."""
ONE_FIGURE = (
    "The claim does not compare the peaks or the overall averages of two configurations, or the report prints no "
    "numbers for them."
)
ONE_LEVEL = "The claim is about individual numbers of clients, for which there is no verdict."


WHERES = ("where", "of", "over", "greater", "lower")
"""Fields of rules with places in tables; those of a quantity have other content."""


class Holds(StrEnum):
    """The verdict on a claim for the servers of our experiments; the value is its text in the page."""

    HOLDS = "holds"
    CONTRADICTED = "does not hold"
    NOT_SHOWN = "not shown"
    NOT_JUDGED = "can't be judged"


@dataclass(frozen=True, slots=True)
class Asked:
    """A comparison that a claim requires: `of` against `over` in `figure`."""

    of: Place
    over: Place
    figure: Metric
    expects: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A claim with its verdict. `found`: sentences on the comparisons; `why`: what prevented others."""

    claim: Claim
    holds: Holds
    found: tuple[str, ...]
    why: tuple[str, ...]

    @property
    def meaning(self) -> tuple[object, ...]:
        """Return what the claim says, whichever of several equal figures it refers to."""
        return (self.claim.says, self.claim.printed, repr(_without_figures(self.claim.rule.model_dump())))


def _without_figures(rule: object) -> object:
    if isinstance(rule, dict):
        return {key: _without_figures(value) for key, value in rule.items() if key != "figure"}
    return [_without_figures(each) for each in rule] if isinstance(rule, list | tuple) else rule


class NotComparedError(Exception):
    """A claim, or one of its comparisons, can't be judged."""


def answers(measured: Measured) -> list[Answered]:
    """Return every claim of the report with its verdict, in order."""
    asked = {claim.id: _asked_or_why(measured, claim) for claim in measured.report.claims}
    places: dict[str, list[tuple[Asked, Found, Found] | str]] = {}
    for identity, (questions, why) in asked.items():
        places[identity] = [why] if why else [each for one in questions for each in _matched(measured, one)]
    wanted = [each for found in places.values() for each in found if not isinstance(each, str)]
    compared = _compared(wanted, measured)
    return [_answer(claim, places[claim.id], compared) for claim in measured.report.claims]


def _asked_or_why(measured: Measured, claim: Claim) -> tuple[list[Asked], str]:
    try:
        return list(_asked(measured, claim)), ""
    except NotComparedError as error:
        return [], next(filter(None, map(measured.absent, _places(claim.rule.model_dump()))), f"{error}")


def _places(rule: object) -> Iterator[Where]:
    """Yield the places in the tables that a rule names."""
    if isinstance(rule, dict):
        for key, value in rule.items():
            if key in WHERES and isinstance(value, dict) and "kind" not in value:
                yield value
            else:
                yield from _places(value)
    elif isinstance(rule, list | tuple):
        for each in rule:
            yield from _places(each)


def _asked(measured: Measured, claim: Claim) -> Iterator[Asked]:
    given = next((each for each in measured.mapping.claims if claim.id in each.ids), None)
    rule = claim.rule
    if given is not None:
        for of in expanded(given.of):
            for over in expanded(given.over):
                yield Asked(of, over, Metric(given.figure), given.expects)
    elif isinstance(rule, Improvement | Ratio):
        yield _pair(measured, rule.of, rule.over if isinstance(rule, Improvement) else rule.to, "higher")
    elif isinstance(rule, Decline):
        yield _pair(measured, rule.end, rule.start, "lower")
    elif isinstance(rule, Order):
        for other in rule.than:
            yield _pair(measured, rule.of, other, "higher" if rule.kind == "greater" else "lower")
    elif isinstance(rule, PairedOrder):
        if why := measured.absent(rule.greater) or measured.absent(rule.lower):
            raise NotComparedError(why)
        figure = _metric(measured, rule.table, "paired", {**rule.where, **dict.fromkeys(rule.pairs_by, 0)})
        for row in measured.report.tables[rule.table].select(rule.where | rule.greater):
            shared = _cells(row, (*rule.where, *rule.pairs_by))
            for over in expanded(rule.lower):
                yield Asked(_cells(row, rule.greater) | shared, over | shared, figure, "higher")
    else:
        raise NotComparedError(ONE_FIGURE)


def _cells(row: Mapping[str, Cell], columns: Sequence[str] | Where) -> Place:
    return {name: cell for name in columns if (cell := row[name]) is not None}


def _pair(measured: Measured, of: Quantity, over: Quantity, expects: str) -> Asked:
    if not isinstance(of, Cells) or not isinstance(over, Cells):
        raise NotComparedError(ONE_FIGURE)
    if why := measured.absent(of.where) or measured.absent(over.where):
        raise NotComparedError(why)
    figure = _metric(measured, of.table, of.kind, of.where)
    if figure is not _metric(measured, over.table, over.kind, over.where):
        raise NotComparedError(ONE_FIGURE)
    return Asked(_single(of.where), _single(over.where), figure, expects)


def _single(where: Where) -> Place:
    found = list(expanded(where))
    if len(found) != 1:
        raise NotComparedError("The claim combines several configurations.")
    return found[0]


def _metric(measured: Measured, table: str, kind: str, where: Mapping[str, object]) -> Metric:
    """Return the figure that a table has. Raises NotComparedError for figures of one level or no server."""
    if "clients" in where:
        raise NotComparedError(ONE_LEVEL)
    meaning = measured.mapping.figures_of.get(table)
    if meaning == "curve":
        meaning = {"mean": "overall average", "highest": "peak"}.get(kind)  # type: ignore[assignment]
    if meaning is None:
        raise NotComparedError(ONE_FIGURE)
    return Metric(meaning)


def _matched(measured: Measured, asked: Asked) -> Iterator[tuple[Asked, Found, Found] | str]:
    """Yield pairs of configurations that agree in `FACTORS` unless the claim is about them, or why there are none."""
    try:
        of, over = measured.counterpart(asked.of), measured.counterpart(asked.over)
    except KeyError as error:
        column, value = error.args[0]
        yield f"{column.replace('_', ' ').capitalize()} {value} has no counterpart today."
        return
    found, others = measured.find(of), measured.find(over)
    for wanted, of_it in ((of, found), (over, others)):
        if not of_it:
            yield measured.why_not(wanted)
            return
        if len(of_it) > MOST_FITTING:
            yield f"More than {MOST_FITTING} configurations could stand for one side of the claim."
            return
    free = [key for key in FACTORS if key not in of.settings.keys() | over.settings.keys()]
    matched = [
        (asked, one, other)
        for one in found
        for other in others
        if one[0] is other[0] and one[1] is not other[1] and _agree(one, other, free)
    ]
    for each in matched:
        yield _unequal(each[1], each[2]) or each
    if not matched:
        yield "No experiment measured both sides of the claim in the same suite."


def _unequal(one: Found, other: Found) -> str:
    """Return why processors can't be compared: the generator shares CPUs of one side only. Empty if they can."""
    shared = {
        each[1].name: each[0].source.cpus_shared_with_generator(configuration_of(each))
        for each in (one, other)
    }
    if len(set(shared.values())) == 1:
        return ""
    told = [f"{name} shares {wording.cpu_set(cpus)}" for name, cpus in shared.items() if cpus]
    return f"{wording.listing(told)} with the load generator, so a further processor can't be judged."


FACTORS = ("processors", "volumes", "strict_sync", "oplocks", "dynamic", "tls", "mpm")
"""Settings in which the two sides of a comparison agree, unless the claim is about them."""


def _agree(one: Found, other: Found, keys: Sequence[str]) -> bool:
    settings = [settings_of(one), settings_of(other)]
    return all(settings[0].get(key) == settings[1].get(key) for key in keys)


Pair = tuple[int, str, str]
"""Identity of the results, base and other of a comparison."""


def _key(one: Found, other: Found) -> Pair:
    return id(one[0]), other[1].name, one[1].name


def _compared(wanted: Sequence[tuple[Asked, Found, Found]], measured: Measured) -> dict[Pair, Comparison]:
    """Return the comparison of each pair as in the report of its experiment.

    If that report does not compare a pair, it is added there, and all are judged together.
    """
    found: dict[Pair, Comparison] = {}
    for results in measured.results:
        keys = dict.fromkeys(_key(one, other) for _, one, other in wanted if one[0] is results)
        known = {frozenset((each.base, each.other)): each for each in results.comparisons}
        lacking = {frozenset(names): names for _, *names in keys if frozenset(names) not in known}
        if lacking:
            by_name = {side.name: side for side in sides(results)}
            named = [*((each.base, each.other) for each in results.comparisons), *lacking.values()]
            made = pairs.compared(
                [(by_name[base], by_name[other]) for base, other in named],
                paired=results.source.paired,
                margins=results.source.margins,
            )
            known |= {frozenset((each.base, each.other)): each for each in made[-len(lacking) :]}
        found |= {key: known[frozenset(key[1:])] for key in keys}
    return found


def _answer(
    claim: Claim,
    places: Sequence[tuple[Asked, Found, Found] | str],
    compared: Mapping[Pair, Comparison],
) -> Answered:
    verdicts: list[Holds] = []
    found: dict[str, None] = {}
    why: dict[str, None] = {}
    for each in places:
        if isinstance(each, str):
            why[each] = None
            continue
        asked, one, other = each
        comparison = compared[_key(one, other)]
        verdicts.append(_verdict(comparison, asked, of_base=comparison.base == one[1].name))
        found[differences.claim(comparison, [asked.figure])] = None
    sentences = list(found)
    if len(sentences) > MOST_SHOWN:
        sentences[MOST_SHOWN:] = [f"{len(sentences) - MOST_SHOWN:,} more comparisons are not shown."]
    return Answered(claim, _together(verdicts, claim), tuple(sentences), tuple(why))


def _verdict(comparison: Comparison, asked: Asked, *, of_base: bool) -> Holds:
    """Return whether a comparison has the result that a claim expects.

    `of_base`: its base is the first side of the claim.
    """
    measured = next(found for found in comparison.improvements if found.figure is asked.figure).verdict
    higher, lower = (Verdict.SLOWER, Verdict.FASTER) if of_base else (Verdict.FASTER, Verdict.SLOWER)
    wanted = {"higher": higher, "lower": lower, "same": Verdict.EQUIVALENT}[asked.expects]
    if measured is wanted:
        return Holds.HOLDS
    if measured in (Verdict.FASTER, Verdict.SLOWER, Verdict.EQUIVALENT):
        return Holds.CONTRADICTED
    return Holds.NOT_JUDGED if measured is Verdict.NOT_COMPARABLE else Holds.NOT_SHOWN


def _together(verdicts: Sequence[Holds], claim: Claim) -> Holds:
    """Return the verdict on a claim of several comparisons: it holds if all do, or for "most" if more than half do."""
    judged = Counter(each for each in verdicts if each is not Holds.NOT_JUDGED)
    if not judged:
        return Holds.NOT_JUDGED
    enough = judged.total() // 2 + 1 if claim.claimed in MOST_WORDS else judged.total()
    if judged[Holds.HOLDS] >= enough:
        return Holds.HOLDS
    if judged[Holds.CONTRADICTED] > judged.total() - enough:
        return Holds.CONTRADICTED
    return Holds.NOT_SHOWN
