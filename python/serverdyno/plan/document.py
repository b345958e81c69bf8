"""Turn TOML text into a checked model, and describe every problem with its key and line.

This works for any model. `validate.py` and `check_suite.py` check the meaning of plans and suites.
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
from serverdyno.errors import NO_PIPE, PlanError, UserError
from serverdyno.plan.locate import KeyPath, key_lines, line_of
from serverdyno.plan.protocols.model import SettingsModel

M = TypeVar("M", bound=BaseModel)
MOST_BYTES = 1 << 20
_NEARLY_EQUAL = 0.85
"""Least similarity of a misspelt key, such as `server` for `servers`, that is not looked for in other tables."""
MOST_KNOWN = 20
"""Maximum number of known names that a message lists if it also has a suggestion."""
DEEPEST = 32
"""Maximum nesting depth of tables and arrays, and maximum number of parts in a key. A plan needs six."""
_TOO_DEEP = f"tables and arrays are nested more than {DEEPEST} deep"
# A key stands at the start of a line or in an inline table.
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(
    rf"(?:^[ \t]*+\[{{0,2}}|[{{,])[ \t]*+{_PART}(?:\.[ \t]*+{_PART}){{{DEEPEST}}}", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a document. The path `("servers", 1, "cpus")` is written `servers[1].cpus`."""

    path: KeyPath
    message: str


def read_text(path: Path) -> str:
    """Return the text of a document of at most MOST_BYTES. Raises UserError if it can't be read."""
    try:
        if not path.is_file():
            # If the path can't be read, `stat` raises the error to report. Reading a pipe would block.
            path.stat()
            raise UserError(f"can't read {path}: it is not a file", hint=None if path.is_dir() else NO_PIPE)
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"can't read {str(path)!r}: {error}") from error
    if len(content) > MOST_BYTES:
        raise UserError(f"{path} has more than {MOST_BYTES >> 20} MiB, the maximum for a plan or suite")
    try:
        return content.decode("utf-8-sig")  # Windows editors write a byte order mark
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text, as TOML must be") from error


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Return the parsed TOML document. Raises PlanError with the line of the first mistake, where parsing stops.

    Documents nested deeper than any plan are refused before parsing, because parsing takes quadratic time on them.
    """
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise PlanError(source, [f"line {line}: a key has more than {DEEPEST} parts"])
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        cause = _cause(text, f"{error}")
        raise PlanError(source, [f"not valid TOML: {error}{f'; {cause}' if cause else ''}"]) from error
    except ValueError as error:  # Python refuses to parse numbers of more than 4,300 digits
        raise PlanError(source, ["a number has more digits than can be read"]) from error
    except RecursionError as error:
        raise PlanError(source, [_TOO_DEEP]) from error
    if _is_deeper(document, DEEPEST):
        raise PlanError(source, [_TOO_DEEP])
    return document


_TOML = 'plans, suites and sessions are TOML (`name = "..."`): docs/plan.md, docs/sessions.md'
_AT_LINE = re.compile(r"\(at line (\d+),")
_YAML = re.compile(r"\s*(?:---|[A-Za-z_][\w-]*:(?:\s|$)|- )")
_KEY = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*=")
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (r".*[\u201c\u201d\u201e\u2018\u2019]", "", "the quotation marks are typographic: write \" or '"),
    (r".*[\u00a0\u200b\ufeff]", "", "the line has an invisible character, as from a web page: type it again"),
    (
        r".*=\s*[\[{]?\s*\"[^\"]*\\",
        "hex value|Unescaped",
        "a backslash begins an escape in \"...\": write '...'",
    ),
    (r"\s*(//|;|--|rem\b)", "", "a comment begins with #"),
    (
        r".*=\s*(True|False|yes|no|on|off|None|null|nil)\b",
        "Invalid value",
        'write true or false, or text in "..."',
    ),
    (r".*[\w\"'\]}]\s*[,;]\s*(#.*)?$", "Expected newline", "a line ends without a comma or semicolon"),
    (
        r".*=\s*\.?[\w/~$.-]",
        "Invalid value|Expected newline",
        'text must be in quotation marks: {name} = "..."',
    ),
    (r".*[\"']", "Illegal character|Unterminated", "a quotation mark may be missing at the end of this line"),
    (
        r"\s*\[",
        "Cannot declare|mutate immutable",
        "a table that may occur several times begins with [[NAME]]",
    ),
    (
        r"\s*\[",
        "overwrite a value",
        "this table's name is already used: a table that may occur several times begins with [[NAME]]",
    ),
)
"""Mistakes in TOML: a pattern for the line, a pattern for the parser's message, and the cause."""


