"""Progress reports of the runner. The command line shows them; this module prints nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from serverdyno.errors import DynoError
from serverdyno.plan.model import Level, RunKey
from serverdyno.store.records import LevelRecord

if TYPE_CHECKING:
    from serverdyno._native import Snapshot


class Progress(Protocol):
    """A listener. `left_s` is an estimate for the whole experiment, including server starts and the report."""

    def stage(self, text: str) -> None:
        """Receive the current activity, if it is not a level."""

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None: ...

    def level_tick(self, snapshot: Snapshot) -> None:
        """Receive the state of the running level several times per second."""

    def level_finished(self, record: LevelRecord) -> None:
        """Receive a finished level. Steps are recorded only once all steps of their suite have ended."""

    def notice(self, text: str, hint: str | None = None) -> None:
        """Receive a notice for the user that stops nothing."""

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        """Receive a failed run; the experiment continues with the next run."""


class PresentRate:
    """The current rate of a load level in operations/s, from two successive snapshots."""

    def __init__(self) -> None:
        self._elapsed_s, self._operations = 0.0, 0
        self._rate: float | None = None

    def at(self, snapshot: Snapshot) -> float | None:
        """Return the rate since the previous snapshot; None before any time has elapsed."""
        seconds = snapshot["elapsed_s"] - self._elapsed_s
        operations = snapshot["operations"] - self._operations
        self._elapsed_s, self._operations = snapshot["elapsed_s"], snapshot["operations"]
        if seconds > 0:
            self._rate = operations / seconds
        return self._rate
