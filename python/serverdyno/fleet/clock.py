"""The offset of a node's monotonic clock from this process's clock, and the error of this offset.

The offset follows from the four times of an exchange (RFC 5905, section 8). No answer arrives before it was sent, and
no request is received before it was sent. Each of these facts bounds the offset on one side. So the error is at most
half the distance between the closest bounds, even if the two directions have different delays. Every request to a node
is an exchange. The request that prepares a level is used, and pings follow only if it was slow.
"""

from __future__ import annotations

from dataclasses import dataclass

from serverdyno.fleet.contract import Node
from serverdyno.units import NS_PER_S

EXCHANGES = 12
"""Maximum number of exchanges for one offset."""
CLOSE_NS = 400_000
"""Bound on the error below which no further ping is sent. The true error is usually smaller."""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Offset of a node's monotonic clock from this process's clock."""

    offset_ns: int
    error_ns: int

    @property
    def offset_s(self) -> float:
        return self.offset_ns / NS_PER_S

    @property
    def error_s(self) -> float:
        return self.error_ns / NS_PER_S


SAME_CLOCK = ClockOffset(0, 0)


def measured(node: Node, exchanges: int = EXCHANGES) -> ClockOffset:
    """Return the offset, derived from the last request to a node and, if needed, from pings.

    Raises DynoError if the node is lost.
    """
    if node.on_this_clock:
        return SAME_CLOCK
    least, most = node.exchange.bounds_ns()
    for _ in range(exchanges - 1):
        if most - least <= 2 * CLOSE_NS:
            break
        node.ask("clock")
        node.answer()
        earliest, latest = node.exchange.bounds_ns()
        least, most = max(least, earliest), min(most, latest)
    # If a clock was adjusted between two exchanges, the bounds may contradict each other.
    return ClockOffset((least + most) // 2, max(0, most - least + 1) // 2)