def _cause(text: str, message: str) -> str | None:
    """Return the probable cause of a parser's error, judged by the line that the message names; None if unknown."""
    if text.lstrip().startswith(("{", "<")):
        return f"this file looks like JSON or XML, but {_TOML}"
    found = _AT_LINE.search(message)
    lines = text.split("\n")
    line = lines[int(found[1]) - 1] if found else ""
    if _YAML.match(line):
        return f"this looks like YAML (`name: ...`), but {_TOML}"
    if re.match(r"\s*(?:import|export|const|let|var|function|from|def|local|package)\b[^=]*$", line):
        return f"this looks like a program, but {_TOML}"
    key = _KEY.match(line)
    if "overwrite a value" in message and key:
        return f"{key[1]} appears a second time"
    for looks, said, cause in _CAUSES:
        if re.match(looks, line) and re.search(said, message):
            return cause.format(name=key[1] if key else "NAME")
    return None


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
    """Return `data` as the model and no problems, or None and every problem."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        raised = error.errors(include_url=False)
        return None, [
            Problem(found["loc"], explain(found, model)) for found in raised if not _follows(found, raised)
        ]


def _follows(error: ErrorDetails, raised: Sequence[ErrorDetails]) -> bool:
    """Return whether a list is only too short because pydantic leaves out its invalid items."""
    place = error["loc"]
    return error["type"] == "too_short" and any(
        len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in raised
    )


def explain(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Describe a pydantic error, with the refused value or the known names."""
    if error["type"] == "extra_forbidden":
        return f"unknown key{_unknown_key(error['loc'], model)}"
    if error["type"] == "missing":
        return "missing"
    if error["type"] == "union_tag_invalid":
        asked = {part: f"{found}".replace("'", "") for part, found in error["ctx"].items()}
        known = asked["expected_tags"].split(", ")
        return f"{asked['discriminator']}: {unknown_name('action', asked['tag'], known)}"
    if error["type"] == "union_tag_not_found":
        return f"{error['ctx']['discriminator']} is missing".replace("'", "")
    return wording.refusal(error) + _other_kind(error)


def _unknown_key(path: KeyPath, model: type[BaseModel]) -> str:
    """Return what to write instead of an unknown key, or where the key belongs."""
    key, known = f"{path[-1]}", _fields_at(model, path[:-1])
    if not difflib.get_close_matches(key, known, n=1, cutoff=_NEARLY_EQUAL):
        if (home := _home(key, model)) is not None:
            return f"; it belongs in {home}"
        if path[0] == "servers" and len(path) == len(("servers", 0, key)):
            return f". A setting of the server belongs in settings = {{ {key} = ... }}. Known: {', '.join(known)}"
    return _suggestion(key, known)


def _home(key: str, model: type[BaseModel]) -> str | None:
    """Return the table of plans or suites to which a key belongs, in words; None if there is none."""
    from serverdyno.plan.model import Bounds, GeneratorPlan, Plan, ServerPlan, Suite  # noqa: PLC0415

    if not issubclass(model, Plan | Suite | SettingsModel):
        return None
    tables: dict[str, type[BaseModel]] = {
        "the plan, before [[servers]]": Plan,
        "[[servers]] of the plan": ServerPlan,
        "[servers.bounds] of the plan": Bounds,
        "[generator] of the plan": GeneratorPlan,
        "the suite": Suite,
        **{f"[{name}] of the suite": table for name, table in Suite.tables().items()},
    }
    homes = (home for home, table in tables.items() if key in _fields_at(table, ()))
    return next(homes, None)


def _other_kind(error: ErrorDetails) -> str:
    """Return how to write a value that has the wrong type; empty if the intention is unclear."""
    name, value = error["loc"][-1] if error["loc"] else "", error["input"]
    match error["type"], value:
        case "list_type", dict():
            return f": write [[{name}]], because there may be several"
        case "list_type", _:
            parts = value.split(",") if isinstance(value, str) else [value]
            items = ", ".join(_scalar(part) or wording.shown(part) for part in parts)
            where = ", and a single level belongs in settings" if "factors" in error["loc"] else ""
            return f": write {name} = [{items}]{where}"
        case "int_type" | "float_type" | "int_parsing" | "float_parsing" | "bool_type", _ if _scalar(value):
            return f": write {name} = {_scalar(value)}"
        case "model_type" | "dict_type", [dict(), *_]:
            return f": write [{name}], because there is only one"
        case "string_type" | "int_type" | "float_type" | "bool_type" | "literal_error", [only]:
            return f": write {name} = {wording.shown(only)}"
    return ""


def _scalar(value: object) -> str | None:
    """Return a text in TOML's notation if it is a number or a Boolean; None otherwise."""
    text = value.strip() if isinstance(value, str) else ""
    return text.lower() if re.fullmatch(r"-?\d+(?:\.\d+)?|true|false", text, re.IGNORECASE) else None


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return a message such as `no suite "quik": did you mean ...? Known: ...`."""
    return f'no {kind} "{name}"{_suggestion(name, sorted(known))}'


def described(problems: Iterable[Problem], text: str) -> list[str]:
    """Return the problems as lines in the order of the text: `line 7: servers[0].cpus: ...`."""
    lines = key_lines(text)
    placed = sorted(
        ((line_of(lines, problem.path) or 0, problem) for problem in problems), key=lambda pair: pair[0]
    )
    return [(f"line {line}: " if line else "") + sentence(problem) for line, problem in placed]


def sentence(problem: Problem) -> str:
    """Return a problem as text: `servers[0].cpus: ...`."""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.path).lstrip(".")
    return f"{where}: {problem.message}" if where else problem.message


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    meant = f"; did you mean {' or '.join(close)}?" if close else "."
    return (
        f"{meant} Known: {', '.join(known)}" if known and not (close and len(known) > MOST_KNOWN) else meant
    )


def _fields_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the names known at `path` inside `model`, including tables that are not fields (see `Suite`)."""
    for part in path:
        tables: dict[str, type[BaseModel]] = getattr(model, "tables", dict)()
        if part in tables:
            model = tables[str(part)]
        elif isinstance(part, str) and part in model.model_fields:
            model = _model_inside(model.model_fields[part].annotation) or model
    tables = getattr(model, "tables", dict)()
    return [*(name for name, field in model.model_fields.items() if not field.exclude), *tables]


def _model_inside(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as `list[Model]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := _model_inside(argument))), None)
