"""What the runner tells about its progress. The command line draws it; nothing here prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from serverdyno.errors import DynoError
from serverdyno.plan.model import Mix, RunKey
from serverdyno.store.records import MixRecord

if TYPE_CHECKING:
    from serverdyno._native import Snapshot


class Progress(Protocol):
    """A listener. Seconds left are an estimate for the whole experiment, server starts and report included."""

    def stage(self, text: str) -> None:
        """What is done now, other than a mix."""

    def mix_started(self, run: RunKey, mix: Mix, left_s: float) -> None: ...

    def mix_tick(self, snapshot: Snapshot) -> None:
        """A few times a second while it runs."""

    def mix_finished(self, record: MixRecord) -> None:
        """A mix is over and kept; of a group, a level that will be kept once all of the group are over."""

    def notice(self, text: str, hint: str | None = None) -> None:
        """Something that the user must know and that stops nothing."""

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        """A run could not be carried out; the experiment goes on with the next."""


class PresentRate:
    """Operations a second of a load level, over the time since the last look."""

    def __init__(self) -> None:
        self._elapsed_s, self._operations = 0.0, 0
        self._rate: float | None = None

    def at(self, snapshot: Snapshot) -> float | None:
        """Return the rate now, as of the last look at which time had passed; None before."""
        seconds = snapshot["elapsed_s"] - self._elapsed_s
        operations = snapshot["operations"] - self._operations
        self._elapsed_s, self._operations = snapshot["elapsed_s"], snapshot["operations"]
        if seconds > 0:
            self._rate = operations / seconds
        return self._rate
