"""What ends a wait of a thread before its bound: the end of the server that the thread waits for.

Every wait for a server calls `look`: those of the data plane do so by themselves, loops of ours call it at each turn.
Not for: signals, which Python raises in the main thread by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from serverdyno import _native

Look = Callable[[], None]


class _Looks(threading.local):
    """The looks of one thread."""

    def __init__(self) -> None:
        self.all: list[Look] = []


_looks = _Looks()


def look() -> None:
    """Raise what ends the wait of this thread, if anything does."""
    for each in tuple(_looks.all):
        each()


@contextmanager
def ended_by(look_there: Look) -> Iterator[None]:
    """End each wait of this thread in the block with what `look_there` raises. It is called 20 times per second."""
    looks = _looks.all
    looks.append(look_there)
    try:
        yield
    finally:
        looks.remove(look_there)


def every(seconds: float, ask: Look) -> Look:
    """Return a look that asks no more often than that: for a server whose state is a question over a network."""
    asked_s = time.monotonic()

    def look_there() -> None:
        nonlocal asked_s
        if time.monotonic() - asked_s >= seconds:
            ask()
            asked_s = time.monotonic()

    return look_there


_native.look_while_waiting(look)
