"""For how long a node is its controller's after the last word from it. Not for: what it does then (`node.py`)."""

from __future__ import annotations

LEASE_S = 5.0
"""Without a word from its controller for so long, a node ends the controller's load and is free for another."""
