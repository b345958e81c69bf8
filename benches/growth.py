"""What more connections cost: requests a second, CPU time and memory at 10 to 10,000 kept-alive connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

from benches.rounds import Cpus, Effort, Run, Stand, one_run
from benches.speed import BODY_BYTES
from benches.tools import Tool, dyno
from serverdyno.servers.base import ServerDriver
from serverdyno.servers.running import running

CONNECTIONS = (10, 100, 1_000, 10_000)
ROUNDS = 3
SAMPLE_S = 0.5


def carry_out(places: Cpus, effort: Effort, connections: Sequence[int] = CONNECTIONS) -> list[Run]:
    """Up and down the numbers of connections. Raises DynoError.

    Each run has a server of its own, since memory that is freed often stays with the process; and a ramp as long as
    the window, in which all connections are made.
    """
    longer = replace(effort, seconds=2 * effort.seconds)
    runs = []
    for number in range(min(ROUNDS, effort.rounds)):
        for count in connections if number % 2 == 0 else reversed(connections):
            with _server(places) as server:
                tool = dyno(f"dyno, {count} connections", count, ramp_up_s=effort.seconds)
                run = _one(server, tool, places, longer)
            runs.append(replace(run, round=number))
    return runs


@contextmanager
def _server(places: Cpus) -> Iterator[ServerDriver]:
    with running("reference", {"body_bytes": BODY_BYTES}, cpus=[places.server]) as server:
        yield server


def _one(server: ServerDriver, tool: Tool, places: Cpus, effort: Effort) -> Run:
    with PeakMemory(server) as memory:
        run = one_run(Stand("growth", server, "/", places, effort), tool)
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
