"""HTTP/1: how its clients speak, and what is said of it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from serverdyno.protocols.base import Protocol
from serverdyno.protocols.documents import DOCUMENTS
from serverdyno.protocols.model import SectionModel


class HttpSettings(SectionModel):
    """How a client speaks HTTP."""

    version: Literal["1.0", "1.1"] = "1.1"
    keep_alive: bool = True
    close: Literal["ordinary", "reset"] = "ordinary"
    receive_buffer_bytes: int = Field(default=65536, ge=256, le=16 * 1024 * 1024)


class Http(Protocol[HttpSettings]):
    """HTTP/1.0 and 1.1, in the clear."""

    name = "http"
    title = "HTTP"
    schemes = ("http",)
    example_url = "http://127.0.0.1:8080/"
    work = DOCUMENTS
    section = "http"
    settings_type = HttpSettings
    reference_server = "reference"

    def client_section(self, settings: HttpSettings) -> dict[str, Any]:
        """Return all settings."""
        return settings.model_dump()

    def described(self, settings: HttpSettings, timeout: str) -> str:
        """Say version, connections and buffer."""
        connection = "kept-alive connections" if settings.keep_alive else "a connection for each request"
        close = "" if settings.close == "ordinary" else " that is closed by a reset"
        return (
            f"HTTP/{settings.version}, {connection}{close}, receive buffer {settings.receive_buffer_bytes:,} bytes, "
            f"timeout {timeout}."
        )


HTTP = Http()
