"""Figures of a window that was sampled too late are unknown, not those of another period."""

from __future__ import annotations

import pytest

from serverdyno.plan.model import Level
from serverdyno.probes.window import MOST_LATE_S, UNKNOWN, WindowMeter

LEVEL = Level(1, "1", 1, 1, length_s=4.0, ramp_up_s=1.0, ramp_down_s=1.0, delay_s=0.0, think_time_s=0.0)


def looked(opened_s: float, closed_s: float) -> WindowMeter:
    meter = WindowMeter(lambda: 1.0, lambda _: {"fsync": 1})
    meter.look(opened_s, LEVEL)
    meter.look(closed_s, LEVEL)
    return meter


def test_samples_that_are_a_moment_late_are_used() -> None:
    meter = looked(1.0 + MOST_LATE_S / 2, 3.0 + MOST_LATE_S / 2)
    assert meter.use(2.0).server_cpu_s == pytest.approx(0.0)
    assert meter.syncs() == {"fsync": 0}


@pytest.mark.parametrize(
    ("opened_s", "closed_s"),
    [(1.1 + MOST_LATE_S, 3.0), (1.0, 3.1 + MOST_LATE_S), (1.0, 30.0)],
    ids=["at its beginning", "at its end", "by far"],
)
def test_what_was_looked_at_too_late_is_unknown(opened_s: float, closed_s: float) -> None:
    # This happens when the tool was stopped (SIGSTOP) while other processes continued its load.
    meter = looked(opened_s, closed_s)
    assert meter.use(2.0) == UNKNOWN
    assert meter.syncs() is None
