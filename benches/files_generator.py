"""Run one level of work on files or objects in its own process: a line of JSON in, lines of JSON out; see `run`.

The first line on standard input is the request. On standard output, one line marks the start of the window, another its
end, so that the server can be measured at these moments. The last line is the result. Experiments use `serverdyno.run`
instead.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benches.levels import (
    files_level,
    http_target,
    nfs_target,
    objects_level,
    s3_target,
    smb_target,
    web_level,
    web_request,
)
from serverdyno import _native

LOOK_S, STILL_S = 0.02, 1.0
DRAIN_S = 120.0
OPEN, CLOSED = "open", "closed"


def main() -> None:
    """Run the level that the first line of standard input describes."""
    say(result=run(json.loads(sys.stdin.readline())))


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Run a level. `options` contains `target`, `files` and `shape` as in `levels`, and `load_file`, a path.

    Instead of `files`, it may have `objects`, or `web`: plain requests for one URL. With `hold`, the window starts once
    all clients are idle, and the level ends at the next line on standard input. Otherwise the level lasts `length_s`.
    Raises RuntimeError if it doesn't end.
    """
    shape = options["shape"]
    level = _prepared(options, shape)
    rss_before = rss_bytes()
    load = level.start()
    opens_s, closes_s = max(shape.get("ramp_up_s", 0.0), LOOK_S / 2), shape["length_s"]
    _wait_until(load, opens_s)
    if options["hold"]:
        _wait_until_still(load)
    rss_open = rss_bytes()
    say(moment=OPEN, cpu_s=cpu_s())
    if options["hold"]:
        sys.stdin.readline()
        load.stop()
    else:
        _wait_until(load, closes_s)
        say(moment=CLOSED, cpu_s=cpu_s())
    if not load.wait(DRAIN_S):
        raise RuntimeError("the level does not end")
    return told(load.result()) | {"rss_growth_bytes": rss_open - rss_before}


def _prepared(options: dict[str, Any], shape: dict[str, Any]) -> _native.PreparedLevel:
    if "objects" in options:
        return objects_level(s3_target(**options["target"]), **options["objects"], **shape)
    if "web" in options:
        request = web_request(**options["web"])
        return web_level(http_target(**options["target"]), workload="url", request=request, **shape)
    of_nfs = options["target"]["url"].startswith("nfs:")
    target = (nfs_target if of_nfs else smb_target)(**options["target"])
    files = options["files"] | {"keep_workspace": False}
    if options["load_file"] is not None:
        files["load_file"] = _native.LoadFile.read(options["load_file"])
    return files_level(target, files, **shape)


def _wait_until(load: _native.Load, elapsed_s: float) -> None:
    """Wait until `elapsed_s` after the level's start, when every client is prepared, or until its end."""
    while (left_s := elapsed_s - load.snapshot()["elapsed_s"]) > 0:
        if load.wait(left_s if left_s < elapsed_s else min(left_s, LOOK_S)):
            return


def _wait_until_still(load: _native.Load) -> None:
    """Wait until no operation ends between two snapshots. Raises RuntimeError if operations do not stop."""
    deadline, before = time.monotonic() + DRAIN_S, -1
    while (now := load.snapshot()["operations"]) != before:
        if time.monotonic() > deadline:
            raise RuntimeError("clients still send operations although they should be idle")
        before = now
        load.wait(STILL_S)


def told(result: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a result that benchmarks use. Raises RuntimeError if a success has no sample."""
    samples = _native.Histogram.from_bytes(result["response_time_hdr"]).count
    if samples != result["operations"]:
        raise RuntimeError(f"{result['operations']} operations, but {samples} samples")
    return {
        "window_s": result["window_s"],
        "operations_in_window": result["operations"],
        "operations": result["operations_total"],
        "bytes_in_window": result["bytes_read"] + result["bytes_written"],
        "errors": sum(error["count"] for error in result["errors"]),
        "first_error": result["errors"][0]["example"] if result["errors"] else "",
        "clients_at_the_end": result["clients_participating"],
        "bytes_checked": result["bytes_checked"],
        "messages": sum(request["count"] for request in result["requests"]),
        "requests_by_name": {request["request"]: request["count"] for request in result["requests"]},
        "messages_of_all": result["protocol_requests"],
        "calls": {call["call"]: call["bytes"] for call in result["calls"] if call["bytes"]},
        "cpu_in_window_s": result["generator_cpu_user_s"] + result["generator_cpu_system_s"],
    }


def cpu_s() -> float:
    """Return the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def say(**fields: object) -> None:
    """Print a line for the process that started this one."""
    print(json.dumps(fields), flush=True)


def rss_bytes() -> int:
    """Return the resident memory of this process now (proc_pid_statm(5))."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


if __name__ == "__main__":
    main()
