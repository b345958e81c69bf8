"""The progress of a run, stored so that a page that opens late or reconnects shows all of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from serverdyno.errors import DynoError
from serverdyno.plan.axis import Axis, axis_of
from serverdyno.plan.model import Level, RunKey
from serverdyno.plan.spelling import in_plan
from serverdyno.run.progress import PresentRate, Progress
from serverdyno.store.head import ExperimentHead
from serverdyno.store.records import LevelRecord
from serverdyno.units import mbit_per_s

if TYPE_CHECKING:
    from serverdyno._native import Snapshot

Event = dict[str, Any]
"""An event ready for JSON. Its `kind` is level, notice, failed or end."""


class Feed:
    """A listener that stores events for pages, which read them from other threads, and passes them on to `inner`.

    Lasting events (finished load levels, notices) are a list that only grows; the current state is overwritten.
    """

    def __init__(self, inner: Progress, head: ExperimentHead, folder: str, done: list[LevelRecord]) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._terms = head.suite.terms
        self._axis = axis_of(head.suite.axis, self._terms.operation)
        self._events: list[Event] = []
        self._now: Event = {}
        self._rate = PresentRate()
        self.about: Event = {
            "title": head.plan.title,
            "suite": ", ".join(suite.name for suite in head.suites),
            "folder": folder,
            "unit": self._terms.unit,
            "axis": self._axis.title,
            "configurations": [configuration.name for configuration in head.configurations],
            "levels_planned": len(head.order) * len(head.levels),
        }
        for record in done:
            self._keep_level(record)

    def since(self, index: int) -> tuple[list[Event], Event]:
        """Return the events from number `index` on, and the current state."""
        with self._lock:
            return self._events[index:], dict(self._now)

    def end(self, report: str | None) -> None:
        """Add the last event; a second call does nothing. `report` is the path of the report's page, if written."""
        if not any(event["kind"] == "end" for event in self._events):
            self._keep({"kind": "end", "report": report})

    def stage(self, text: str) -> None:
        self._set({"stage": text})
        self._inner.stage(text)

    def level_started(self, run: RunKey, level: Level, left_s: float) -> None:
        self._rate = PresentRate()
        self._set(
            {
                "configuration": run.configuration,
                "repetition": run.repetition,
                "level": self._axis.load(level),
                "noun": self._axis.noun,
                "length_s": level.length_s,
                "after_s": max(0.0, left_s - level.length_s),
                "elapsed_s": 0.0,
            }
        )
        self._inner.level_started(run, level, left_s)

    def level_tick(self, snapshot: Snapshot) -> None:
        now = {
            "elapsed_s": snapshot["elapsed_s"],
            "prepared": snapshot["clients_prepared"],
            "active": snapshot["clients_active"],
            "errors": snapshot["errors"],
            "operations_s": self._rate.at(snapshot),
            "p99_ms": snapshot["p99_ms"],
        }
        with self._lock:
            self._now = {**self._now, **now}
        self._inner.level_tick(snapshot)

    def level_finished(self, record: LevelRecord) -> None:
        self._keep_level(record)
        self._inner.level_finished(record)

    def notice(self, text: str, hint: str | None = None) -> None:
        self._keep({"kind": "notice", "text": text, "hint": hint and in_plan(hint)})
        self._inner.notice(text, hint)

    def run_failed(self, run: RunKey, error: DynoError) -> None:
        self._keep(
            {"kind": "failed", "text": f"{run.folder}: {error}", "hint": error.hint and in_plan(error.hint)}
        )
        self._inner.run_failed(run, error)

    def _keep_level(self, record: LevelRecord) -> None:
        """Add an event for a level: a point of a curve, or a notice for a level that ended when its work was done."""
        if record.step is None:
            self._keep(level_event(record, self._axis, self._terms.throughput(record)))
            return
        text = f"{record.configuration} r{record.repetition}, {record.name}: {record.window_s:.3f} s"
        self._keep({"kind": "notice", "text": text, "hint": None})

    def _keep(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)

    def _set(self, now: Event) -> None:
        with self._lock:
            self._now = now


def level_event(record: LevelRecord, axis: Axis, throughput: float) -> Event:
    """Return the figures of one finished load level; None if not measured.

    `level` is its position on the suite's axis, and `throughput` is in the suite's unit.
    """
    server_s = record.server_cpu_s
    return {
        "kind": "level",
        "run": record.run,
        "configuration": record.configuration,
        "repetition": record.repetition,
        "level": axis.load(record),
        "throughput": throughput,
        "operations_s": record.operations_s,
        "p50_ms": record.response_time_ms(0.5),
        "p99_ms": record.response_time_ms(0.99),
        "errors": record.failures,
        "server_cpus": None if server_s is None else server_s / record.window_s,
        "generator_cpus": record.generator_cpu_s / record.window_s,
        "nodes": [
            {
                "node": row.node.removeprefix("node "),
                "clients": row.clients,
                "operations_s": row.operations / record.window_s,
                "mbit_s": mbit_per_s(row.bytes_in, record.window_s),
                "generator_cpus": row.generator_cpu_s / record.window_s,
                "errors": row.errors,
            }
            for row in record.nodes
        ],
    }
