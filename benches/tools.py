"""The compared generators: their commands, and functions that read their results.

To add a generator, write a function here. `rounds.py` runs the generators.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from serverdyno.servers.base import ServerDriver

CONNECTIONS = 64
# ab allocates memory for this number of results when it starts, but its time limit ends it long before.
AB_MAX_REQUESTS = 1_000_000
USER_AGENT = "User-Agent: serverdyno"
THINK_SCRIPT = Path(__file__).with_name("think.lua")


@dataclass(frozen=True, slots=True)
class Account:
    """The tool's own figures of a run.

    `requests` counts from start to end, like the server; `requests_in_window` and `window_s` give the tool's rate.
    `cpu_s` is None if the tool does not measure itself. `details` is all of our own output.
    """

    requests: int
    requests_in_window: int
    window_s: float
    errors: int
    cpu_s: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    """A generator with its options."""

    name: str
    program: str
    command: Callable[[str, float], list[str]]  # from URL and seconds
    account: Callable[[str], Account]  # from its output
    connections: int = CONNECTIONS
    of_server: Callable[[ServerDriver], Tool] | None = None
    """Returns the tool for a running server, if it needs more than the URL."""

    @property
    def installed(self) -> bool:
        return shutil.which(self.program) is not None


def dyno(name: str = "dyno", connections: int = CONNECTIONS, **options: Any) -> Tool:
    """Return our generator, with `options` as in `levels.web_level`.

    It checks every response and records every response time.
    """

    def command(url: str, seconds: float) -> list[str]:
        level = {"workload": "url", "clients": connections, "threads": 1, "length_s": seconds} | options
        return [sys.executable, "-m", "benches.generator", json.dumps({"url": url} | level)]

    return Tool(name, sys.executable, command, dyno_account, connections)


def dyno_account(output: str) -> Account:
    """Read the last line that `benches.generator` prints."""
    told = json.loads(output.splitlines()[-1])
    return Account(
        told["requests"],
        told["requests_in_window"],
        told["window_s"],
        told["errors"],
        told["cpu_user_s"] + told["cpu_system_s"],
        told,
    )


def wrk(name: str = "wrk", *headers: str) -> Tool:
    """Return wrk with one thread, for whole seconds.

    It sends the same User-Agent as ours, so that the server's work is equal.
    """

    def command(url: str, seconds: float) -> list[str]:
        fields = [word for header in (USER_AGENT, *headers) for word in ("-H", header)]
        return ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{math.ceil(seconds)}s", *fields, url]

    return Tool(name, "wrk", command, wrk_account)


def wrk_thinking(think_ms: int) -> Tool:
    """Return wrk with a think time, in whole milliseconds as wrk requires."""
    plain = wrk()

    def command(url: str, seconds: float) -> list[str]:
        return [*plain.command(url, seconds), "-s", str(THINK_SCRIPT), "--", str(think_ms)]

    return replace(plain, command=command)


def wrk_account(output: str) -> Account:
    """Read wrk's summary. Answers other than 2xx and 3xx, which wrk counts as requests, are errors here."""
    requests = _number(r"(\d+) requests in ", output)
    seconds = _seconds(r"requests in ([\d.]+)(us|ms|s|m)\b", output)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    failures = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    refused = int(bad[1]) if bad else 0
    errors = refused + (sum(map(int, failures.groups())) if failures else 0)
    return Account(requests, requests - refused, seconds, errors)


def ab() -> Tool:
    """Return ApacheBench: HTTP/1.0 with a connection per request, for whole seconds."""

    def command(url: str, seconds: float) -> list[str]:
        return [
            *("ab", "-q", "-c", str(CONNECTIONS), "-t", str(math.ceil(seconds))),
            *("-n", str(AB_MAX_REQUESTS), url),  # after -t, which would set it to 50,000
        ]

    return Tool("ab", "ab", command, ab_account)


def ab_account(output: str) -> Account:
    """Read ab's summary. Answers other than 2xx, which ab counts as complete, are errors here."""
    complete = _number(r"Complete requests:\s+(\d+)", output)
    bad = re.search(r"Non-2xx responses:\s+(\d+)", output)
    errors = _number(r"Failed requests:\s+(\d+)", output) + (int(bad[1]) if bad else 0)
    seconds = _seconds(r"Time taken for tests:\s+([\d.]+) (seconds)", output)
    return Account(complete, complete - errors, seconds, errors)


H2LOAD_CLOSED_REQUESTS_S = 3000
"""Requests per second of the run for h2load with a connection per request: h2load 1.52 then ignores its time limit."""


def h2load(name: str = "h2load", *headers: str) -> Tool:
    """Return h2load over HTTP/1.1, with one thread."""

    def command(url: str, seconds: float) -> list[str]:
        fields = [word for header in headers for word in ("-H", header)]
        closed = any(header.lower() == "connection: close" for header in headers)
        amount = (
            ["-n", str(math.ceil(seconds * H2LOAD_CLOSED_REQUESTS_S))]
            if closed
            else ["-D", str(math.ceil(seconds))]
        )
        return ["h2load", "--h1", "-t1", f"-c{CONNECTIONS}", *amount, *fields, url]

    return Tool(name, "h2load", command, h2load_account)


def h2load_streams(name: str, connections: int, streams: int) -> Tool:
    """Return h2load over HTTP/2 with one thread: by ALPN for https, with prior knowledge for http."""

    def command(url: str, seconds: float) -> list[str]:
        return ["h2load", "-t1", f"-c{connections}", f"-m{streams}", "-D", str(math.ceil(seconds)), url]

    return Tool(name, "h2load", command, h2load_account, connections)


def h2load_account(output: str) -> Account:
    """Read h2load's summary. Finished requests without success are errors."""
    done = _number(r"requests: .*?(\d+) done", output)
    succeeded = _number(r"(\d+) succeeded", output)
    errored = _number(r"(\d+) failed", output)
    seconds = _seconds(r"finished in ([\d.]+)(us|ms|s|m)\b", output)
    return Account(done, succeeded, seconds, errored + max(0, done - succeeded - errored))


def oha(name: str = "oha", *options: str) -> Tool:
    """Return oha with one thread, for whole seconds like its peers.

    Debian has no package of it, so it is only compared if it is installed.
    """

    def command(url: str, seconds: float) -> list[str]:
        fixed = [
            "-z",
            f"{math.ceil(seconds)}s",
            "-c",
            str(CONNECTIONS),
            "--insecure",
            "--no-tui",
            "--output-format",
            "json",
        ]
        return ["env", "TOKIO_WORKER_THREADS=1", "oha", *fixed, *options, url]

    return Tool(name, "oha", command, oha_account)


def oha_account(output: str) -> Account:
    """Read oha's JSON. Requests that it aborts at the end do not count."""
    told = json.loads(output[output.index("{") :])
    statuses = {int(status): count for status, count in told["statusCodeDistribution"].items()}
    good = sum(count for status, count in statuses.items() if status < 400)
    failed = sum(count for why, count in told["errorDistribution"].items() if "deadline" not in why)
    return Account(
        sum(statuses.values()),
        good,
        told["summary"]["total"],
        failed + sum(statuses.values()) - good,
    )


def _number(pattern: str, output: str) -> int:
    return int(_match(pattern, output)[1])


def _seconds(pattern: str, output: str) -> float:
    found = _match(pattern, output)
    return float(found[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0, "seconds": 1.0, "m": 60.0}[found[2]]


def _match(pattern: str, output: str) -> re.Match[str]:
    found = re.search(pattern, output)
    if found is None:
        raise ValueError(f"no {pattern!r} in what the tool printed:\n{output}")
    return found
