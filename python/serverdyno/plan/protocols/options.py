"""Turn the fields of a model into options of a command, and parse their values.

`cli/fields.py` builds a command from the options.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from serverdyno import wording

MOST_IN_RANGE = 4096
_RANGE = re.compile(r"([\w./]+)-([\w./]+)", re.ASCII)
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(h|ms|m|s|)", re.ASCII)
_TIMES = re.compile(rf"(?:{_TIME.pattern.removesuffix('|)')}))*{_TIME.pattern}", re.ASCII)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0, "ms": 1e-3}
_COUNT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(k|M|e\d|)(?:/s)?", re.ASCII | re.IGNORECASE)
_CLASS = re.compile("([1-5])xx", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Option:
    """How a field appears as an option, if that differs from the field itself.

    `listed`: a text with commas gives several values. `ranges`: a value LOW-HIGH stands for each number from LOW to
    HIGH, or for LOW, twice LOW, and so on. `is_time`: a number of seconds is written as 500ms, 10s or 1m30s.
    """

    names: tuple[str, ...] = ()
    listed: bool = False
    ranges: Literal["each", "doubling"] | None = None
    is_time: bool = False


def option_of(name: str, field: FieldInfo) -> Option:
    """Return the option in a field's annotation. If the option has no name, derive it from the field's name."""
    found = next((each for each in field.metadata if isinstance(each, Option)), Option())
    return found if found.names else replace(found, names=(f"--{name.replace('_', '-')}",))


def main_name(name: str, field: FieldInfo) -> str:
    return option_of(name, field).names[0]


def words(model: BaseModel) -> list[str]:
    """Return the command-line arguments that set all fields of a model."""
    fields = type(model).model_fields
    return [word for name, field in fields.items() for word in words_of(name, field, getattr(model, name))]


def words_of(name: str, field: FieldInfo, value: Any) -> Iterator[str]:
    """Yield the command-line arguments that set a field to a value; none if the value is None."""
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
    """Return the adapter that validates and describes one field."""
    kind: Any = Annotated[field.annotation, option_of(name, field), *field.metadata]
    return TypeAdapter(kind)


def read_all(texts: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the options that could be parsed, and the problems of the others."""
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
    """Return the value in an option's text and None, or None and the problem with the text.

    A size in bytes has no unit, because 1k may mean 1000 or 1024 bytes.
    """
    option = option_of(name, field)
    if option.is_time:
        if _TIMES.fullmatch(text.strip()) is None:
            return None, f"{text!r} is not a length like 10s, 500ms or 1m30s"
        text = sum(float(number) * _SECONDS[unit] for number, unit in _TIME.findall(text.strip()))
    if option.listed:
        parts = (part.strip() for part in text.split(","))
        text = [value for part in parts for value in _in_range(part, option.ranges)]
    try:
        return type_of(name, field).validate_python(text, strict=False), None
    except ValidationError as error:
        found = error.errors(include_url=False)
    counted = text if "bytes" in name else [*map(_count, text)] if isinstance(text, list) else _count(text)
    if counted != text and all(each["type"] in ("int_parsing", "float_parsing") for each in found):
        with contextlib.suppress(ValidationError):
            return type_of(name, field).validate_python(counted, strict=False), None
    return None, "; ".join(map(_refusal, found))


def _count(text: Any) -> Any:
    """Return a text such as 1k, 1e6 or 100/s, which other tools accept, as a plain number; other values unchanged."""
    found = _COUNT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return text
    unit = found[2].lower()
    factor = 10 ** int(unit[1:]) if unit.startswith("e") else {"k": 1000, "m": 1_000_000}.get(unit, 1)
    return f"{round(float(found[1]) * factor, 6):.15g}"


def _in_range(part: str, ranges: str | None) -> list[str]:
    """Return the numbers in a part of a list, or the part itself if it is not a range."""
    part = _CLASS.sub(r"\g<1>00-\g<1>99", part) if ranges == "each" else part
    found = _RANGE.fullmatch(part) if ranges else None
    ends = [*map(_count, found.groups())] if found else []
    low, high = map(int, ends) if all(re.fullmatch(r"\d{1,9}", end) for end in ends) and ends else (0, 0)
    if not 0 < low < high and not (ranges == "each" and low < high):
        return [part]
    if ranges == "each":
        return [f"{value}" for value in range(low, min(high, low + MOST_IN_RANGE) + 1)]
    doubled = [low << place for place in range(high.bit_length()) if low << place < high]
    return [f"{value}" for value in [*doubled, high]]


def _refusal(found: ErrorDetails) -> str:
    """Describe a pydantic error. A number is quoted as a number, as for a plan."""
    text = found["input"]
    if isinstance(text, str) and text.isdecimal() and found["type"].startswith(("greater", "less")):
        found["input"] = int(text)
    return wording.refusal(found)


def in_words(message: str, fields: Mapping[str, FieldInfo]) -> str:
    """Return a message with the names of fields replaced by the names of their options."""
    for name, field in fields.items():
        if "_" in name:
            message = message.replace(name, main_name(name, field))
    return message
