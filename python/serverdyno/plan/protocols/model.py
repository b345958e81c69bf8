"""The base of every checked document, and of everything that has a section of its own in a suite.

Not for: what the documents say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class Model(BaseModel):
    """Strict and frozen: what was checked is what is used. A validator is built at its first use."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


def _as_choice(value: object, annotation: object) -> object:
    """Return a number as the choice that is written so; anything else as it is."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    choices = _choices(annotation)
    return str(value) if value not in choices and str(value) in choices else value


def _choices(annotation: object) -> tuple[object, ...]:
    """Return the choices of a field's type, of all parts of a union."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return parts
    return tuple(choice for part in parts for choice in _choices(part))


SPELLING: Final = "spelling"
"""The kind of a problem of spelling, of pydantic's errors, and its words."""
SPELLED: Final = "must be {words}"


@dataclass(frozen=True, slots=True)
class Spelled:
    """How a text must be spelled: a regular expression for programs, and `words` for people: "must be ..."."""

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Checked after everything else of the field."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """For editors, which know patterns."""
        return {**handler(schema), "pattern": f"^{self.pattern}$"}

    def _checked(self, value: str) -> str:
        if re.fullmatch(self.pattern, value) is None:
            raise PydanticCustomError(SPELLING, SPELLED, {"words": self.words})
        return value


class SettingsModel(Model):
    """Settings, as people write them in TOML."""

    @model_validator(mode="before")
    @classmethod
    def numbers_as_choices(cls, data: Any) -> Any:
        """Take a number for the choice that is written the same way: TOML reads 4.1 without quotes as one."""
        if not isinstance(data, dict):
            return data
        fields = cls.model_fields
        return {
            name: _as_choice(value, fields[name].annotation) if name in fields else value
            for name, value in data.items()
        }


class SectionModel(SettingsModel):
    """The settings of a protocol or of a kind of work, a table of its own in a suite's file."""

    def parameters(self) -> dict[str, Any]:
        """Return what shapes the load, by key."""
        return self.model_dump()


class NoSettings(SectionModel):
    """The settings of what has nothing to set."""


SettingsT = TypeVar("SettingsT", bound=SectionModel)


class HasSettings(Generic[SettingsT]):
    """A protocol or a kind of work, as far as a suite's file knows it."""

    section: ClassVar[str | None] = None
    """The key of the table in a suite's file; None: there is nothing to set."""
    settings_type: type[SettingsT]
