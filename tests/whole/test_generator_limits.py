"""Real loads that the generator slows down, which every load level detects by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from benches.levels import http_target, web_level

from serverdyno.analysis.trust import Mark, generator_marks, hidden_speed, machine_marks, waiting_share
from support.dyno_process import PATIENCE_S
from support.file_server import needs_root
from support.reference_servers import start_http

LENGTH_S = 1.5
WINDOW_S = 1.0
CLIENTS = 16
MS = 1_000_000
CPU = min(os.sched_getaffinity(0))
SPIN = f"import os\nos.sched_setaffinity(0, [{CPU}])\nprint(flush=True)\nwhile True: pass"


# By its real-time policy, others wait for whole slices; a fair scheduler would prefer a generator that sleeps.
FIRST = f"""import os, time
os.sched_setaffinity(0, [{CPU}])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print(flush=True)
while True:
    until = time.monotonic() + 0.06
    while time.monotonic() < until: pass
    time.sleep(0.015)"""


@contextmanager
def busy_loop(program: str = SPIN) -> Iterator[None]:
    """Run a process that keeps the generator's CPU busy."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline(), "the other process did not begin"
            yield
        finally:
            other.kill()


def measured(threads: int = 1, added_cpu_ns: int = 0, **options: Any) -> dict[str, Any]:
    """Run a level of one second against the reference server."""
    server = start_http(body_bytes=100, **options)
    try:
        target = http_target(f"http://127.0.0.1:{server.port}/")
        load = web_level(
            target,
            workload="url",
            clients=CLIENTS,
            threads=1,
            length_s=LENGTH_S,
            ramp_up_s=LENGTH_S - WINDOW_S,
            engine_threads=threads,
            cpus=[CPU] * threads,
            added_cpu_ns=added_cpu_ns,
        ).start()
        assert load.wait(PATIENCE_S), "the level does not end"
        return load.result()
    finally:
        server.stop()


def run_delay_share(result: dict[str, Any]) -> float:
    delay_s: float | None = result["run_delay_s"]
    if delay_s is None:
        pytest.skip("this kernel does not count run delay")
    threads_s: float = result["generator_threads"] * result["window_s"]
    return delay_s / threads_s


def waiting(result: dict[str, Any]) -> float:
    clients_s = CLIENTS * result["window_s"]
    found = waiting_share(result["ready_work_s"], clients_s, run_delay_share(result))
    assert found is not None
    return found


@needs_root
def test_a_generator_that_another_process_starves_is_marked_though_it_uses_little_cpu() -> None:
    # The server waits 20 ms before each answer, so the generator's share of a round trip is almost nothing.
    with busy_loop(FIRST):
        result = measured(fault="delay=20ms")
    used_s = result["generator_cpu_user_s"] + result["generator_cpu_system_s"]
    assert used_s < 0.6 * WINDOW_S
    assert machine_marks(None, run_delay_share(result)) == {Mark.NOISY}


def marks(result: dict[str, Any]) -> frozenset[Mark]:
    """Return the marks due to the generator itself, without the server's CPU."""
    return generator_marks(hidden_speed(waiting(result), None))


def test_two_engine_threads_on_one_cpu_are_seen_to_hold_each_other_up() -> None:
    # Plans can't request this, but the engine allows it. A millisecond of work per request is unmistakable.
    result = measured(threads=2, added_cpu_ns=MS)
    assert result["generator_threads"] == 2
    assert machine_marks(None, run_delay_share(result)) == {Mark.NOISY}
    assert marks(result) == {Mark.GENERATOR_LIMITED}


def test_a_generator_that_works_for_a_millisecond_a_request_makes_a_thousand_a_second_and_is_marked() -> None:
    result = measured(added_cpu_ns=MS)
    assert result["operations"] <= 1001 * WINDOW_S
    assert marks(result) == {Mark.GENERATOR_LIMITED}


def test_streams_that_are_under_way_are_all_there_are() -> None:
    result = measured(fault="delay=5ms")
    assert result["outstanding_s"] == pytest.approx(16 * WINDOW_S, rel=0.02)
    assert 0 < waiting(result) < 1
