"""How far the monotonic clock of a node is from that of this process, and how well that is known.

By the four moments of an exchange (RFC 5905, section 8): no answer comes before it was said, and no request is heard
before it was sent. Each bounds the offset on one side; the offset can't be further off than half of what is between the
closest bounds, however uneven the two ways. Every request to a node is such an exchange: that which prepares a mix
counts, and pings are sent only where it was slow.
"""

from __future__ import annotations

from dataclasses import dataclass

from serverdyno.fleet.contract import Node
from serverdyno.units import NS_PER_S

EXCHANGES = 12
"""At most."""
CLOSE_NS = 400_000
"""An error that no further ping has to better. It is a bound: the offset itself is closer as a rule."""


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


def measured(node: Node, exchanges: int = EXCHANGES) -> ClockOffset:
    """By the last request to a node, and so many at most with pings. Raises DynoError where it is gone."""
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
    # Clocks that were set right meanwhile may leave nothing between the bounds.
    return ClockOffset((least + most) // 2, max(0, most - least + 1) // 2)
