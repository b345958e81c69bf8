"""The base of every checked document: strict and frozen. Not for: what the documents say."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Strict and frozen: what was checked is what is used."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class NoSettings(Model):
    """The section of a protocol or a kind of work that has nothing to set."""
