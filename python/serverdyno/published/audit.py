"""The audit: each claim of a text recomputed from the text's own tables, with a verdict and its reason.

Verdicts:

* `follows`: the rule gives what is printed, within what its words admit (`printed.py`);
* `follows_with_other_rounding_or_base`: the rule gives it only by cutting off or rounding up instead of rounding, or
  with another base for the same two figures: a decline relative to the lower figure, a gain relative to the higher
  one, a ratio printed as an improvement ("300 percent faster" for 3 times as fast), or "3 times more" for 4 times as
  much;
* `contradicts`: none of these;
* `cannot_be_checked`: the tables lack the required values; the claim says which.

The origin of the tables does not matter: the claims of a published report and the findings of the user's own
experiment are audited in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel

from serverdyno.published import PublishedReport, evaluate, printed
from serverdyno.published.evaluate import Holds, NotStatedError
from serverdyno.published.model import (
    Claim,
    Course,
    Decline,
    Difference,
    EachOf,
    Improvement,
    NotChecked,
    Order,
    PairedOrder,
    Quantity,
    Ratio,
    Same,
    Stated,
)
from serverdyno.published.printed import Hedge, Printed
from serverdyno.published.tables import ClaimError, Tables


class ClaimVerdict(StrEnum):
    FOLLOWS = "follows"
    OTHER_BASE = "follows_with_other_rounding_or_base"
    CONTRADICTS = "contradicts"
    NOT_CHECKED = "cannot_be_checked"

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Audited:
    """A claim with its verdict. `computed` is the result of the rule: a number, or a sentence for a comparison."""

    claim: Claim
    report: str
    computed: float | str | None
    verdict: ClaimVerdict
    reason: str

    def as_json(self) -> dict[str, object]:
        """Return the object that `dyno audit --json` prints."""
        return {
            "id": self.claim.id,
            "report": self.report,
            "place": self.claim.place,
            "claimed": self.claim.claimed,
            "computed": self.computed,
            "verdict": self.verdict.value,
            "reason": self.reason,
        }


def audit(report: PublishedReport) -> tuple[Audited, ...]:
    return audit_claims(report.claims, report.tables, report.name)


def audit_claims(claims: Sequence[Claim], tables: Tables, report: str) -> tuple[Audited, ...]:
    """Check claims against tables of any source. Raises ClaimError for a malformed claim."""
    return tuple(Audited(claim, report, *_judged(claim, tables)) for claim in claims)


Judgement = tuple[float | str | None, ClaimVerdict, str]


def _judged(claim: Claim, tables: Tables) -> Judgement:
    rule = claim.rule
    if isinstance(rule, NotChecked):
        return None, ClaimVerdict.NOT_CHECKED, rule.why
    try:
        if isinstance(rule, Same):
            return _same(claim, rule, tables)
        if isinstance(rule, Order | PairedOrder | Course):
            return _order(claim, evaluate.statement(rule, tables))
        number = printed.read(claim.claimed, claim.unit)
        if number is None:
            raise ClaimError(f'"{claim.claimed}" is not a number')
        if isinstance(rule, EachOf):
            return _each(number, [evaluate.quantity(part, tables) for part in rule.of])
        return _number(number, rule, tables)
    except NotStatedError as missing:
        return None, ClaimVerdict.NOT_CHECKED, str(missing)
    except ClaimError as error:
        raise ClaimError(f'claim "{claim.id}": {error}', error.hint) from error


def _same(claim: Claim, rule: Same, tables: Tables) -> Judgement:
    words = claim.claimed.lower()
    share = (printed.SAME_WORDS | printed.NEARLY_SAME_WORDS).get(words)
    if share is None:
        raise ClaimError(f'"{claim.claimed}" is not a known word for equal values')
    one, other = evaluate.both(rule, tables)
    apart = abs(one - other) / max(abs(one), abs(other), 1e-300)
    verdict = ClaimVerdict.FOLLOWS if apart <= share else ClaimVerdict.CONTRADICTS
    reason = (
        f"{one:,.10g} and {other:,.10g} are {100 * apart:.2f} percent apart; the word allows "
        f"{100 * share:g} percent"
    )
    return f"{one:,.10g} and {other:,.10g}", verdict, reason


def _order(claim: Claim, holds: Holds) -> Judgement:
    words = claim.claimed.lower()
    if words in printed.MOST_WORDS:
        passed = 2 * holds.count > holds.total
    elif words in printed.ALL_WORDS:
        passed = holds.count == holds.total
    else:
        raise ClaimError(f'"{claim.claimed}" is not a known word of order')
    computed = f"{holds.count} of {holds.total}"
    comparisons = "comparison" if holds.total == 1 else "comparisons"
    but = f", not in: {'; '.join(holds.failing)}" if holds.failing else ""
    reason = f"holds in {computed} {comparisons}{but}"
    return computed, ClaimVerdict.FOLLOWS if passed else ClaimVerdict.CONTRADICTS, reason


def _each(number: Printed, values: list[float]) -> Judgement:
    outside = [value for value in values if not number.admits(value)]
    computed = f"{min(values):,.10g} to {max(values):,.10g}"
    if not outside:
        return computed, ClaimVerdict.FOLLOWS, f"all {len(values)} values lie within {number.described()}"
    listed = ", ".join(f"{value:,.10g}" for value in outside)
    reason = f"{len(outside)} of {len(values)} values lie outside {number.described()}: {listed}"
    return computed, ClaimVerdict.CONTRADICTS, reason


def _number(number: Printed, rule: Quantity, tables: Tables) -> Judgement:
    computed = evaluate.quantity(rule, tables)
    shown = written(computed, number)
    if number.admits(computed):
        within = (
            "" if number.rounds_to(computed) else f', which "{number.text}" allows ({number.described()})'
        )
        return computed, ClaimVerdict.FOLLOWS, f"is {shown}{within}"
    if words := _other_rounding(number, computed) or _other_base(number, rule, tables):
        return computed, ClaimVerdict.OTHER_BASE, f"is {shown}; {words}"
    note = _transposed(number, shown) + _sources(rule)
    return (
        computed,
        ClaimVerdict.CONTRADICTS,
        f"is {shown}; the printed figure allows {number.described()}{note}",
    )


def written(value: float, number: Printed) -> str:
    """Format a computed value with two more digits than the printed number."""
    places = max(0, len(f"{number.step:.10f}".rstrip("0").partition(".")[2])) + 2
    return f"{value:,.{places}f}".rstrip("0").rstrip(".") if places else f"{value:,.0f}"


def _other_rounding(number: Printed, computed: float) -> str:
    if number.hedge in (Hedge.OVER, Hedge.UNDER, Hedge.ALMOST) and number.rounds_to(computed):
        return f'this is true only after rounding: the unrounded figure is not "{number.text}"'
    if number.hedge in (Hedge.NONE, Hedge.ABOUT) and number.within_a_step(computed):
        how = "cut off" if abs(computed) > abs(number.value) else "rounded up"
        return f"the printed figure was {how} instead of rounded to the nearest value"
    return ""


def _other_base(number: Printed, rule: Quantity, tables: Tables) -> str:
    for value, words in _bases(rule, tables):
        if number.admits(value):
            return f"{written(value, number)} {words}"
    return ""


def _bases(rule: Quantity, tables: Tables) -> Iterator[tuple[float, str]]:
    """Yield each value that the same two figures give with another base, and a description."""
    if isinstance(rule, Decline):
        start, end = evaluate.quantity(rule.start, tables), evaluate.quantity(rule.end, tables)
        yield evaluate.improvement(start, end), "is the difference relative to the lower figure"
        yield 100 * evaluate.ratio(end, start), "is what remains, not the decline"
    elif isinstance(rule, Improvement):
        of, over = evaluate.quantity(rule.of, tables), evaluate.quantity(rule.over, tables)
        yield -evaluate.improvement(over, of), "is the difference relative to the higher figure"
        yield 100 * evaluate.ratio(of, over), "is the ratio in percent, not the improvement"
    elif isinstance(rule, Ratio):
        of, to = evaluate.quantity(rule.of, tables), evaluate.quantity(rule.to, tables)
        yield evaluate.ratio(of, to) - 1, 'is the number of "times more", not of "times as much"'
        yield evaluate.ratio(to, of), "is the ratio with the two figures exchanged"
    elif isinstance(rule, Difference):
        of, minus = evaluate.quantity(rule.of, tables), evaluate.quantity(rule.minus, tables)
        yield minus - of, "is the difference with the two figures exchanged"


def _sources(rule: Quantity) -> str:
    """Return a text with the places of a rule's numbers from the running text."""
    places = [stated.place for stated in _stated(rule)]
    return f" (from: {'; '.join(places)})" if places else ""


def _stated(rule: BaseModel) -> Iterator[Stated]:
    if isinstance(rule, Stated):
        yield rule
        return
    for name in type(rule).model_fields:
        parts = getattr(rule, name)
        for part in parts if isinstance(parts, tuple) else (parts,):
            if isinstance(part, BaseModel):
                yield from _stated(part)


def _transposed(number: Printed, shown: str) -> str:
    """Return a note if swapping two neighbouring digits of the claim gives the computed value."""
    claimed, given = (
        "".join(character for character in text if character.isdigit()) for text in (number.text, shown)
    )
    for at in range(len(claimed) - 1):
        swapped = claimed[:at] + claimed[at + 1] + claimed[at] + claimed[at + 2 :]
        if swapped == given and swapped != claimed:
            return "; two neighbouring digits are swapped"
    return ""
