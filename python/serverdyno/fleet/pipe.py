"""What a generator process and its parent say to each other: a line of JSON each way, and a tally as bytes.

A request is `{"do": NAME, "with": {...}}`; the answer `{"told": ...}`, `{"bytes": true}` with the bytes behind it, or
`{"refused": KIND, "why": [...]}`. Not for: what the requests do (`worker.py`).
"""

from __future__ import annotations

from serverdyno._native import SessionError

REFUSALS: dict[str, type[Exception]] = {
    "session": SessionError,
    "permission": PermissionError,
    "value": ValueError,
    "system": OSError,
    "runtime": RuntimeError,
}
"""Kinds of errors that a worker tells its parent, the narrower first."""
