"""The fields of suites and plans that are options of a command, and the documents that the options fill.

An option is a field of a suite or a plan with `Option` in its annotation. The field defines its name, type, bounds and
help text. `quick.py` and `quick_objects.py` build plans from them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from annotated_types import Ge
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from serverdyno.plan.check_suite import MIN_WINDOW_S, rate_problem
from serverdyno.plan.document import Problem
from serverdyno.plan.locate import KeyPath
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.protocols.options import Option, main_name, read_all

Places = tuple[tuple[type[BaseModel], type[BaseModel], KeyPath], ...]
"""Models whose fields may be options. Each is listed after its document, with its path in the document."""


RAMP_SHARE = 0.1  # share of the length, for each of the two ramps
SEARCHED_RATES = [100, 200_000]
"""Range of the search with --objective but without --rate, in operations/s."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A field that an option sets, with its document and path."""

    document: type[BaseModel]
    path: KeyPath
    field: FieldInfo


def settings_of(places: Places) -> dict[str, Setting]:
    """Return the fields of the models that are options, by option name."""
    return {
        main_name(key, field).lstrip("-").replace("-", "_"): Setting(document, (*place, key), field)
        for document, model, place in places
        for key, field in model.model_fields.items()
        if any(isinstance(rule, Option) for rule in field.metadata)
    }


def names_of(settings: Mapping[str, Setting]) -> dict[KeyPath, str]:
    """Return the spelling of each option, by the path that it sets."""
    return {setting.path: f"--{name.replace('_', '-')}" for name, setting in settings.items()}


def shown_fields(settings: Mapping[str, Setting], defaults: Mapping[str, str]) -> dict[str, FieldInfo]:
    """Return the fields by option name, with the command's defaults and the minimum length of a level."""
    found = {name: copy(setting.field) for name, setting in settings.items()}
    for name, shown in defaults.items():
        found[name].default = shown
    found["length"].metadata = [*settings["length"].field.metadata, Ge(MIN_WINDOW_S)]
    return found


def filled(
    document: dict[str, Any],
    kind: type[BaseModel],
    values: Mapping[str, Any],
    settings: Mapping[str, Setting],
) -> dict[str, Any]:
    """Return a document with the values of its options filled in."""
    for name, setting in settings.items():
        if setting.document is kind and name in values:
            *place, key = setting.path
            table: Any = document
            for part in place:
                table = table[part] if isinstance(part, int) else table.setdefault(part, {})
            table[key] = values[name]
    return document


def by_option(
    problems: Iterable[Problem], options: Mapping[KeyPath, str]
) -> Iterator[tuple[str, KeyPath, str]]:
    """Yield the option that caused each problem, the rest of the problem's path, and its message."""
    for problem in problems:
        depth = next(
            (depth for depth in range(len(problem.path), 0, -1) if problem.path[:depth] in options), 0
        )
        option = options.get(problem.path[:depth], ".".join(map(str, problem.path)))
        yield option, problem.path[depth:], problem.message


def low_bounds(suite: Suite, plan: Plan) -> Iterator[str]:
    """Yield why the rate limit is too low for the offered rates."""
    bounds = plan.servers[0].bounds
    message = None if bounds is None else rate_problem(suite, bounds)
    if message is not None:
        yield f"--max-rate: {message}"


def ramp_s(length_s: float) -> float:
    """Return a tenth of a level's length, or less so that the window is long enough."""
    return round(max(0.0, min(length_s * RAMP_SHARE, (length_s - MIN_WINDOW_S) / 2)), 6)


def read_rates(texts: Mapping[str, str], fields: Mapping[str, FieldInfo]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of all options and the problems of unreadable ones, with the range of rates of a search."""
    given = dict(texts)
    if "objective" in given and "rate" in given:  # the range of the search, not rates
        given["rate"] = re.sub(r"^\s*(\w+)-(\w+)\s*$", r"\1,\2", given["rate"])
    values, problems = read_all(given, fields)
    if "objective" in given and "rate" not in given:
        values["rate"] = _searched(values.get("max_rate"))
    if not {"rate", "objective"} & set(given):  # reported by `open_problems`
        values = {name: value for name, value in values.items() if name not in ("arrivals", "trials")}
    return values, problems


def open_problems(texts: Collection[str]) -> Iterator[str]:
    """Yield the options of open load that are given without a rate."""
    if "trials" in texts and "objective" not in texts:
        yield "--trials: requires --objective"
    if "arrivals" in texts and not {"rate", "objective"} & set(texts):
        yield "--arrivals: requires --rate or --objective"


def _searched(bound: float | None) -> list[int]:
    """Return the range of the search. It ends at half the bound: closer to it, requests would be delayed."""
    if bound is None:
        return SEARCHED_RATES
    highest = max(2, min(SEARCHED_RATES[1], int(bound / 2)))
    return [min(SEARCHED_RATES[0], highest - 1), highest]
