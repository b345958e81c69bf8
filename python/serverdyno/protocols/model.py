"""The base of every checked document, and of everything that has a section of its own in a suite.

Not for: what the documents say.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Strict and frozen: what was checked is what is used."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class SectionModel(Model):
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
