"""Format figures and lists for sentences and tables."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Sequence

from pydantic_core import ErrorDetails

from serverdyno import units

NO_BREAK = "\u00a0"
ADVICE_ENDS = re.compile(
    r"(?<=[.;]) (?=If |Or |Otherwise|Try |A |With |Where |When |Some |Linux: |Location: )"
)
"""Positions in a hint at which another piece of advice begins: an alternative, or advice for another case."""
NOTHING = "–"  # noqa: RUF001  an en dash means "not measured" in a table


REFUSALS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a table",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_type": "must be a table",
    "string_type": "must be text in quotes",
}
"""The requirement that a refused value violates, by pydantic's type of error."""


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return `1 level` or `2 levels`. `nouns` is an irregular plural."""
    many = nouns or f"{noun}{'es' if noun.endswith('x') else 's'}"
    return f"{count:,} {noun if count == 1 else many}"


def refusal(error: ErrorDetails) -> str:
    """Return the requirement that a value does not meet, with the value: `must be at least 1, not 0`."""
    if error["type"] == "value_error":  # a validator of the model itself, whose message is complete
        return error["msg"].removeprefix("Value error, ")
    wanted = REFUSALS.get(error["type"])
    message = error["msg"].removeprefix("Input ") if wanted is None else wanted.format(**error.get("ctx", {}))
    return f"{message}, not {shown(error['input'])}"


def shown(value: object) -> str:
    """Return a value as written in a plan, shortened if it is long."""
    return f"{value}".lower() if isinstance(value, bool) else reprlib.repr(value)


def listing(names: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def numbers(values: Sequence[int], among: Sequence[int] = ()) -> str:
    """Return increasing whole numbers with runs as spans: `3 to 12 and 14`.

    If `among` has all values, a run is at least three successive ones of these: of 1, 8, 16 to 144.
    """
    spans: list[list[int]] = []
    for value in values:
        place = among.index(value) if among else value
        if spans and place == spans[-1][-1] + 1:
            spans[-1].append(place)
        else:
            spans.append([place])
    least = 3 if among else 2
    spans = [
        part for each in spans for part in ([each] if len(each) >= least else [[place] for place in each])
    ]
    shown = [[f"{among[place] if among else place:,}" for place in (each[0], each[-1])] for each in spans]
    return listing([low if low == high else f"{low} to {high}" for low, high in shown])


def span(low: float, high: float) -> str:
    """Return `8,100 to 8,146`, or one figure if both round to the same text."""
    texts = rate(low), rate(high)
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


def cpus(value: float | None) -> str:
    """Return busy CPUs to a hundredth, the precision of the kernel's ticks: `0.64`."""
    if value is None:
        return NOTHING
    return units.Written(f"{round(value, 2) + 0.0:.2f}".replace("-", "−"), value)  # noqa: RUF001  a minus sign


def cpu_set(numbers: Sequence[int]) -> str:
    """Return `CPU 1` or `CPUs 0 and 1`."""
    return f"{'CPU' if len(numbers) == 1 else 'CPUs'} {listing([f'{number}' for number in numbers])}"


def share(value: float | None) -> str:
    """Return a share in per cent: `43 %`, with one decimal below ten."""
    if value is None:
        return NOTHING
    percent = value * 100
    text = f"{percent:.0f}" if percent >= 9.95 else f"{percent:.1f}".removesuffix(".0")
    return units.Written(f"{text}{NO_BREAK}%", percent)


def share_span(low: float | None, high: float | None) -> str:
    """Return `72 % to 81 %`, or a dash if an end isn't known."""
    return NOTHING if low is None or high is None else f"{share(low)} to {share(high)}"


def index(value: float) -> str:
    """Return an index between 0 and 1 to three decimals: `0.125`, `0.999`, `1.000`."""
    return units.Written(f"{value:.3f}", value)


def change(percent: float | None) -> str:
    """Return a signed change in per cent: `+14 %`; one decimal below ten."""
    if percent is None:
        return NOTHING
    text = f"{abs(percent):,.0f}" if abs(percent) >= 9.95 else f"{abs(percent):.1f}"
    sign = "" if float(text.replace(",", "")) == 0 else "+" if percent > 0 else "−"  # noqa: RUF001  as typeset
    return units.Written(f"{sign}{text}{NO_BREAK}%", percent)


def change_span(low: float | None, high: float | None) -> str:
    """Return `+31 % to +78 %`."""
    return NOTHING if low is None or high is None else f"{change(low)} to {change(high)}"


def ratio(value: float) -> str:
    """Return a ratio to two digits, or as a whole number from ten on: `2.3`, `14`."""
    return units.Written(f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}", value)


def seconds_span(values: Iterable[float]) -> str:
    """Return `4.8 s`, or `4.8 s to 5.1 s` if they differ."""
    texts = [seconds(value) for value in sorted(values)]
    if not texts:
        return NOTHING
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def rate(value: float | None) -> str:
    """Return a rate or count with separators, or a dash."""
    return NOTHING if value is None else units.format_count(value)


def significant(value: float | None) -> str:
    """Return three significant digits without an exponent, for times: `0.0123`, `1.23`, `45.6`, `1,230`."""
    if value is None:
        return NOTHING
    if value == 0 or abs(value) >= 100:
        return places(value, 0)
    return places(
        value, next(digits for digits in range(1, 9) if abs(value) >= 10.0 ** (2 - digits) or digits == 8)
    )


def whole(count: int | None) -> str:
    """Return a whole number with separators: `1,234`."""
    return NOTHING if count is None else places(count, 0)


def places(value: float | None, digits: int) -> str:
    """Return a figure with `digits` decimals: `1,234.50`."""
    return NOTHING if value is None else units.Written(f"{value:,.{digits}f}", value)


def seconds(value: float) -> str:
    """Return a duration of a level: `300 s`, `4.8 s`."""
    return f"{value:,.3g} s" if value < 100 else f"{value:,.0f} s"


def hint(text: str) -> str:
    """Return `hint: ` and the text, with a line for each piece of advice."""
    first, *rest = re.split(ADVICE_ENDS, text)
    return "\n".join([f"hint: {first}", *(f"  {line}" for line in rest)])
