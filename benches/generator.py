"""One mix in a process of its own: `python -m benches.generator '{"url": ..., ...}'`, the answer as JSON on one line.

Other generators are processes of their own too, so that CPU time and memory compare. Not for experiments: see
`serverdyno.runner`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from benches.mixes import http_target, web_mix
from serverdyno import _native

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
DRAIN_S = 60.0
LATE_IN_THE_MIX = 0.9  # when memory is looked at: every connection is open then


def main() -> None:
    """Runs the mix that the only argument describes."""
    print(json.dumps(run(json.loads(sys.argv[1]))))


def run(options: dict[str, Any]) -> dict[str, Any]:
    """`options`: those of `mixes.web_mix`, with `url` for `target`.

    Raises RuntimeError if it doesn't end. CPU time is that of the whole process from before the mix to after it.
    """
    target = http_target(options.pop("url"), trust=options.pop("trust", None))
    mix = web_mix(target, **options)
    rss_before = rss_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF)
    load = mix.start()
    load.wait(LATE_IN_THE_MIX * options["length_s"])
    rss_loaded = rss_bytes()
    if not load.wait(options["length_s"] + DRAIN_S):
        raise RuntimeError("the mix does not end")
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        **told(load.result()),
        "cpu_user_s": after.ru_utime - before.ru_utime,
        "cpu_system_s": after.ru_stime - before.ru_stime,
        "rss_growth_bytes": rss_loaded - rss_before,
    }


def told(result: _native.MixResult) -> dict[str, Any]:
    """What the benches use of a result. Raises RuntimeError where a success of the window has no sample."""
    response = _native.Histogram.from_bytes(result["response_time_hdr"])
    connect = _native.Histogram.from_bytes(result["connect_time_hdr"])
    if response.count != result["operations"]:
        raise RuntimeError(f"{result['operations']} requests, but {response.count} samples")
    return {
        "started_unix_s": result["started_unix_s"],
        "window_s": result["window_s"],
        "requests_in_window": result["operations"],
        "requests": result["operations_total"],
        "bytes_read": result["bytes_read"],
        "errors": sum(error["count"] for error in result["errors"]),
        "first_error": result["errors"][0]["example"] if result["errors"] else "",
        "cpu_in_window_us": 1e6 * (result["generator"]["cpu_user_s"] + result["generator"]["cpu_system_s"]),
        "connections": result["generator"]["connections"],
        "reconnects": result["generator"]["reconnects"],
        "response_samples": response.count,
        "response_ns": quantiles(response),
        "late_ns": _late_ns(result),
        "connect_samples": connect.count,
        "connect_ns": quantiles(connect),
    }


def _late_ns(result: _native.MixResult) -> dict[str, int] | None:
    """How late requests of open load left; None of closed load."""
    opened = result["open"]
    return None if opened is None else quantiles(_native.Histogram.from_bytes(opened["scheduling_error_hdr"]))


def quantiles(histogram: _native.Histogram) -> dict[str, int] | None:
    """Nanoseconds, or None of an empty histogram."""
    if not histogram.count:
        return None
    return {name: histogram.value_at(quantile) for name, quantile in QUANTILES.items()}


def rss_bytes() -> int:
    """Resident memory of this process now (proc_pid_statm(5))."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


if __name__ == "__main__":
    main()
