"""How long a node stays with its controller after the last message from it. `node.py` says what it does then."""

from __future__ import annotations

LEASE_S = 5.0
"""A node without a message from its controller for this long ends the load and is free for another."""
