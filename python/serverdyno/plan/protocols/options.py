"""How the fields of a model are options of a command: their names, their words on a command line, and reading them.

Not for: making a command of them (`cli/fields.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from serverdyno import wording

MOST_IN_RANGE = 4096
_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(s|m|)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Option:
    """Names of a field's option that differ from the field's own.

    `listed`: several values are one text, with commas. `ranges`: a value LOW-HIGH stands for each number, or for LOW,
    twice that, and so on up to HIGH. `is_time`: a number of seconds is written as 10s or 2m.
    """

    names: tuple[str, ...] = ()
    listed: bool = False
    ranges: Literal["each", "doubling"] | None = None
    is_time: bool = False


def option_of(name: str, field: FieldInfo) -> Option:
    """Return the option of a field: the one of its annotation, named after the field where that says nothing."""
    found = next((each for each in field.metadata if isinstance(each, Option)), Option())
    return found if found.names else replace(found, names=(f"--{name.replace('_', '-')}",))


def main_name(name: str, field: FieldInfo) -> str:
    """Return the first name of a field's option."""
    return option_of(name, field).names[0]


def words(model: BaseModel) -> list[str]:
    """Return the words of a command line that say all of a model."""
    fields = type(model).model_fields
    return [word for name, field in fields.items() for word in words_of(name, field, getattr(model, name))]


def words_of(name: str, field: FieldInfo, value: Any) -> Iterator[str]:
    """Yield the words of a command line that give a field a value; none for None."""
    option = option_of(name, field)
    first = option.names[0]
    match value:
        case None:
            return
        case bool():
            if value != field.default:
                yield first if value else first.replace("--", "--no-", 1)
        case list() if option.listed:
            yield from (first, ",".join(map(str, value)))
        case list():
            for each in value:
                yield from (first, str(each))
        case _:
            yield from (first, str(value))


def type_of(name: str, field: FieldInfo) -> TypeAdapter[Any]:
    """Return what reads and describes a field by itself."""
    kind: Any = Annotated[field.annotation, option_of(name, field), *field.metadata]
    return TypeAdapter(kind)


def read_all(texts: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> tuple[dict[str, Any], list[str]]:
    """Return the values that the texts of options give fields, as far as they can be read, and what is wrong."""
    values, problems = {}, []
    for name, field in fields.items():
        if name in texts:
            value, wrong = read(texts[name], name, field)
            if wrong is None:
                values[name] = value
            else:
                problems.append(f"{main_name(name, field)}: {wrong}")
    return values, problems


def read(text: Any, name: str, field: FieldInfo) -> tuple[Any, str | None]:
    """Return the value that an option's text gives a field, and what is wrong with the text."""
    option = option_of(name, field)
    if option.is_time:
        match = _TIME.fullmatch(text.strip())
        if match is None:
            return None, f"{text!r} is not a length like 10s or 2m"
        text = float(match[1]) * (60 if match[2] == "m" else 1)
    if option.listed:
        parts = (part.strip() for part in text.split(","))
        text = [value for part in parts for value in _in_range(part, option.ranges)]
    try:
        return type_of(name, field).validate_python(text, strict=False), None
    except ValidationError as error:
        return None, "; ".join(map(_refusal, error.errors(include_url=False)))


def _in_range(part: str, ranges: str | None) -> list[str]:
    """Return the numbers that a part of a list stands for; a part that is no range stands for itself."""
    found = _RANGE.fullmatch(part) if ranges else None
    low, high = map(int, found.groups()) if found else (0, 0)
    if not 0 < low < high and not (ranges == "each" and low < high):
        return [part]
    if ranges == "each":
        return [f"{value}" for value in range(low, min(high, low + MOST_IN_RANGE) + 1)]
    doubled = [low << place for place in range(high.bit_length()) if low << place < high]
    return [f"{value}" for value in [*doubled, high]]


def _refusal(found: ErrorDetails) -> str:
    """Return what a text must say; a number is quoted as in a plan."""
    text = found["input"]
    if isinstance(text, str) and text.isdecimal() and found["type"].startswith(("greater", "less")):
        found["input"] = int(text)
    return wording.refusal(found)


def in_words(message: str, fields: Mapping[str, FieldInfo]) -> str:
    """Return a message about fields as one about their options."""
    for name, field in fields.items():
        if "_" in name:
            message = message.replace(name, main_name(name, field))
    return message
