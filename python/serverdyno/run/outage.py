"""The outage of a level, which interrupts the service in the middle of the window.

`servers/local.py` stops the server; `report/subjects/outages.py` reports the effects on the clients.
"""

from __future__ import annotations

import time

from serverdyno.errors import UserError
from serverdyno.plan.model import Level, Suite
from serverdyno.plan.protocols.work import Cut
from serverdyno.servers.base import RunningServer
from serverdyno.servers.local import LocalServer

NS_PER_S = 1_000_000_000


def cut_of(suite: Suite) -> Cut | None:
    """Return the kind of outage in the middle of each of the suite's levels; None if there is none."""
    return suite.work.cut(suite.settings(suite.work))


class Outage:
    def __init__(self, cut: Cut | None, server: RunningServer, level: Level) -> None:
        """Prepare the outage, if any. Raises UserError if the server does not support its kind."""
        self._cut, self._server = cut, server
        self._start_ns = 0
        self._due_s = 0.0
        self._ordered = False
        if cut is None:
            return
        window_s = level.length_s - level.ramp_up_s - level.ramp_down_s
        self._due_s = level.ramp_up_s + window_s * cut.percent / 100
        if not cut.by_clients and not (
            isinstance(server, LocalServer) and cut.how in server.settings_type.cuts
        ):
            raise UserError(
                f"this server does not support files.failover.cut = {cut.how!r}",
                hint='cut = "connections" works with every server.',
            )

    def look(self, elapsed_s: float) -> None:
        """Begin the outage once it is due. Called several times per second."""
        if self._cut is None or self._ordered or elapsed_s < self._due_s:
            return
        self._ordered = True
        self._start_ns = time.monotonic_ns() - round(elapsed_s * NS_PER_S)
        if not self._cut.by_clients:
            assert isinstance(self._server, LocalServer)
            self._server.cut_off(self._cut.how, self._cut.away_s)

    def at_s(self) -> float | None:
        """Return the time of the outage, in s from the level's start; None if there was none."""
        if self._cut is None or not self._ordered:
            return None
        if self._cut.by_clients:
            return self._due_s
        assert isinstance(self._server, LocalServer)
        cut_ns = self._server.was_cut_off_ns()
        return None if cut_ns is None else (cut_ns - self._start_ns) / NS_PER_S
