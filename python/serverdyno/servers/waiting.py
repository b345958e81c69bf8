"""End the waits of a thread when the server for which it waits has ended.

Every wait for a server calls `look`: the data plane calls it regularly, and loops in Python call it in each
iteration.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from serverdyno import _native

Look = Callable[[], None]


class _Looks(threading.local):
    """The active checks of one thread."""

    def __init__(self) -> None:
        self.all: list[Look] = []


_looks = _Looks()


def look() -> None:
    """Run the checks of this thread. A check whose server has ended raises ServerError, which ends the wait."""
    for each in tuple(_looks.all):
        each()


@contextmanager
def ended_by(look_there: Look) -> Iterator[None]:
    """Call `look_there` 20 times per second in each wait of this thread in the block. If it raises, the wait ends."""
    looks = _looks.all
    looks.append(look_there)
    try:
        yield
    finally:
        looks.remove(look_there)


def every(seconds: float, ask: Look) -> Look:
    """Return a check that calls `ask` at most once per `seconds`, for a server that is queried over a network."""
    asked_s = time.monotonic()

    def look_there() -> None:
        nonlocal asked_s
        if time.monotonic() - asked_s >= seconds:
            ask()
            asked_s = time.monotonic()

    return look_there


_native.look_while_waiting(look)
