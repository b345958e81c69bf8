"""The progress of a run: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from serverdyno import clean, interrupts, wording
from serverdyno.errors import DynoError
from serverdyno.plan.axis import Loaded
from serverdyno.plan.model import Level, RunKey
from serverdyno.run.progress import PresentRate, Progress
from serverdyno.store.records import LevelRecord
from serverdyno.units import format_count, format_duration_s

if TYPE_CHECKING:
    from serverdyno._native import Snapshot


Spelled = Callable[[str], str]
MOST_BARS = 12
BAR_CELLS = 32
FULL, PARTS = "\u2588", " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
"""The characters of a bar: a full cell, and cells that are one to seven eighths full."""


@contextmanager
def progress_for(
    console: Console, *, tells_failures: bool = True, spelled: Spelled = str
) -> Iterator[Progress]:
    """Yield a live line if `console` is a terminal that can move its cursor, and plain lines otherwise.

    `tells_failures`: print failed runs. A command with one run raises its failure instead. `spelled` names settings
    in hints as the user can set them.
    """
    if not console.is_interactive:
        yield PlainLines(console, tells_failures=tells_failures, spelled=spelled)
        return
    # Rich's refresh thread would write between a finished line and the lines below it, and would erase one line too
    # many.
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveLine(console, live, tells_failures=tells_failures, spelled=spelled)


class PlainLines:
    """Progress as one line per stage and one per finished level."""

    def __init__(self, console: Console, *, tells_failures: bool = True, spelled: Spelled = str) -> None:
        self._console = console
        self._tells_failures = tells_failures
        self._spelled = spelled
        self._left_s = 0.0

    def say(self, text: str, style: str = "") -> None:
        """Print one or more lines, without control characters."""
        with interrupts.held():  # the console would write interrupted output again with the next line
            self._console.print(Text(clean.text(text), style), soft_wrap=True)

    def stage(self, text: str) -> None:
        self.say(text)

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        """Record the time left, which is printed at the end of the level."""
        self._left_s = left_s - level.length_s

    def level_tick(self, snapshot: Snapshot) -> None: ...

    def level_finished(self, record: LevelRecord) -> None:
        """Print clients, throughput, errors and time left."""
        left = "" if record.step is not None else f", {format_duration_s(self._left_s)} left"
        self.say(f"{_finished(record)}{left}")

    def notice(self, text: str, hint: str | None = None) -> None:
        self.say(text, "bold")
        if hint:
            self.say(wording.hint(self._spelled(hint)))

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        if not self._tells_failures:
            return
        self.say(f"FAILED {run.folder}: {error}", "bold red")
        if error.hint:
            self.say(wording.hint(self._spelled(error.hint)))


class LiveLine(PlainLines):
    """Progress as a live line for the current level, below the lines and the chart of finished levels."""

    def __init__(
        self, console: Console, live: Live, *, tells_failures: bool = True, spelled: Spelled = str
    ) -> None:
        super().__init__(console, tells_failures=tells_failures, spelled=spelled)
        self._live = live
        self._run: RunKey | None = None
        self._level: Level | None = None
        self._rate = PresentRate()
        self._levels: list[LevelRecord] = []

    def stage(self, text: str) -> None:
        self._show(Text(clean.line(text), "dim"))

    def level_finished(self, record: LevelRecord) -> None:
        """Print the finished line and add a bar to the chart."""
        super().level_finished(record)
        if record.step is None:
            self._levels.append(record)

    def _show(self, line: Text) -> None:
        with interrupts.held():
            self._live.update(Group(*map(Text, bars(self._levels[-MOST_BARS:])), line), refresh=True)

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        """Start the live line of a level; each run begins a new chart."""
        if self._levels and self._levels[0].run != run.number:
            self._levels = []
        self._run, self._level, self._left_s, self._rate = run, level, left_s - level.length_s, PresentRate()

    def level_tick(self, snapshot: Snapshot) -> None:
        """Show the rate since the last tick, the p99, the errors and the time left."""
        if self._run is None or self._level is None:
            return
        if snapshot["elapsed_s"] == 0:
            self._show(
                Text(
                    f"{self._run.configuration} r{self._run.repetition}  {_load(self._level)}  "
                    f"{snapshot['clients_prepared']} of {self._level.clients} ready"
                )
            )
            return
        rate = self._rate.at(snapshot) or 0.0
        rest_s = max(0.0, self._level.length_s - snapshot["elapsed_s"])
        self._show(
            Text(
                f"{self._run.configuration} r{self._run.repetition}  {_load(self._level)}  "
                f"{format_count(rate)} operations/s  {_p99(snapshot)}{snapshot['errors']} errors; "
                f"{format_duration_s(rest_s)} left at this level, {format_duration_s(rest_s + self._left_s)} "
                "in total"
            )
        )


def _p99(snapshot: Snapshot) -> str:
    """Return the p99 with its unit; empty if there are too few responses."""
    return "" if snapshot["p99_ms"] is None else f"p99 {wording.significant(snapshot['p99_ms'])} ms  "


def bars(levels: Sequence[LevelRecord]) -> list[str]:
    """Return a line for each load level: clients, a bar for the rate, operations/s, p99 and errors."""
    highest = max((record.operations_s for record in levels), default=0.0)
    return [_bar(record, highest) for record in levels]


def _load(level: Loaded) -> str:
    """Return the load as text: `8 clients`, or `1,000/s offered` for open load."""
    return f"{level.clients} clients" if level.rate_per_s is None else f"{level.rate_per_s:,}/s offered"


def _bar(record: LevelRecord, highest: float) -> str:
    rate = record.operations_s
    eighths = round(rate / highest * BAR_CELLS * 8) if highest else 0
    bar = FULL * (eighths // 8) + (PARTS[eighths % 8] if eighths % 8 else "")
    p99_ms = record.response_time_ms(0.99)
    p99 = "unknown" if p99_ms is None else f"{p99_ms:.3g} ms"
    return (
        f"{_load(record):>15} {bar:<{BAR_CELLS}} {format_count(rate):>10} /s  p99 {p99:<9}  "
        f"{record.failures} errors"
    )


def _finished(record: LevelRecord) -> str:
    if record.step is not None:
        return f"{record.configuration} r{record.repetition}  {record.name:>24}  {record.window_s:.3f} s"
    rate = format_count(record.operations_s)
    worst = max(record.failed, key=lambda row: row.count, default=None)
    why = "" if worst is None else f" (most frequent: {clean.quoted(worst.example)})"
    why += f", {record.never_began} of {record.clients} clients could not begin" if record.never_began else ""
    return (
        f"{record.configuration} r{record.repetition}  {_load(record):>12}  {rate:>10} operations/s  "
        f"{record.failures} errors{why}"
    )
