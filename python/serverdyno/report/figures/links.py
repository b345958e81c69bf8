"""Compute how much of the capacity of a plan's links a load level used. The rule is in `analysis.trust`."""

from __future__ import annotations

import math

from serverdyno import units
from serverdyno.plan.testbed import Testbed
from serverdyno.report.figures.histograms import samples
from serverdyno.store.records import LevelRecord

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448
"""Size of a full Ethernet frame, as tbf(8) counts it, and of the data in it: MTU 1500, IPv4, TCP with time stamps."""
CONNECTION_BYTES = 74 + 66
"""Frames that each end sends for a TCP connection besides its data: one with SYN, one with FIN."""


def links_mbit_s(record: LevelRecord, testbed: Testbed | None) -> float | None:
    """Return what the links to the hosts with clients carry in each direction; None without a limit."""
    if testbed is None:
        return None
    mbit_s = testbed.mbit_s({node.node.removeprefix("node ") for node in record.nodes if node.clients})
    return mbit_s if 0 < mbit_s < math.inf else None


def link_share(record: LevelRecord, testbed: Testbed | None) -> float | None:
    """Return the share of the links' capacity that a level used, in the busier direction; None without a limit.

    It is a lower bound: acknowledgements, repeated packets and the bytes of failed operations are not counted.
    """
    mbit_s = links_mbit_s(record, testbed)
    if mbit_s is None:
        return None
    data = max(record.bytes_in, record.bytes_out) * FRAME_BYTES / SEGMENT_BYTES
    connections = samples(record.connect_time_hdr) * CONNECTION_BYTES
    return units.mbit_per_s(data + connections, record.window_s) / mbit_s
