"""What is kept of a server besides its configuration files, `description.json`: the shape that it must have."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from serverdyno.store.note import Part


class DisclosedServer(Part):
    """A server's description; more names than these may be there."""

    server: str = ""
    version: str = ""
    command: list[str] = Field(default_factory=list)
    settings: dict[str, Any] = Field(default_factory=dict)
    files: list[str]
    notes: list[str] = Field(default_factory=list)
