"""From TOML text to a checked model, with every problem said in words and with its place.

Knows models in general, not what makes a plan or a suite sensible: see `validate.py` and `check_suite.py`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from serverdyno import wording
from serverdyno.errors import PlanError, UserError
from serverdyno.plan.locate import KeyPath, key_lines, line_of

M = TypeVar("M", bound=BaseModel)
MOST_BYTES = 1 << 20
MOST_KNOWN = 20
"""Names that a message lists although it has a better suggestion."""
DEEPEST = 32
"""Tables and arrays inside one another, and parts of a key; a plan has six."""
_TOO_DEEP = f"tables and arrays inside one another, more than {DEEPEST} deep"
# A key stands at the beginning of a line, or in a table that is written in braces.
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(
    rf"(?:^[ \t]*+\[{{0,2}}|[{{,])[ \t]*+{_PART}(?:\.[ \t]*+{_PART}){{{DEEPEST}}}", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a document. The path `("servers", 1, "cpus")` is said as `servers[1].cpus`."""

    path: KeyPath
    message: str


def read_text(path: Path) -> str:
    """Return the text of a document of bounded size. Raises UserError where there is none to read."""
    try:
        if not path.is_file():
            # What is no file at all is named by opening it; a pipe would be waited for.
            path.stat()
            raise UserError(f"can't read {path}: it is not a file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"can't read {str(path)!r}: {error}") from error
    if len(content) > MOST_BYTES:
        raise UserError(
            f"{path} has more than {MOST_BYTES >> 20} MiB, the most that a plan or suite may have"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text, as TOML must be") from error


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Return the document as TOML. Raises PlanError with the line of the first mistake: reading ends there.

    What is nested deeper than any plan is refused before it is parsed, since that takes time with the square of it.
    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise PlanError(source, [f"line {line}: a key of more than {DEEPEST} parts"])
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(source, [f"not valid TOML: {error}"]) from error
    except ValueError as error:  # Python reads no number of more than 4,300 digits
        raise PlanError(source, ["a number has more digits than can be read"]) from error
    except RecursionError as error:
        raise PlanError(source, [_TOO_DEEP]) from error
    if _is_deeper(document, DEEPEST):
        raise PlanError(source, [_TOO_DEEP])
    return document


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def check_model(model: type[M], data: object) -> tuple[M | None, list[Problem]]:
    """`data` as `model`, or None and everything that keeps it from being one."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, [
            Problem(found["loc"], explain(found, model)) for found in error.errors(include_url=False)
        ]


def explain(error: ErrorDetails, model: type[BaseModel]) -> str:
    """One finding of pydantic in words, with the value that was refused or the names that would be known."""
    if error["type"] == "extra_forbidden":
        return f"not known here{_suggestion(str(error['loc'][-1]), _fields_at(model, error['loc'][:-1]))}"
    if error["type"] == "missing":
        return "missing"
    return wording.refusal(error)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """`no suite "quik": did you mean ...? Known: ...`."""
    return f'no {kind} "{name}"{_suggestion(name, sorted(known))}'


def described(problems: Iterable[Problem], text: str) -> list[str]:
    """Problems for people, in the order of the text: `line 7: servers[0].cpus: ...`."""
    lines = key_lines(text)
    placed = sorted(
        ((line_of(lines, problem.path) or 0, problem) for problem in problems), key=lambda pair: pair[0]
    )
    return [(f"line {line}: " if line else "") + sentence(problem) for line, problem in placed]


def sentence(problem: Problem) -> str:
    """`servers[0].cpus: ...`."""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.path).lstrip(".")
    return f"{where}: {problem.message}" if where else problem.message


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    meant = f"; did you mean {' or '.join(close)}?" if close else "."
    return (
        f"{meant} Known: {', '.join(known)}" if known and not (close and len(known) > MOST_KNOWN) else meant
    )


def _fields_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The names that are known at `path` inside `model`. A model may have tables that are no fields: see `Suite`."""
    for part in path:
        tables: dict[str, type[BaseModel]] = getattr(model, "tables", dict)()
        if part in tables:
            model = tables[str(part)]
        elif isinstance(part, str) and part in model.model_fields:
            model = _model_inside(model.model_fields[part].annotation) or model
    tables = getattr(model, "tables", dict)()
    return [*(name for name, field in model.model_fields.items() if not field.exclude), *tables]


def _model_inside(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation such as `list[Model]` or `Model | None` is about."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := _model_inside(argument))), None)
