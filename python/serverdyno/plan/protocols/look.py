"""Check that a user's server answers, before and after its load, and record the facts in the answer.

Each request goes to the address of a target that has consented. Each protocol's module has its own kind of query.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from serverdyno import _native
from serverdyno.errors import gone, no_answer

LOOK_S = 10.0
"""Minimum time limit for an answer. A longer timeout of the load extends it, because a disk may have to wake up."""


def look_s(timeout_s: float) -> float:
    """Return the time limit for the answer to a check, in seconds, for a load with this timeout."""
    return max(LOOK_S, timeout_s)


class Look(Protocol):
    """A way to check a server: see `Protocol.look`."""

    has_shares: bool
    port: int | None
    """Default port of the protocol, for URLs without a port; None if the protocol has no port."""
    directory: Path | None
    """The directory of this machine to check; None if a server is checked."""

    def ask(self, target: Any) -> None:
        """Query the server once. Raises AnswerError."""

    def version(self) -> str | None:
        """Return the version of the server; None if the answer contains none, or if there is no answer yet."""

    def notes(self) -> list[str]:
        """Return further facts from the answer."""


def first(look: Look, title: str, url: str, target: Any) -> None:
    """Query the server for the first time. `title` is the title of the protocol. Raises ServerError."""
    try:
        look.ask(target)
    except _native.AnswerError as error:
        raise no_answer(url, title, error) from error


def again(look: Look, title: str, url: str, target: Any) -> None:
    """Query the server again. Raises ServerError if it no longer accepts connections, but not if it is slow."""
    try:
        look.ask(target)
    except _native.AnswerError as error:
        if (ended := gone(url, title, error)) is not None:
            raise ended from error
