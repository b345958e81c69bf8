"""What a server of the user's is asked before and after its load; and what its answer says of it.

Each question goes to the address of a target that has consented. Each protocol has its own way to ask, which stands in
the protocol's module. Not for load, nor for whether load may go there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from serverdyno import _native
from serverdyno.errors import gone, no_answer

LOOK_S = 10.0  # for an answer


class Look(Protocol):
    """One way to ask: see `Protocol.look`."""

    has_shares: bool
    port: int | None
    """Where the protocol is spoken, if the URL does not say; None: nobody listens."""
    directory: Path | None
    """The directory of this machine that is meant; None: a server is."""

    def ask(self, target: Any) -> None:
        """Asks once. Raises AnswerError."""

    def version(self) -> str | None:
        """What the answer claims of the program; None before there is one."""

    def notes(self) -> list[str]:
        """What else it said."""


def first(look: Look, title: str, url: str, target: Any) -> None:
    """Asks for the first time. `title`: of the protocol. Raises ServerError."""
    try:
        look.ask(target)
    except _native.AnswerError as error:
        raise no_answer(url, title, error) from error


def again(look: Look, title: str, url: str, target: Any) -> None:
    """Asks once more. Raises ServerError where nothing takes the connection any more; who is slow is still there."""
    try:
        look.ask(target)
    except _native.AnswerError as error:
        if (ended := gone(url, title, error)) is not None:
            raise ended from error
