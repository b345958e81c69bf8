"""Observe the machine without changing it: what it is (`host.py`) and what else used it (`noise.py`)."""
