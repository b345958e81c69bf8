"""Ends the waits of a thread once the server that it waits for has ended.

Every wait for a server calls `look`. The data plane does so by itself; loops in Python call it in each turn. Not for:
signals, which Python raises in the main thread by itself.
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
    """Run the checks of this thread. One that finds its server ended raises, which ends the wait."""
    for each in tuple(_looks.all):
        each()


@contextmanager
def ended_by(look_there: Look) -> Iterator[None]:
    """Call `look_there` in each wait of this thread in the block, 20 times per second. If it raises, the wait ends."""
    looks = _looks.all
    looks.append(look_there)
    try:
        yield
    finally:
        looks.remove(look_there)


def every(seconds: float, ask: Look) -> Look:
    """Return a check that calls `ask` once per `seconds` at most, for a server that is asked over a network."""
    asked_s = time.monotonic()

    def look_there() -> None:
        nonlocal asked_s
        if time.monotonic() - asked_s >= seconds:
            ask()
            asked_s = time.monotonic()

    return look_there


_native.look_while_waiting(look)
