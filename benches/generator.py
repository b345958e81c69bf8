"""Run one level in its own process: `python -m benches.generator '{"url": ..., ...}'`.

The result is a line of JSON. Other generators are also separate processes, so CPU time and memory are comparable.
Experiments use `serverdyno.run` instead.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from benches.levels import http_target, web_level
from serverdyno import _native

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
DRAIN_S = 60.0


def main() -> None:
    """Run the level that the only argument describes."""
    print(json.dumps(run(json.loads(sys.argv[1]))))


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Run a level. `options` are the options of `levels.web_level`, with `url` instead of `target`.

    Raises RuntimeError if the level doesn't end. CPU time covers the whole process during the level.
    """
    target = http_target(options.pop("url"), trust=options.pop("trust", None))
    level = web_level(target, **options)
    before = resource.getrusage(resource.RUSAGE_SELF)
    load = level.start()
    if not load.wait(options["length_s"] + DRAIN_S):
        raise RuntimeError("the level does not end")
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        **told(load.result()),
        "cpu_user_s": after.ru_utime - before.ru_utime,
        "cpu_system_s": after.ru_stime - before.ru_stime,
    }


def told(result: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a result that benchmarks use. Raises RuntimeError if a success has no sample."""
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
        "connections": result["connections"],
        "reconnects": result["reconnects"],
        "response_samples": response.count,
        "response_ns": quantiles(response),
        "connect_samples": connect.count,
        "connect_ns": quantiles(connect),
    }


def quantiles(histogram: _native.Histogram) -> dict[str, int] | None:
    """Return the quantiles in ns; None for an empty histogram."""
    if not histogram.count:
        return None
    return {name: histogram.value_at(quantile) for name, quantile in QUANTILES.items()}


if __name__ == "__main__":
    main()
