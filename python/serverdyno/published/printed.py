"""A value as it is printed, and which computed values it admits.

A printed number stands for every value that rounds to it: `46` admits 45.5 to 46.5, `98.55` admits 98.545 to 98.555.
One unit of its last printed digit is its *step*; zeros at the end count as printed digits (`60,000` means 60,000).
Number words are numbers; `twice`, `double` and `half` are taken as 2.0, 2.0 and 0.5, so their step is 0.1.

Words before a number widen or move the range of admitted values. These tolerances are Serverdyno's own: texts don't
define the words.

| word                                              | admits                                                     |
|---------------------------------------------------|------------------------------------------------------------|
| (none), up to, as much as, as many as             | half a step on either side                                 |
| about, approximately, roughly, around, some       | half a step and 5 percent of the number on either side     |
| almost, nearly, just under                        | from 90 percent of the number up to it                     |
| over, more than, above                            | greater values                                             |
| at least                                          | the number and greater values                              |
| under, less than, below                           | smaller values                                             |
| at most, no more than                             | the number and smaller values                              |
| `8 to 12`, `between 8 and 12`                     | the first less half a step to the last and half a step     |

After the number: units of time are converted to the claim's unit (`1.5 minutes`, `16 min 26.415 s`); `percent`, `%`,
`times` and `x` change nothing; any other word is refused, so that no word is overlooked.

A statement has a word of order instead: `higher`, `lower`, `all`, `in every case` and the like require that every
comparison holds; `for the most part` and `most` require more than half of them; `the same` requires values that agree
within half a percent, `approximately the same` and `similar` within 2 percent of the greater.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

ABOUT_SHARE = 0.05
ALMOST_SHARE = 0.9
SAME_SHARE = 0.005
NEARLY_SAME_SHARE = 0.02
WORD_STEP = 0.1
"""Step of the words twice, double and half."""
TIE = 1e-6
"""Tolerance in steps. A tie between two roundings is admitted on both sides."""
BINARY = 1e-13
"""Relative tolerance for the rounding errors of floating-point numbers."""


class Hedge(StrEnum):
    """The effect of the words before a number."""

    NONE = ""
    ABOUT = "about"
    ALMOST = "almost"
    OVER = "over"
    AT_LEAST = "at least"
    UNDER = "under"
    AT_MOST = "at most"
    RANGE = "range"


_HEDGES = {
    "up to": Hedge.NONE,
    "as much as": Hedge.NONE,
    "as many as": Hedge.NONE,
    "about": Hedge.ABOUT,
    "approximately": Hedge.ABOUT,
    "roughly": Hedge.ABOUT,
    "around": Hedge.ABOUT,
    "some": Hedge.ABOUT,
    "almost": Hedge.ALMOST,
    "nearly": Hedge.ALMOST,
    "just under": Hedge.ALMOST,
    "over": Hedge.OVER,
    "more than": Hedge.OVER,
    "above": Hedge.OVER,
    "at least": Hedge.AT_LEAST,
    "under": Hedge.UNDER,
    "less than": Hedge.UNDER,
    "below": Hedge.UNDER,
    "at most": Hedge.AT_MOST,
    "no more than": Hedge.AT_MOST,
}
_COUNTED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_PLACED = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_WORDS = {
    word: float(value)
    for start, words in ((0, _COUNTED), (1, _PLACED))
    for value, word in enumerate(words, start)
}
_MULTIPLES = {"twice": 2.0, "double": 2.0, "half": 0.5}
_SECONDS = {"s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}
_SILENT = {"", "percent", "%", "times", "x"}
_NUMBER = re.compile(r"^[+-]?\d[\d,]*(?:\.\d+)?")
ALL_WORDS = {"higher", "lower", "greater", "less", "all", "none", "in every case", "best", "worst"} | {
    "rising",
    "falling",
    "longer",
    "shorter",
    "faster",
    "slower",
}
MOST_WORDS = {"for the most part", "most"}
SAME_WORDS = {"the same": SAME_SHARE, "identical": SAME_SHARE}
NEARLY_SAME_WORDS = {"approximately the same": NEARLY_SAME_SHARE, "similar": NEARLY_SAME_SHARE}


@dataclass(frozen=True, slots=True)
class Printed:
    """A number as printed, in the claim's unit. `high` is the upper end of a range, otherwise the number itself."""

    text: str
    hedge: Hedge
    value: float
    high: float
    step: float

    @property
    def lowest(self) -> float:
        """Return the smallest admitted value."""
        return {
            Hedge.ABOUT: self.value - self._about,
            Hedge.ALMOST: ALMOST_SHARE * self.value,
            Hedge.OVER: self.value,
            Hedge.AT_LEAST: self.value,
            Hedge.UNDER: -math.inf,
            Hedge.AT_MOST: -math.inf,
        }.get(self.hedge, self.value - self.step / 2)

    @property
    def highest(self) -> float:
        """Return the largest admitted value."""
        return {
            Hedge.ABOUT: self.value + self._about,
            Hedge.ALMOST: self.value,
            Hedge.OVER: math.inf,
            Hedge.AT_LEAST: math.inf,
            Hedge.UNDER: self.value,
            Hedge.AT_MOST: self.value,
        }.get(self.hedge, self.high + self.step / 2)

    @property
    def _about(self) -> float:
        return self.step / 2 + ABOUT_SHARE * abs(self.value)

    @property
    def _slack(self) -> float:
        return TIE * self.step + BINARY * abs(self.value)

    def admits(self, computed: float) -> bool:
        """Return whether the computed value may be printed this way."""
        slack = self._slack
        if self.hedge is Hedge.OVER:
            return computed > self.value + slack
        if self.hedge is Hedge.UNDER:
            return computed < self.value - slack
        return self.lowest - slack <= computed <= self.highest + slack

    def rounds_to(self, computed: float) -> bool:
        """Return whether the computed value rounds to the number, ignoring the words before it."""
        slack = self._slack
        return self.value - self.step / 2 - slack <= computed <= self.high + self.step / 2 + slack

    def within_a_step(self, computed: float) -> bool:
        """Return whether cutting off or rounding up, instead of rounding, could give the number."""
        return self.hedge is not Hedge.RANGE and abs(computed - self.value) < self.step - self._slack

    def described(self) -> str:
        """Return the admitted values in words."""
        digits = max(0, 1 - math.floor(math.log10(self.step))) if self.step < 10 else 0
        low, high = (f"{value:,.{digits}f}" for value in (self.lowest, self.highest))
        if math.isinf(self.highest):
            return f"{low} and more" if self.hedge is Hedge.AT_LEAST else f"more than {low}"
        if math.isinf(self.lowest):
            return f"{high} and less" if self.hedge is Hedge.AT_MOST else f"less than {high}"
        return f"{low} to {high}"


