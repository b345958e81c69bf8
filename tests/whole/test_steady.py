"""A real server that changes its speed in the middle of a window, and one that keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benches.levels import http_target, web_level

from serverdyno import _native
from serverdyno.analysis.steady import drifts
from support.reference_servers import start_http

FIRST_S, WINDOW_S = 1, 8
FRESH_ANSWERS = 80
"""Number of answers that take 50 ms each: four seconds, or longer on a busy machine; later ones take twice as long."""
PATIENCE_S = 60.0


@contextmanager
def under_way(fault: str) -> Iterator[_native.Load]:
    """Start a level against the reference server."""
    server = start_http(body_bytes=100, fault=fault)
    try:
        yield web_level(
            http_target(f"http://127.0.0.1:{server.port}/"),
            workload="url",
            clients=8,
            keep_alive=True,
            length_s=float(FIRST_S + WINDOW_S),
            ramp_up_s=float(FIRST_S),
            ramp_down_s=0.0,
        ).start()
    finally:
        server.stop()


def by_second(load: _native.Load) -> list[int]:
    """Return the answers in each second of the window."""
    assert load.wait(PATIENCE_S), "the level does not end"
    counted = {row["second"]: row["operations"] for row in load.result()["by_second"]}
    return [counted.get(second, 0) for second in range(FIRST_S, FIRST_S + WINDOW_S)]


def test_a_server_that_slows_down_in_the_middle_of_the_window_is_told() -> None:
    with under_way(f"tire={FRESH_ANSWERS}") as tiring, under_way("delay=50ms") as steady:
        completed = [by_second(load) for load in (tiring, steady)]
    tired, even = (drifts([answers])[0] for answers in completed)
    assert tired is not None and tired < -0.2 and even is None, completed
