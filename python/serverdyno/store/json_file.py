"""Read an experiment's JSON files as untrusted input, with bounded size and depth and valid Unicode."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from serverdyno.store.damage import damaged
from serverdyno.store.folder import Folder
from serverdyno.units import MIB

M = TypeVar("M", bound=BaseModel)
MOST_BYTES = 16 * MIB
DEEPEST = 32
"""Greatest depth of nested objects and lists; our files have at most eight levels."""

LIMIT = 2**63


def read_json(folder: Folder, name: str) -> Any:
    """Return the value in a file. Raises DamagedError, and DynoError if it can't be read."""
    path = folder.path / name
    content = folder.read(name, MOST_BYTES)
    try:
        value = json.loads(content, parse_constant=_refuse, parse_int=_whole, parse_float=_finite)
    except RecursionError as error:
        raise damaged(path, _too_deep()) from error
    except ValueError as error:
        raise damaged(path, error) from error
    _check(path, value)
    return value


def read_object(folder: Folder, name: str) -> dict[str, Any]:
    """Return the object in a file. Raises the same errors as `read_json`."""
    value = read_json(folder, name)
    if not isinstance(value, dict):
        raise damaged(folder.path / name, "it does not contain a JSON object")
    return value


def read_model(folder: Folder, name: str, model: type[M]) -> M:
    """Return the object in a file as a model. Raises the same errors as `read_json`."""
    try:
        return model.model_validate(read_object(folder, name))
    except ValidationError as error:
        raise damaged(folder.path / name, error) from error


def as_bytes(value: Any) -> bytes:
    """Return a value as file content, with invalid Unicode replaced by question marks."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode(errors="replace")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a valid JSON number")


def _whole(digits: str) -> int:
    value = int(digits)
    if abs(value) >= LIMIT:
        raise ValueError(f"a number with {len(digits):,} digits is too large")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def _check(path: Path, value: Any) -> None:
    """Raise DamagedError if the value is nested too deeply or contains invalid text."""
    level = [value]
    for _ in range(DEEPEST):
        if not level:
            return
        if any(not _is_text(text) for item in level for text in _texts(item)):
            raise damaged(path, "it contains half of a character (a lone surrogate)")
        level = [inner for item in level for inner in _inside(item)]
    if level:
        raise damaged(path, _too_deep())


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_deep() -> str:
    return f"objects and lists are nested more than {DEEPEST} deep"
