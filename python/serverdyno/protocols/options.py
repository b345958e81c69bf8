"""How the fields of a model are options of a command: their names and their words on a command line.

Not for: making a command of them (`cli/fields.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Option:
    """Names of a field's option that differ from the field's own. `listed`: its values are one text, with commas."""

    names: tuple[str, ...] = ()
    listed: bool = False


def option_of(name: str, field: FieldInfo) -> Option:
    """Return the option of a field: the one of its annotation, named after the field where that says nothing."""
    found = next((each for each in field.metadata if isinstance(each, Option)), Option())
    return found if found.names else Option((f"--{name.replace('_', '-')}",), found.listed)


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


def in_words(message: str, fields: Mapping[str, FieldInfo]) -> str:
    """Return a message about fields as one about their options."""
    for name, field in fields.items():
        if "_" in name:
            message = message.replace(name, main_name(name, field))
    return message
