"""What more connections cost: requests a second, CPU time and memory of kept-alive connections, up to 10,000."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from benches.rounds import Cpus, Effort, Run, Stand, one_run
from benches.speed import BODY_BYTES
from benches.tools import Tool, dyno
from serverdyno.protocols.access import ANYBODY
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.running import running

SAMPLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Growth:
    """Numbers of connections of one kind to the reference server. `settings`: of the server, besides the body's size;
    `options`: of the mix. `ramp_windows`: the ramp, in which all connections are made, in lengths of the window.
    """

    name: str
    title: str
    connections: Sequence[int]
    rounds: int
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    ramp_windows: int = 1


PLAIN = Growth("growth", "kept-alive connections", (10, 100, 1_000, 10_000), 3)
SECURE = Growth(
    "growth-tls",
    "kept-alive connections over TLS 1.3, each by a full handshake",
    (10, 10_000),
    1,
    {"tls": "ecdsa-p256"},
    {"trust": ANYBODY, "tls": {"min_version": "1.3"}, "timeout_s": 60.0},
    ramp_windows=4,
)
STREAMS = Growth(
    "growth-http2",
    "connections of 100 streams each, HTTP/2 in the clear",
    (1, 1_000),
    1,
    {"http2": True},
    {"http_version": "2", "threads": 100, "streams": 100, "timeout_s": 60.0},
    ramp_windows=2,
)
EVERY = (PLAIN, SECURE, STREAMS)


def carry_out(growth: Growth, places: Cpus, effort: Effort) -> list[Run]:
    """Up and down the numbers of connections. Raises DynoError.

    Each run has a server of its own, since memory that is freed often stays with the process.
    """
    ramp_s = growth.ramp_windows * effort.seconds
    whole = replace(effort, seconds=ramp_s + effort.seconds)
    runs = []
    for number in range(min(growth.rounds, effort.rounds)):
        for count in growth.connections if number % 2 == 0 else reversed(growth.connections):
            tool = dyno(f"dyno, {count} connections", count, ramp_up_s=ramp_s, **growth.options)
            settings = {"body_bytes": BODY_BYTES} | growth.settings
            with running("reference", settings, cpus=[places.server]) as server:
                run = _one(Stand(growth.name, server, "/", places, whole), tool)
            runs.append(replace(run, round=number))
    return runs


def _one(stand: Stand, tool: Tool) -> Run:
    with PeakMemory(stand.server) as memory:
        run = one_run(stand, tool)
    return replace(run, details=run.details | {"server_rss_growth_bytes": memory.growth_bytes})


class PeakMemory:
    """Looks at the memory of a server twice a second, for the length of a `with` block."""

    def __init__(self, server: ServerDriver) -> None:
        self._server = server
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._before = self._peak = 0

    def __enter__(self) -> Self:
        self._before = self._peak = self._server.rss_bytes() or 0
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            self._peak = max(self._peak, self._server.rss_bytes() or 0)

    @property
    def growth_bytes(self) -> int:
        """By how much the highest that was seen exceeds the beginning."""
        return self._peak - self._before
