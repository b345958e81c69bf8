"""What a node and whoever asks it say to each other: a JSON document each way, and a tally as bytes.

A request is `{"number": N, "do": NAME, "with": {...}}`; the answer, under the same number, `{"told": ...}`, of a tally
with its bytes behind it, or `{"refused": KIND, "why": [...]}`, with the `hint` of an error of ours.
Not for: what the requests do (`worker.py`).
"""

from __future__ import annotations

from typing import Any

from serverdyno._native import SessionError
from serverdyno.errors import DynoError, ServerError, UserError

REFUSALS: dict[str, type[Exception]] = {
    "server": ServerError,
    "user": UserError,
    "session": SessionError,
    "permission": PermissionError,
    "value": ValueError,
    "system": OSError,
    "runtime": RuntimeError,
}
"""Kinds of errors that a worker tells its parent, the narrower first."""


def refusal(error: Exception) -> dict[str, Any]:
    """Return the answer that says of a request what it was refused with."""
    kind = next(name for name, kind in REFUSALS.items() if isinstance(error, kind))
    hint = {"hint": error.hint} if isinstance(error, DynoError) else {}
    return {"refused": kind, "why": [str(part) for part in error.args], **hint}


def told_or_raised(answer: dict[str, Any], blob: bytes | None) -> Any:
    """Return what an answer says, with the bytes behind it if there are any. Raises what the request was refused
    with, KeyError or TypeError for what is no answer.
    """
    if "refused" in answer:
        error = REFUSALS[answer["refused"]](*(str(part) for part in answer["why"]))
        if isinstance(error, DynoError):
            error.hint = answer.get("hint")
        raise error
    return answer["told"] if blob is None else (answer["told"], blob)
