"""Files whose content can't be what was written: which one, and what is wrong with it, at which place.

A file that can't be read at all (a right that is missing, a disk that fails) is another matter: it may be whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from serverdyno.errors import DynoError

M = TypeVar("M", bound=BaseModel)


class DamagedError(DynoError):
    """The content of the file `path` is not what was written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is {problem}",
            hint="restore it from a copy, or let `dyno resume` set damaged records of runs aside and measure the "
            "mixes among them again",
        )
        self.path = path


def damaged(path: Path, reason: object) -> DamagedError:
    """`reason`: an error that reading the content ended with, or words."""
    return DamagedError(path, f"damaged: {_words(reason)}")


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises DamagedError where it is empty, and DynoError where it can't be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DynoError(f"{path} can't be read: {error.strerror}") from error
    if not content:
        raise damaged(path, "it is empty")
    return content


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises DamagedError, and DynoError where it can't be read."""
    content = read_bytes(path)
    try:
        value = json.loads(content)
    except ValueError as error:
        raise damaged(path, error) from error
    if not isinstance(value, dict):
        raise damaged(path, "it holds no JSON object")
    return value


def read_model(path: Path, model: type[M]) -> M:
    """The JSON object in a file, as a model. Raises as `read_object`."""
    try:
        return model.model_validate(read_object(path))
    except ValidationError as error:
        raise damaged(path, error) from error


def _words(reason: object) -> str:
    """With the place, as an editor counts: lines and columns, or bytes, from 1."""
    if isinstance(reason, json.JSONDecodeError):
        return f"line {reason.lineno}, column {reason.colno}: {reason.msg}"
    if isinstance(reason, UnicodeDecodeError):
        return f"byte {reason.start + 1} is no UTF-8"
    if isinstance(reason, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'the whole'}: {problem['msg']}"
            for problem in reason.errors()
        )
    return f"{reason}".rstrip(".")
