"""Observe the machine without changing it: its facts (`host.py`) and its use by other programs (`noise.py`)."""
