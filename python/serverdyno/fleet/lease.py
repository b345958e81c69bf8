"""The lease of a controller on a node. `node.py` acts at its end."""

from __future__ import annotations

LEASE_S = 5.0
"""If a node gets no message from its controller for this time, it ends the load and is free for another controller."""
