"""The data that a run records about its clients' sessions with a file server, and about their cache.

`report/subjects/negotiated.py` says how sessions affect the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from serverdyno.store import note as store

if TYPE_CHECKING:
    from serverdyno.counted import Counted


@dataclass(slots=True)
class NegotiatedSessions:
    """Negotiated sessions by kind, over the levels of a run; each client establishes a session at each level.

    `of_files`: whether any level has sessions.
    """

    of_files: bool = False
    sessions: list[dict[str, Any]] = field(default_factory=list)
    client_cache: dict[str, Any] | None = None

    def add(self, result: Counted) -> None:
        """Count the sessions of one level. The cache is the same at all levels of a run."""
        self.of_files = self.of_files or bool(result.sessions) or result.protocol_requests is not None
        self.client_cache = result.client_cache or self.client_cache
        for came in result.sessions:
            alike = next((known for known in self.sessions if _kind(known) == _kind(came)), None)
            if alike is None:
                self.sessions.append(came.copy())
            else:
                alike["clients"] += came["clients"]

    def note(self) -> dict[str, Any]:
        """Return the sessions for the run's note; empty for web servers."""
        if not self.of_files:
            return {}
        cache = self.client_cache
        return {
            "sessions": [store.Session(**session) for session in self.sessions],
            "client_cache": None if cache is None else store.ClientCache(**cache),
        }


def _kind(session: Mapping[str, Any]) -> dict[str, object]:
    return {name: value for name, value in session.items() if name != "clients"}
