"""How far the monotonic clock of a node is from that of this process, and how well that is known.

By an exchange of pings (RFC 5905, section 8, without the node's own two stamps): the node's time at the middle of the
quickest round trip. The error is half of that round trip: the offset can't be further off, however uneven the two ways.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from serverdyno.fleet.contract import Node
from serverdyno.units import NS_PER_S

PINGS = 12


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """What to add to this process's monotonic clock to get a node's."""

    offset_ns: int
    error_ns: int

    @property
    def offset_s(self) -> float:
        """In seconds."""
        return self.offset_ns / NS_PER_S

    @property
    def error_s(self) -> float:
        """In seconds."""
        return self.error_ns / NS_PER_S


SAME_CLOCK = ClockOffset(0, 0)


def measured(node: Node, pings: int = PINGS) -> ClockOffset:
    """Ask a node for its time so many times. Raises DynoError where it is gone."""
    if node.on_this_clock:
        return SAME_CLOCK
    best: ClockOffset | None = None
    for _ in range(pings):
        sent_ns = time.monotonic_ns()
        node.ask("clock")
        there_ns = int(node.answer())
        round_trip_ns = time.monotonic_ns() - sent_ns
        found = ClockOffset(there_ns - sent_ns - round_trip_ns // 2, (round_trip_ns + 1) // 2)
        if best is None or found.error_ns < best.error_ns:
            best = found
    assert best is not None, "at least one ping"
    return best
