"""Make untrusted text safe to show: names, notes, a server's messages, lines of a load file.

Views apply their own escapes (HTML, Markdown) to the result of `text`. This module does not decide whether an input
is valid.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MOST_LINE = 4_000
"""Maximum number of characters of a line.

No name or setting needs more, and a line of megabytes would hide everything else.
"""
MOST_TEXT = 2**20
"""Maximum number of characters of a text of several lines, such as a configuration file."""
MOST_QUOTED = 500
"""Maximum number of characters of a quotation in a sentence."""

# Control characters except tab and line feed, which terminals execute and XML forbids; lone surrogates, which can't be
# encoded; line and paragraph separators; marks that change the reading direction; Unicode noncharacters.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufeff\ufffe\uffff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
    + "]"
)
NUMBERS = {int, float, bool, bytes, NoneType}
"""Types that contain no text, with `NoneType` for an unknown number."""
MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~&$])")

Anything = TypeVar("Anything")


def text(value: str) -> str:
    """Return the text without control characters, with a bounded length and bounded lines."""
    if value.isprintable() and len(value) <= MOST_LINE:
        return value
    lines = value.replace("\r\n", "\n").split("\n")
    bounded = shortened("\n".join(shortened(each, MOST_LINE) for each in lines), MOST_TEXT)
    return UNSAFE.sub(REPLACEMENT, bounded)


def line(value: str, most: int = MOST_LINE) -> str:
    """Return the text on one line of at most `most` characters, for a terminal or within a sentence."""
    cut = value[: 4 * most]  # bounds the work for a text of megabytes
    words = " ".join(text(cut).split())
    return words if len(words) <= most and cut == value else f"{words[:most]}… ({len(value):,} characters)"


def quoted(value: str) -> str:
    """Return the beginning of a text, for use within a sentence."""
    return line(value, MOST_QUOTED)


def markdown(value: str) -> str:
    """Return the text on one line, escaped so that its Markdown and HTML are shown literally; not shortened."""
    return MARKDOWN.sub(r"\\\1", re.sub(r"\s*[\n\t]\s*", " ", UNSAFE.sub(REPLACEMENT, value)))


def shortened(value: str, most: int) -> str:
    """Return at most `most` characters, followed by the full length if the text is longer."""
    return value if len(value) <= most else f"{value[:most]}… ({len(value):,} characters)"


def everything(value: Anything) -> Anything:
    """Return data with every text in it cleaned, keys included: dataclasses, models, mappings, lists and tuples."""
    return _cleaned(value)  # type: ignore[no-any-return]


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        # A member of a string enumeration is our own text, which needs no cleaning.
        return text(value) if type(value) is str else value
    if isinstance(value, BaseModel):
        changed = _changed(value, tuple(type(value).model_fields))
        return value.model_copy(update=changed) if changed else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = _changed(value, _fields_with_text(type(value)))
        return dataclasses.replace(value, **changed) if changed else value
    if isinstance(value, Mapping):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_cleaned(item) for item in value]) if _has_text(value) else value
    return value


def _changed(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields that cleaning changed, with their new values."""
    found = {name: (getattr(value, name), _cleaned(getattr(value, name))) for name in names}
    return {name: new for name, (old, new) in found.items() if new is not old and new != old}


def _has_text(values: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether the values can contain text. Rows of numbers are skipped, because a record has many of them."""
    first = values[0] if values else None
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        return bool(_fields_with_text(type(first)))
    return bool(values)


@functools.cache
def _fields_with_text(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields that can contain text, directly or nested."""
    try:
        types = get_type_hints(kind)
    except NameError:  # a type that is only imported for type checkers
        types = {}
    names = [field.name for field in dataclasses.fields(kind)]
    return tuple(name for name in names if not _is_number(types.get(name, str)))


def _is_number(kind: Any) -> bool:
    return kind in NUMBERS or (isinstance(kind, UnionType) and set(get_args(kind)) <= NUMBERS)
