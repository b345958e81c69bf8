"""The tables of a suite's file that belong to a protocol or a kind of work: `[http]`, `[smb]`, `[files]`.

In a file the tables are at the top level; in a `Suite` they are in one field, `sections`. Their models are in
`protocols.sections()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from serverdyno.plan import protocols
from serverdyno.plan.protocols.model import SPELLED, SPELLING, SectionModel

FIELD = "sections"


def gathered(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[InitErrorDetails]]:
    """Return a suite's document with its tables in one field, and the problems of the tables."""
    known = protocols.sections()
    rest = {key: value for key, value in data.items() if key not in known and key != FIELD}
    checked: dict[str, SectionModel] = {}
    problems: list[InitErrorDetails] = []
    match data.get(FIELD):
        case None:
            pass
        case dict(given) if given and all(isinstance(section, SectionModel) for section in given.values()):
            checked |= given  # from Python; in a file this key is unknown
        case given:
            problems.append(InitErrorDetails(type="extra_forbidden", loc=(FIELD,), input=given))
    for key, having in known.items():
        if key not in data:
            continue
        try:
            checked[key] = having.settings_type.model_validate(data[key])
        except ValidationError as error:
            problems += [as_initial(found, key) for found in error.errors(include_url=False)]
    return {**rest, FIELD: checked}, problems


def completed(sections: Mapping[str, SectionModel], workload: str) -> dict[str, SectionModel]:
    """Return the tables, with defaults for every missing table that shapes the load."""
    shaping = protocols.sections_for(protocols.work_of(workload))
    defaults = {each.section: each.settings_type() for each in shaping if each.section is not None}
    return {**defaults, **sections}


def as_initial(found: ErrorDetails, *place: str) -> InitErrorDetails:
    """Return a pydantic error as input for a new ValidationError, with its location moved below `place`."""
    is_ours = found["type"] == SPELLING  # pydantic knows only the messages of its own error types
    return InitErrorDetails(
        type=PydanticCustomError(SPELLING, SPELLED, found["ctx"]) if is_ours else found["type"],
        loc=(*place, *found["loc"]),
        input=found["input"],
        ctx=found.get("ctx", {}),
    )
