"""`python -m benches.queues`: whether open load waits in real time as queueing theory says, M/D/1 and M/M/1.

The reference server waits a fixed time before each answer, or an exponentially distributed one; one connection serves
what comes by chance. The mean wait for the connection must be that of Pollaczek and Khinchine, `rate E[S^2] / (2 (1 -
rate E[S]))` (L. Kleinrock, Queueing Systems I, 1975, section 5.6), with rate and mean service time as they were in that
window, since a per cent of the load is ten of the wait at a load of 0.9. How service scatters is measured by a closed
load. Eight such queues run at a time, each with a connection and arrivals of its own. Prints a table; ten minutes with
the defaults. By a virtual clock the same is a test: `schedule/tests.rs`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from benches.mixes import http_target, web_mix
from benches.rounds import BenchError, cpus
from serverdyno._native import Histogram, ReferenceServer
from serverdyno.analysis.contrast import of_one

if TYPE_CHECKING:
    from serverdyno._native import MixResult, PreparedMix

MEAN_MS = 2
QUEUES = 8
LAWS = {"M/D/1": f"delay={MEAN_MS}ms", "M/M/1": f"random-delay={MEAN_MS}ms"}
LOADS = (0.5, 0.7, 0.9)
ROUNDS, SECONDS = 3, 30.0
RAMP_SHARE = 0.1
CLOSED_S = 3.0
GRACE_S = 60.0
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Window:
    """One window. Times in ms; `load`: of the connection, as it was."""

    load: float
    wait_ms: float
    expected_ms: float
    late_p99_ms: float


def main() -> None:
    """Measures each law at each load, and prints a row each."""
    options = _options()
    print("| queue | load | windows | mean wait, ms | expected, ms | difference | 95 % interval | late p99 |")
    print("|---|---|---|---|---|---|---|---|")
    for law, fault in LAWS.items():
        server = ReferenceServer.start(body_bytes=100, fault=fault, cpus=[cpus().server])
        try:
            url = f"http://127.0.0.1:{server.port}/"
            service_s, scatter = _service(url)
            for load in LOADS:
                found = [
                    window
                    for number in range(options.rounds)
                    for window in _windows(url, load / service_s, scatter, options.seconds, number)
                ]
                print(_row(law, found), flush=True)
        finally:
            server.stop()


def _row(law: str, found: list[Window]) -> str:
    if any(window.load >= 1 for window in found):
        return f"| {law} | {max(window.load for window in found):.3f} | not steady: service took longer than before |"
    expected_ms = fmean(window.expected_ms for window in found)
    off = np.array([window.wait_ms - window.expected_ms for window in found]) / expected_ms
    low, high = of_one(off).interval()
    cells = (
        law,
        f"{fmean(window.load for window in found):.3f}",
        len(found),
        f"{fmean(window.wait_ms for window in found):.3f}",
        f"{expected_ms:.3f}",
        f"{off.mean():+.1%}",
        f"{low:+.1%} to {high:+.1%}",
        f"{max(window.late_p99_ms for window in found):.2f} ms",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _service(url: str) -> tuple[float, float]:
    """`E[S]` in seconds and `E[S^2] / E[S]^2` of service, by one client that waits for its answers."""
    [result] = _run([_mix(url, CLOSED_S, 0)], CLOSED_S)
    times = Histogram.from_bytes(result["response_time_hdr"])
    return times.mean / NS_PER_S, 1 + (times.deviation / times.mean) ** 2


def _windows(url: str, rate_s: float, scatter: float, seconds: float, number: int) -> list[Window]:
    """Of all queues at once."""
    mixes = [_mix(url, seconds, QUEUES * number + queue, rate_per_s=rate_s) for queue in range(QUEUES)]
    return [_window(result, scatter) for result in _run(mixes, seconds)]


def _window(result: MixResult, scatter: float) -> Window:
    opened = result["open"]
    assert opened is not None  # it has a rate
    times = Histogram.from_bytes(result["response_time_hdr"])
    wait_s = opened["waiting_s"] / result["operations"]
    service_s = times.mean / NS_PER_S - wait_s
    rate_s = opened["arrivals_in_window"] / result["window_s"]
    load = rate_s * service_s
    late = Histogram.from_bytes(opened["scheduling_error_hdr"])
    expected_s = rate_s * scatter * service_s**2 / (2 * (1 - load)) if load < 1 else float("inf")
    return Window(load, wait_s * 1000, expected_s * 1000, late.value_at(0.99) / 1e6)


def _mix(url: str, seconds: float, seed: int, **arrival: Any) -> PreparedMix:
    return web_mix(
        http_target(url),
        workload="url",
        clients=1,
        threads=1,
        length_s=seconds,
        ramp_up_s=RAMP_SHARE * seconds,
        seed=seed,
        cpus=[cpus().generator],
        **arrival,
    )


def _run(mixes: list[PreparedMix], seconds: float) -> list[MixResult]:
    loads = [mix.start() for mix in mixes]
    for load in loads:
        if not load.wait(seconds + GRACE_S):
            raise BenchError("the mix does not end")
    results = [load.result() for load in loads]
    for result in results:
        if result["errors"]:
            raise BenchError(result["errors"][0]["example"])
    return results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches.queues", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of eight windows, at each load")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each")
    return parser.parse_args()


if __name__ == "__main__":
    main()
