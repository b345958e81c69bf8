"""The required shape of a server's description, `description.json`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from serverdyno.store.note import Part


class DisclosedServer(Part):
    """A server's description. Further fields are allowed."""

    server: str = ""
    version: str = ""
    command: list[str] = Field(default_factory=list)
    settings: dict[str, Any] = Field(default_factory=dict)
    files: list[str]
    notes: list[str] = Field(default_factory=list)
