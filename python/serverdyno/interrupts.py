"""Signals that wait until something which must not be cut in two has ended.

Python raises KeyboardInterrupt between any two instructions of the main thread. Inside a lock of the standard library
that ends as another error; inside a console that has just written its buffer, the line is written twice. Not for: what
a signal means (`cli`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)


class Held:
    """The signals that have come meanwhile."""

    def __init__(self) -> None:
        self._came: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._came)

    def came(self, number: int, _frame: FrameType | None) -> None:
        """Keep the first for later. A second one ends even what waits for ever."""
        self._came.append(number)
        if len(self._came) > 1:
            raise KeyboardInterrupt

    def first(self) -> int | None:
        """The first, which the handlers have not heard of yet."""
        return self._came[0] if self._came else None


@contextmanager
def held() -> Iterator[Held]:
    """Keep signals back until the block has ended; then the first is handled as always. True once one has come.

    Signals are handled in the main thread alone: in others there is nothing to keep back.
    """
    signals = Held()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    handlers = {number: handler for number in NUMBERS if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, signals.came)
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if (first := signals.first()) is not None:
            signal.raise_signal(first)
