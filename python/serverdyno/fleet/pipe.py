"""The messages between a node and its controller, and the pipe that carries them between processes of one machine.

A request is `{"number": N, "do": NAME, "with": {...}}`. The answer has the same number. It is `{"told": ...}`,
followed by bytes if there is a tally, or `{"refused": KIND, "why": [...]}`, with the `hint` of a DynoError.
`worker.py` performs the requests.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable
from typing import Any

from serverdyno._native import SessionError
from serverdyno.errors import DynoError, ServerError, UserError
from serverdyno.units import MS_PER_S

REFUSALS: dict[str, type[Exception]] = {
    "server": ServerError,
    "user": UserError,
    "session": SessionError,
    "permission": PermissionError,
    "value": ValueError,
    "system": OSError,
    "runtime": RuntimeError,
}
"""Kinds of errors that a node reports to its controller, subclasses first."""
LENGTH_BYTES = 8
PIECE_BYTES = 1 << 20


class MessagePipe:
    """One end of a socket pair. Each message is preceded by its length.

    The other process may be stopped in the middle of a message, so every call calls `look` while it waits. Partly
    sent or received data are kept, so that an interrupted call does not affect the next one.
    """

    def __init__(
        self, end: socket.socket, look_s: float | None = None, look: Callable[[], None] = lambda: None
    ) -> None:
        """Create the pipe.

        `look` is called whenever no data could be sent or received for `look_s` (never if None). It may raise an
        exception to end the call.
        """
        end.setblocking(False)
        self._end, self._look_s, self._look = end, look_s, look
        self._unsent, self._received = bytearray(), bytearray()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for data. Return whether data have arrived."""
        return bool(self._received) or self._moves(select.POLLIN, timeout_s)

    def send(self, message: bytes) -> None:
        """Send a message. Raises OSError if the other end is closed."""
        self._unsent += len(message).to_bytes(LENGTH_BYTES, "big") + message
        while self._unsent:
            if not self._moves(select.POLLOUT, self._look_s):
                self._look()
                continue
            with contextlib.suppress(BlockingIOError):  # no room in the socket for now
                del self._unsent[: self._end.send(self._unsent[:PIECE_BYTES])]

    def receive(self) -> bytes:
        """Return the next message. Raises EOFError or OSError if the other end is closed."""
        self._receive_to(LENGTH_BYTES)
        end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES], "big")
        self._receive_to(end)
        message = bytes(self._received[LENGTH_BYTES:end])
        del self._received[:end]
        return message

    def close(self) -> None:
        self._end.close()

    def _receive_to(self, length: int) -> None:
        while len(self._received) < length:
            if not self._moves(select.POLLIN, self._look_s):
                self._look()
                continue
            piece = self._end.recv(PIECE_BYTES)
            if not piece:
                raise EOFError
            self._received += piece

    def _moves(self, event: int, timeout_s: float | None) -> bool:
        watch = select.poll()  # select(2) does not support descriptors from 1024 on
        watch.register(self._end, event)
        return bool(watch.poll(None if timeout_s is None else timeout_s * MS_PER_S))


def refusal(error: Exception) -> dict[str, Any]:
    """Return the answer that reports an error."""
    kind = next(name for name, kind in REFUSALS.items() if isinstance(error, kind))
    hint = {"hint": error.hint} if isinstance(error, DynoError) else {}
    return {"refused": kind, "why": [str(part) for part in error.args], **hint}


def told_or_raised(answer: dict[str, Any], blob: bytes | None) -> Any:
    """Return the result in an answer, with the bytes that follow it, if any.

    Raises the error that the answer reports, or KeyError or TypeError for a malformed answer.
    """
    if "refused" in answer:
        error = REFUSALS[answer["refused"]](*(str(part) for part in answer["why"]))
        if isinstance(error, DynoError):
            error.hint = answer.get("hint")
        raise error
    return answer["told"] if blob is None else (answer["told"], blob)
