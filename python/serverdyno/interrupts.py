"""Hold signals back during an operation that must not be interrupted.

Python raises KeyboardInterrupt between any two instructions of the main thread. Inside a lock of the standard library,
the interrupt turns into another error. If a console has just written its buffer, the line is written twice. `cli`
decides what a signal does.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)


class Held:
    """The signals that have arrived while they were held back."""

    def __init__(self) -> None:
        self._came: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._came)

    def came(self, number: int, _frame: FrameType | None) -> None:
        """Keep the first signal for later. Raise KeyboardInterrupt at the second, so that no wait is endless."""
        self._came.append(number)
        if len(self._came) > 1:
            raise KeyboardInterrupt

    def first(self) -> int | None:
        """Return the first signal, which has not been handled yet; None if none has arrived."""
        return self._came[0] if self._came else None


@contextmanager
def held() -> Iterator[Held]:
    """Hold signals back until the block has ended, and then handle the first signal as usual.

    Only the main thread handles signals, so in other threads this does nothing.
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
