"""What a server of the user's is asked before and after its load, by its protocol; and what its answer says of it.

Each question goes to the address of a target that has consented. Not for load, nor for whether load may go there.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from serverdyno import _native
from serverdyno.errors import gone, no_answer
from serverdyno.protocols.http import HTTP
from serverdyno.protocols.nfs import NFS
from serverdyno.protocols.posix import POSIX, directory_of
from serverdyno.protocols.smb import SMB

LOOK_S = 10.0  # for an answer: connection, head and what is read of the body
LOOK_BYTES = 65536


class Look(Protocol):
    """One way to ask. A new protocol is one class and one line in `LOOKS`."""

    title: str
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


class WebLook:
    """One plain GET of the URL."""

    title = HTTP.title
    has_shares = False
    port: int | None = 80
    directory: Path | None = None

    def __init__(self, url: str) -> None:
        del url
        self._path = ""
        self._answer: _native.Answer | None = None

    def ask(self, target: _native.Target) -> None:
        """Asks once. Raises AnswerError."""
        path = target.facts["path"]
        answer = _native.http_get(target, path, timeout_s=LOOK_S, most_bytes=LOOK_BYTES)
        if self._answer is None:
            self._path, self._answer = path, answer

    def version(self) -> str | None:
        """The `Server` header is all that is known, and it is a claim."""
        return self._answer and self._answer["server"]

    def notes(self) -> list[str]:
        """The status."""
        if self._answer is None:
            return []
        return [f"GET {self._path} was answered with status {self._answer['status']} before the load."]


class FileLook:
    """One NEGOTIATE, without a user: something speaks SMB2 there."""

    title = SMB.title
    has_shares = True
    port: int | None = 445
    directory: Path | None = None

    def __init__(self, url: str) -> None:
        del url
        self._offer: _native.Offer | None = None

    def ask(self, target: Any) -> None:
        """Asks once. Raises AnswerError."""
        offer = _native.smb_probe(target.address, timeout_s=LOOK_S)
        self._offer = self._offer or offer

    def version(self) -> str | None:
        """The dialect: SMB has no version of the program."""
        return f"SMB {self._offer['dialect']}" if self._offer else None

    def notes(self) -> list[str]:
        """What was negotiated."""
        known = ["What FLUSH does there is unknown."]
        if (said := self._offer) is None:
            return known
        return [
            f"At the first look it chose SMB {said['dialect']}, signing "
            f"{'required' if said['signing_required'] else 'not required'}, reads of up to "
            f"{said['max_read_bytes']} and writes of up to {said['max_write_bytes']} bytes.",
            *known,
        ]


class ExportLook:
    """One mount of each export, and the room on it."""

    title = NFS.title
    has_shares = False
    port: int | None = 2049
    directory: Path | None = None

    def __init__(self, url: str) -> None:
        del url

    def ask(self, target: Any) -> None:
        """Asks once; what it says of its exports is judged by `runner/ask.py`."""
        target.look(0)

    def version(self) -> str | None:
        """The protocol: NFS has no version of the program."""
        return "NFS 3"

    def notes(self) -> list[str]:
        """What can't be known."""
        return ["What COMMIT does there is unknown."]


class DirectoryLook:
    """The directory, and the room on it."""

    title = POSIX.title
    has_shares = False
    port: int | None = None

    def __init__(self, url: str) -> None:
        self.directory: Path | None = Path(directory_of(url))

    def ask(self, target: Any) -> None:
        """Asks once; what it says is judged by `runner/ask.py`."""
        target.look(0)

    def version(self) -> str | None:
        """The kernel's, which has the file system."""
        return f"Linux {platform.release()}"

    def notes(self) -> list[str]:
        """What nobody else does."""
        return ["No server is in between: system calls on a directory of this machine."]


LOOKS: dict[str, Callable[[str], Look]] = {
    HTTP.name: WebLook,
    SMB.name: FileLook,
    NFS.name: ExportLook,
    POSIX.name: DirectoryLook,
}


def first(look: Look, url: str, target: Any) -> None:
    """Asks for the first time. Raises ServerError."""
    try:
        look.ask(target)
    except _native.AnswerError as error:
        raise no_answer(url, look.title, error) from error


def again(look: Look, url: str, target: Any) -> None:
    """Asks once more. Raises ServerError where nothing takes the connection any more; who is slow is still there."""
    try:
        look.ask(target)
    except _native.AnswerError as error:
        if (ended := gone(url, look.title, error)) is not None:
            raise ended from error
