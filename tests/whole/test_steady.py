"""A real server that changes its speed in the middle of a window, and one that keeps it."""

from __future__ import annotations

import pytest
from benches.mixes import http_target, web_mix

from serverdyno import _native
from serverdyno.analysis.steady import drifts

FIRST_S, WINDOW_S = 1, 6
FRESH_ANSWERS = 80
"""Of 50 ms each: four seconds, so that the server is twice as slow in the second half of the window."""
PATIENCE_S = 60.0


def by_second(fault: str) -> list[int]:
    """Answers in each second of the window of a mix against the reference server."""
    server = _native.ReferenceServer.start(body_bytes=100, fault=fault)
    try:
        load = web_mix(
            http_target(f"http://127.0.0.1:{server.port}/"),
            workload="url",
            clients=8,
            keep_alive=True,
            length_s=float(FIRST_S + WINDOW_S),
            ramp_up_s=float(FIRST_S),
            ramp_down_s=0.0,
        ).start()
        assert load.wait(PATIENCE_S), "the mix does not end"
        counted = {row["second"]: row["operations"] for row in load.result()["by_second"]}
    finally:
        server.stop()
    return [counted.get(second, 0) for second in range(FIRST_S, FIRST_S + WINDOW_S)]


@pytest.mark.parametrize(("fault", "steady"), [(f"tire={FRESH_ANSWERS}", False), ("delay=50ms", True)])
def test_a_server_that_slows_down_in_the_middle_of_the_window_is_told(fault: str, steady: bool) -> None:
    completed = by_second(fault)
    [drift] = drifts([completed])
    assert (drift is None) if steady else (drift is not None and drift < -0.2), completed
