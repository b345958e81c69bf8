"""Base classes of every checked document, and of everything that has its own section in a suite."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class Model(BaseModel):
    """A strict and frozen model: values can't change after their check. The validator is built at first use."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


def _as_choice(value: object, annotation: object) -> object:
    """Return a number as the choice with the same spelling, and any other value unchanged."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    choices = _choices(annotation)
    return str(value) if value not in choices and str(value) in choices else value


def _choices(annotation: object) -> tuple[object, ...]:
    """Return the choices of a field's type, including all parts of a union."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return parts
    return tuple(choice for part in parts for choice in _choices(part))


SPELLING: Final = "spelling"
"""Type of the pydantic error that reports a misspelled text."""
SPELLED: Final = "must be {words}"


@dataclass(frozen=True, slots=True)
class Spelled:
    """A required spelling: a regular expression for programs, and `words` for people: "must be ..."."""

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the spelling after all other constraints of the field."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the pattern to the schema for editors."""
        return {**handler(schema), "pattern": f"^{self.pattern}$"}

    def _checked(self, value: str) -> str:
        if re.fullmatch(self.pattern, value) is None:
            raise PydanticCustomError(SPELLING, SPELLED, {"words": self.words})
        return value


class SettingsModel(Model):
    """Settings that people write in TOML."""

    @model_validator(mode="before")
    @classmethod
    def numbers_as_choices(cls, data: Any) -> Any:
        """Accept a number for the choice with the same spelling: TOML reads 4.1 without quotes as a number."""
        if not isinstance(data, dict):
            return data
        fields = cls.model_fields
        return {
            name: _as_choice(value, fields[name].annotation) if name in fields else value
            for name, value in data.items()
        }


class SectionModel(SettingsModel):
    """The settings of a protocol or a kind of work: a separate table in a suite's file."""

    def parameters(self) -> dict[str, Any]:
        """Return the settings that shape the load, by key."""
        return self.model_dump()


class NoSettings(SectionModel):
    pass


SettingsT = TypeVar("SettingsT", bound=SectionModel)


class HasSettings(Generic[SettingsT]):
    """The part of a protocol or a kind of work that a suite's file depends on."""

    section: ClassVar[str | None] = None
    """Key of the table in a suite's file; None if there are no settings."""
    settings_type: type[SettingsT]