def read(text: str, unit: str) -> Printed | None:
    """Parse a printed number; return None if the text has unknown words."""
    hedge, rest = _hedge(" ".join(text.lower().split()))
    ends = re.match(r"^(?:between )?(\S+) (?:to|and) (\S+)((?: \S+)?)$", rest)
    if ends and hedge is Hedge.NONE:
        first, last = (_amount(f"{end}{ends[3]}", unit) for end in (ends[1], ends[2]))
        if first and last:
            return Printed(text, Hedge.RANGE, first[0], last[0], max(first[1], last[1]))
        return None
    amount = _amount(rest, unit)
    return Printed(text, hedge, amount[0], amount[0], amount[1]) if amount else None


def _hedge(text: str) -> tuple[Hedge, str]:
    for words, hedge in _HEDGES.items():
        if text.startswith(f"{words} "):
            return hedge, text.removeprefix(f"{words} ")
    return Hedge.NONE, text


def _amount(text: str, unit: str) -> tuple[float, float] | None:
    """Return value and step of one number, or of several numbers with units of time (`16 min 26.415 s`)."""
    total, step, rest = 0.0, 0.0, text
    while rest:
        found = _number(rest)
        if found is None:
            return None
        value, step, after = found
        word = re.match(r"^[a-z%]*", after.lstrip())
        factor = _factor(word[0] if word else "", unit)
        if factor is None:
            return None
        rest = after.lstrip()[len(word[0]) if word else 0 :].lstrip()
        total, step = total + factor * value, factor * step
        if rest and (word is None or not _SECONDS.get(_singular(word[0]))):
            return None  # two numbers without units of time
    return (total, step) if step else None


def _number(text: str) -> tuple[float, float, str] | None:
    """Return the number at the start of a text, its step, and the rest."""
    if match := _NUMBER.match(text):
        digits = match[0].replace(",", "")
        return float(digits), 10.0 ** -len(digits.partition(".")[2]), text[match.end() :]
    word, _, after = text.partition(" ")
    if word in _WORDS:
        return _WORDS[word], 1.0, after
    if word in _MULTIPLES:
        return _MULTIPLES[word], WORD_STEP, after
    return None


def _factor(word: str, unit: str) -> float | None:
    """Return the factor that converts a word's unit to `unit`; None for an unknown word."""
    if word in _SILENT or word == unit.lower():
        return 1.0
    own, wanted = _SECONDS.get(_singular(word)), _SECONDS.get(_singular(unit))
    return own / wanted if own and wanted else None


def _singular(word: str) -> str:
    return word if word == "s" else word.removesuffix("s")
